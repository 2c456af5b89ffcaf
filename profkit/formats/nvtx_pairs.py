"""Matching of begins with ends for whole NVTX logs, by running sums and sorts instead of a loop."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Bools, Ints


def _sums(group: Ints, step: Ints) -> Ints:
    """Return running sums of `step` that begin at 0 in every group; `group` is ascending."""
    total = np.cumsum(step)
    first = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    before = total[first] - step[first]
    sizes = np.diff(np.concatenate([first, [len(group)]]))
    return total - np.repeat(before, sizes)


def _lonely(group: Ints, step: Ints) -> Bools:
    """Return which pops find their stack empty: where the running sum falls below its earlier minimum."""
    sums = _sums(group, step)
    first = np.concatenate([[True], group[1:] != group[:-1]])
    # Groups are offset so far that one running minimum over all starts afresh in each.
    apart = np.cumsum(first) * (2 * len(group) + 2)
    lowest = np.minimum.accumulate(np.minimum(sums, 0) - apart) + apart
    before = np.concatenate([[0], lowest[:-1]])
    before[first] = 0
    return sums < before


def pair_pushes(stack: Ints, pushed: Bools) -> tuple[Ints, int]:
    """Pair pushes with pops, each stack in time order.

    Return the event that popped each push, −1 elsewhere, and the number of pops of an empty stack.
    """
    match = np.full(len(stack), -1, np.int64)
    if not len(stack):
        return match, 0
    order = np.argsort(stack, kind="stable")
    group, step = stack[order], np.where(pushed[order], 1, -1)
    lonely = _lonely(group, step)
    order, group, step = order[~lonely], group[~lonely], step[~lonely]
    if len(order):
        level = _sums(group, step) - (step > 0)
        by_level = np.lexsort((level, group))
        one, two = by_level[:-1], by_level[1:]
        # On one level of one stack, pushes and pops alternate.
        pairs = (step[one] > 0) & (step[two] < 0) & (level[one] == level[two]) & (group[one] == group[two])
        match[order[one[pairs]]] = order[two[pairs]]
    return match, int(lonely.sum())


def _parents(group: Ints, step: Ints) -> Ints:
    """Return for each push the last push one level below in its group, −1 if none; `group` is ascending."""
    parent = np.full(len(group), -1, np.int64)
    pushes = np.flatnonzero(step > 0)
    if not len(pushes):
        return parent
    level = _sums(group, step)[pushes] - 1
    _, dense = np.unique(group[pushes], return_inverse=True)
    shelf = dense.reshape(-1).astype(np.int64) * (int(level.max()) + 2) + level + 1
    # On each shelf (one level of one group) positions ascend, so shelf and position sort as one number.
    span = len(group) + 1
    keys = shelf * span + pushes
    order = np.argsort(keys)
    below = np.searchsorted(keys[order], (shelf - 1) * span + pushes) - 1
    found = (level > 0) & (below >= 0)
    parent[pushes[found]] = pushes[order[below[found]]]
    return parent


def enclosing(thread: Ints, stack: Ints, pushed: Bools, match: Ints) -> Ints:
    """Return for each push the push of the innermost range around it, −1 if none; int64, shape (n,).

    Events of one thread are together and in time order; each domain has its own stack. Ranges of other
    domains of the thread count if both their ends are around the range.
    """
    result = np.full(len(stack), -1, np.int64)
    if not len(stack):
        return result
    keep = pushed.copy()
    keep[match[match >= 0]] = True  # without lonely pops
    kept = np.flatnonzero(keep)
    order = kept[np.argsort(stack[kept], kind="stable")]
    within = _parents(stack[order], np.where(pushed[order], 1, -1))
    found = within >= 0
    result[order[found]] = order[within[found]]
    # Again over all domains of a thread. A leaked range would enclose all later ones, so only complete ones.
    complete = match >= 0
    complete[match[match >= 0]] = True
    kept = np.flatnonzero(complete)
    if not len(kept):
        return result
    across = _parents(thread[kept], np.where(pushed[kept], 1, -1))
    rows = np.flatnonzero(across >= 0)
    child, around = kept[rows], kept[across[rows]]
    contains = (match[around] > match[child]) & (thread[around] == thread[child])
    child, around = child[contains], around[contains]
    inner = around > result[child]
    result[child[inner]] = around[inner]
    return result


def pair_starts(offset: Ints, ended: npt.NDArray[np.uint64], time: Ints, generation: int) -> tuple[Ints, int]:
    """Return the first end of each started range, −1 if none, and the number of ends without an open range.

    `offset` (n,) is each begin's place in its file; `ended` (m,) are ids of ends, ``generation << 48 |
    offset``. Another `generation` is that of a process from which this one was forked; its ids are not
    counted.
    """
    partner = np.full(len(offset), -1, np.int64)
    ours = np.flatnonzero((ended >> np.uint64(48)) == generation)
    places = (ended[ours] & np.uint64((1 << 48) - 1)).astype(np.int64)
    if not len(offset):
        return partner, len(ours)
    order = np.argsort(offset)
    at = np.minimum(np.searchsorted(offset[order], places), len(order) - 1)
    known = offset[order[at]] == places
    ours, begin = ours[known], order[at[known]]
    by_time = np.lexsort((time[ours], begin))
    first, where = np.unique(begin[by_time], return_index=True)
    partner[first] = ours[by_time[where]]
    return partner, int((ended >> np.uint64(48) == generation).sum()) - len(first)
