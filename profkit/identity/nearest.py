"""Pairing of same-named functions of one file that differ in number between the sides."""

from __future__ import annotations

import numpy as np

from profkit.model.arrays import Index, Ints

#: Above this many cells of the dynamic programme, a group is paired by equal (shifted) lines only. A million
#: cells are 8 MB of costs and about 10 ms; only generated files have more.
MAX_CELLS = 1_000_000


def pair_nearest(
    rows: tuple[Ints, Ints],
    group: tuple[Index, Index],
    file: tuple[Index, Index],
    line: tuple[Index, Index],
    anchors: tuple[Index, Index, Index],
) -> tuple[Ints, Ints]:
    """Return the pairs of `rows` of each group with the least sum of line distances, in order.

    They are ordered by group and line; every group is on both sides. `anchors` (file, baseline line,
    candidate line of matched functions) tell how lines shifted.
    """
    rows_a, rows_b = rows
    (group_a, group_b), (file_a, file_b), (line_a, line_b) = (
        (before[rows_a], after[rows_b]) for before, after in (group, file, line)
    )
    above_a, below_a = _shifts(file_a, line_a, anchors[0], anchors[1], anchors[2])
    above_b, below_b = _shifts(file_b, line_b, anchors[0], anchors[2], anchors[1])
    groups = np.unique(group_a)
    start_a, stop_a = np.searchsorted(group_a, groups), np.searchsorted(group_a, groups, "right")
    start_b, stop_b = np.searchsorted(group_b, groups), np.searchsorted(group_b, groups, "right")
    pairs_a: list[Ints] = []
    pairs_b: list[Ints] = []
    for first_a, last_a, first_b, last_b in zip(start_a, stop_a, start_b, stop_b, strict=True):
        part_a, part_b = slice(first_a, last_a), slice(first_b, last_b)
        if (last_a - first_a) * (last_b - first_b) > MAX_CELLS:
            here = (above_a[part_a] << 32) | line_a[part_a]
            there = (line_b[part_b].astype(np.int64) << 32) | above_b[part_b]
            _, at_a, at_b = np.intersect1d(here, there, return_indices=True)
        else:
            # Both directions count, so that neither is preferred.
            cost = _distance(above_a[part_a], below_a[part_a], line_b[part_b])
            cost += _distance(above_b[part_b], below_b[part_b], line_a[part_a]).T
            at_a, at_b = _monotone(cost) if len(cost) <= cost.shape[1] else _monotone(cost.T)[::-1]
        pairs_a.append(rows_a[part_a][at_a])
        pairs_b.append(rows_b[part_b][at_b])
    return np.concatenate(pairs_a), np.concatenate(pairs_b)


def _shifts(file: Index, line: Index, anchor_file: Index, here: Index, there: Index) -> tuple[Ints, Ints]:
    """Return lines shifted to the other side, by the matched function above and by the one below."""
    lines = line.astype(np.int64)
    if not len(anchor_file):
        return lines, lines
    place = (anchor_file.astype(np.int64) << 32) + here
    order = np.argsort(place, kind="stable")
    place, moved = place[order], (there.astype(np.int64) - here)[order]
    after = np.searchsorted(place, (file.astype(np.int64) << 32) + line, "right")
    above, below = np.maximum(after - 1, 0), np.minimum(after, len(place) - 1)
    has_above = (after > 0) & (place[above] >> 32 == file)
    has_below = (after < len(place)) & (place[below] >> 32 == file)
    by_above = np.where(has_above, moved[above], 0)
    return lines + by_above, lines + np.where(has_below, moved[below], by_above)


def _distance(above: Ints, below: Ints, line: Index) -> Ints:
    """Return doubled line distances after the shift; on ties the shift from above is preferred."""
    by_above = 2 * np.abs(above[:, None] - line[None, :])
    by_below = 2 * np.abs(below[:, None] - line[None, :]) + 1
    nearest: Ints = np.minimum(by_above, by_below)
    return nearest


def _monotone(cost: Ints) -> tuple[Ints, Ints]:
    """Assign each of n rows one of m >= n columns, increasing, at the least total cost."""
    n, m = cost.shape
    width = m - n + 1
    best = np.zeros(width, np.int64)
    choice = np.empty((n, width), np.int64)
    for i in range(n):
        # Row i can only take columns i to i + width - 1; the best prefix up to each is a running minimum.
        total = best + cost[i, i : i + width]
        best = np.minimum.accumulate(total)
        first = np.concatenate([[True], best[1:] < best[:-1]])
        choice[i] = np.maximum.accumulate(np.where(first, np.arange(width), 0))
    columns = np.empty(n, np.int64)
    at = width - 1
    for i in range(n - 1, -1, -1):
        at = int(choice[i, at])
        columns[i] = at + i
    return np.arange(n), columns
