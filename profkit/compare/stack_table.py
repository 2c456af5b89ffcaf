"""The tree of calling contexts that a flame graph draws, outermost function first.

Without `Thread.paths`, it is built from caller–callee sums as in gprof (Graham, Kessler, McKusick 1982).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.compare.call_table import CallSide
from profkit.compare.result_types import SideTable
from profkit.measure.selected_processes import Selected
from profkit.model.arrays import Bools, Floats, Index, Ints, Rows
from profkit.model.paths import Paths, depths, preorder, with_callees

#: Stands for a function's row: calls too short to be shown separately.
OTHERS = -1
#: Part (0 to 1) of the time that must have traced contexts before a tree is built from them.
COVERED = 0.9
#: Most contexts of a tree.
MOST_NODES = 3000
#: Part (0 to 1) of a side's time from which a context is shown separately: less than a pixel, unless waiting
#: takes most of the time.
LEAST_SHARE = 1e-4
#: Most nested calls that are followed.
DEEPEST = 80


@dataclass(frozen=True, slots=True, eq=False)
class StackSide:
    """One side's columns of a `StackTable`, shape (n,): seconds, 0 where it lacks a context.

    `ncalls` is fractional where apportioned; `queued` and `blocked` are included in `own`.
    """

    ncalls: Floats
    own: Floats
    queued: Floats
    blocked: Floats


@dataclass(frozen=True, slots=True, eq=False)
class StackTable:
    """Calling contexts of one or more sides as one tree in preorder, widest first; arrays have shape (n,).

    `depth` is 0 for a root; a parent is the last context before with a lesser depth. `row` is a row of the
    function table, or `OTHERS`. `again`: the function is already open further out, and is followed no
    further. `measured`: contexts were traced, not built from pairs.
    """

    depth: Index
    row: Index
    again: Bools
    sides: tuple[StackSide, ...]
    measured: bool

    def __len__(self) -> int:
        return len(self.row)


#: Paths of one thread, and the table row for each row of its profile, −1 without one.
PlacedPaths = tuple[Paths, Rows]


def placed_paths(selected: Selected) -> list[PlacedPaths] | None:
    """Return all threads' paths with their rows; ``None`` if less than `COVERED` of the time has paths."""
    found: list[PlacedPaths] = []
    with_paths = everything = 0.0
    for _, thread, rows in selected.threads:
        everything += thread.profile.total
        if thread.paths is not None:
            with_paths += float(thread.paths.tottime.sum())
            found.append((thread.paths, rows))
    return found if with_paths > 0 and with_paths >= COVERED * everything else None


def stacks_of_paths(sides: Sequence[Sequence[Sequence[PlacedPaths]]]) -> StackTable | None:
    """Merge traced contexts (threads by side and run, runs averaged) into one tree; ``None`` without any."""
    placed = [(side, len(runs), part) for side, runs in enumerate(sides) for run in runs for part in run]
    placed = [entry for entry in placed if len(entry[2][0])]
    if not placed:
        return None
    sizes = [len(paths) for _, _, (paths, _) in placed]
    starts = np.cumsum([0, *sizes])
    parent = np.concatenate(
        [
            np.where(p.parent >= 0, p.parent + start, -1)
            for (_, _, (p, _)), start in zip(placed, starts, strict=False)
        ]
    )
    row = np.concatenate(
        [np.where(p.function >= 0, rows[p.function], OTHERS) for _, _, (p, rows) in placed]
    ).astype(np.int64)
    node, around, of_node = _merged(parent, row)
    size = len(around)

    def summed(name: str) -> Floats:
        """Return values by side and node."""
        found = np.zeros((len(sides), size))
        for at, (side, runs, (paths, _)) in enumerate(placed):
            values = np.nan_to_num(getattr(paths, name).astype(np.float64)) / runs
            np.add.at(found[side], node[starts[at] : starts[at + 1]], values)
        return found

    columns = [summed(name) for name in ("ncalls", "tottime", "wait", "blocked")]
    kept, into = _kept(around, of_node, columns[1], columns[1] - columns[3])
    folded = []
    for column in columns:
        total = np.zeros((len(sides), len(kept)))
        for side in range(len(sides)):
            np.add.at(total[side], into, column[side])
        folded.append(total)
    around, of_node = kept[:, 0], kept[:, 1]
    within = sum(with_callees(around, own) for own in folded[1])
    widest_first = np.argsort(-np.asarray(within), kind="stable").tolist()
    order = np.array(preorder(around.tolist(), widest_first), np.int64)
    return StackTable(
        depths(around)[order].astype(np.int32),
        of_node[order].astype(np.int32),
        np.zeros(len(order), np.bool_),
        tuple(StackSide(*(column[side][order] for column in folded)) for side in range(len(sides))),
        measured=True,
    )


def _merged(parent: Ints, row: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge equal paths into one node; return each path's node, and each node's parent and row."""
    depth = depths(parent)
    node = np.full(len(parent), -1, np.int64)
    around: list[Ints] = []
    rows: list[Ints] = []
    size = 0
    span = int(row.max(initial=0)) + 2
    known_row = np.zeros(0, np.int64)
    for level in range(int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(depth == level)
        outer = np.where(parent[here] >= 0, node[parent[here]], -1)
        # A function folded into its caller, such as a comprehension, is the same node.
        same = (
            (outer >= 0) & (row[here] == known_row[np.maximum(outer, 0)])
            if size
            else np.zeros(len(here), bool)
        )
        node[here[same]] = outer[same]
        here, outer = here[~same], outer[~same]
        keys, place = np.unique((outer + 1) * span + row[here] + 1, return_inverse=True)
        node[here] = size + place.reshape(-1)
        around.append(keys // span - 1)
        rows.append(keys % span - 1)
        known_row = np.concatenate([known_row, rows[-1]])
        size += len(keys)
    return node, np.concatenate(around), np.concatenate(rows)


def _kept(around: Ints, row: Ints, times: Floats, active: Floats) -> tuple[Ints, Ints]:
    """Choose the widest nodes, by all or active time, and one node for the others of each parent.

    Return parent and row of each, shape (k, 2), and the chosen node that each node is booked on, shape (n,).
    """
    wide = np.zeros(len(around))
    for measure in (times, active):
        for side in measure:
            total = float(side.sum())
            if total > 0:
                wide = np.maximum(wide, with_callees(around, side) / total)
    least = max(LEAST_SHARE, float(np.sort(wide)[-MOST_NODES]) if len(wide) > MOST_NODES else 0.0)
    stays = (wide >= least) & (row != OTHERS)
    inside = around >= 0
    while (inside & stays & ~stays[around]).any():
        stays &= ~inside | stays[around]
    outer = around.copy()
    while (further := ~stays & (outer >= 0) & ~stays[outer]).any():
        outer[further] = around[outer[further]]
    number = np.cumsum(stays) - 1
    callers, place = np.unique(outer[~stays], return_inverse=True)
    into = np.where(stays, number, 0)
    into[~stays] = int(stays.sum()) + place.reshape(-1)
    parents = np.concatenate([around[stays], callers])
    kept = np.stack(
        [
            np.where(parents >= 0, number[parents], -1),
            np.concatenate([row[stays], np.full(len(callers), OTHERS)]),
        ],
        axis=1,
    )
    return kept, into


@dataclass(slots=True)
class _Node:
    """A context while the tree is built; `times`, `own` and `calls` have one value per side."""

    row: int
    parent: int
    depth: int
    times: Floats
    own: Floats
    calls: Floats
    again: bool = False


def stacks_of_pairs(
    caller: Index, callee: Index, pairs: Sequence[CallSide], functions: Sequence[SideTable]
) -> StackTable | None:
    """Build a tree from caller–callee sums, shape (m,), widest first; ``None`` if no side took time."""
    totals = np.array([side.tottime.sum() for side in functions])
    if not (totals > 0).any():
        return None
    nodes = _grown(caller, callee, pairs, functions, np.where(totals > 0, totals, np.inf))
    order = preorder([node.parent for node in nodes], range(len(nodes)))
    row = np.array([nodes[i].row for i in order], np.int32)
    own = np.array([nodes[i].own for i in order]).reshape(len(order), len(functions))
    calls = np.array([nodes[i].calls for i in order]).reshape(len(order), len(functions))
    return StackTable(
        np.array([nodes[i].depth for i in order], np.int32),
        row,
        np.array([nodes[i].again for i in order], np.bool_),
        tuple(_divided(calls[:, side], own[:, side], row, times) for side, times in enumerate(functions)),
        measured=False,
    )


def _divided(calls: Floats, own: Floats, row: Index, times: SideTable) -> StackSide:
    """Divide self times into queued and blocked parts as for the whole function; 0 where not measured."""
    queued = np.zeros(len(times.tottime)) if times.wait is None else times.wait
    blocked = np.maximum(times.tottime - times.active, 0.0)
    known = (row >= 0) & (times.tottime[row] > 0)
    parts = [
        np.where(
            known, own * np.divide(part[row], times.tottime[row], where=known, out=np.zeros(len(row))), 0.0
        )
        for part in (queued, blocked)
    ]
    return StackSide(calls, own, *(np.minimum(part, own) for part in parts))


def _grown(
    caller: Index,
    callee: Index,
    pairs: Sequence[CallSide],
    functions: Sequence[SideTable],
    totals: Floats,
) -> list[_Node]:
    n = len(functions[0].tottime)
    cumulative = np.array([side.cumtime for side in functions])
    own = np.array([side.tottime for side in functions])
    edge_time = np.array([side.cumtime for side in pairs]).reshape(len(functions), -1)
    edge_own = np.array([side.tottime for side in pairs]).reshape(len(functions), -1)
    edge_calls = np.array([side.ncalls for side in pairs], np.float64).reshape(len(functions), -1)
    between = caller != callee
    called = np.array([np.bincount(callee[between], side[between], n) for side in edge_time])
    outermost = np.maximum(cumulative - called, 0.0)
    order = np.argsort(caller, kind="stable")
    first = np.searchsorted(caller[order], np.arange(n + 1))

    nodes: list[_Node] = []
    waiting: list[tuple[float, int]] = []

    def add(node: _Node) -> None:
        if node.row != OTHERS and not node.again and node.depth < DEEPEST:
            heapq.heappush(waiting, (-float((node.times / totals).max()), len(nodes)))
        nodes.append(node)

    share = (outermost / totals[:, None]).max(axis=0)
    roots = [
        row
        for row in np.argsort(-share, kind="stable")[: MOST_NODES // 4].tolist()
        if share[row] >= LEAST_SHARE
    ]
    for row in roots:
        time = outermost[:, row]
        part = _ratio(time, cumulative[:, row])
        add(_Node(row, -1, 0, time, np.minimum(own[:, row] * part, time), np.zeros(len(functions))))
    rest = np.maximum(outermost.sum(axis=1) - outermost[:, roots].sum(axis=1), 0.0)
    if rest.any():
        add(_Node(OTHERS, -1, 0, rest, rest, np.zeros(len(functions))))
    while waiting:
        _, place = heapq.heappop(waiting)
        node = nodes[place]
        edges = order[first[node.row] : first[node.row + 1]]
        edges = edges[between[edges]]
        rest = np.maximum(node.times - node.own, 0.0)
        part = np.minimum(
            _ratio(node.times, cumulative[:, node.row]), _ratio(rest, edge_time[:, edges].sum(axis=1))
        )
        times = edge_time[:, edges] * part[:, None]
        node.own = node.times - times.sum(axis=1)
        wide = (times / totals[:, None]).max(axis=0, initial=0.0)
        kept = np.flatnonzero(wide >= LEAST_SHARE) if len(nodes) < MOST_NODES else np.zeros(0, np.intp)
        around = _rows_around(nodes, place)
        for at in kept[np.argsort(-wide[kept], kind="stable")].tolist():
            edge = edges[at]
            row = int(callee[edge])
            again = row in around
            time = times[:, at]
            inner = time if again else np.minimum(edge_own[:, edge] * part, time)
            add(_Node(row, place, node.depth + 1, time, inner, edge_calls[:, edge] * part, again))
        left = times.sum(axis=1) - times[:, kept].sum(axis=1)
        if float((left / totals).max()) >= LEAST_SHARE / 10:
            add(_Node(OTHERS, place, node.depth + 1, left, left, np.zeros(len(functions))))
        else:
            node.own += left
    return nodes


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return ``part / whole``, at most 1, and 0 where `whole` is 0."""
    return np.minimum(np.divide(part, whole, where=whole > 0, out=np.zeros(len(part))), 1.0)


def _rows_around(nodes: Sequence[_Node], place: int) -> set[int]:
    found = set()
    while place >= 0:
        found.add(nodes[place].row)
        place = nodes[place].parent
    return found
