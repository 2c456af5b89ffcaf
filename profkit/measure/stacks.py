"""Functions as they called each other, outermost first: the tree that a flame graph draws, with the sides' own seconds.

Where the tracer kept calling contexts (`Thread.paths`), the tree is theirs. Where a file holds sums of caller–callee pairs
alone, paths are made of those as gprof does (Graham, Kessler, McKusick 1982): a function is taken to divide its time over
what it calls in the same way whoever called it. Such a tree says so in `StackTable.measured`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.measure.calls import CallSide

__all__ = ["OTHERS", "FunctionTimes", "StackSide", "StackTable", "stacks_of_pairs"]

Index = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

#: In the place of a function's row: calls that are too short to be kept apart.
OTHERS = -1
#: Contexts that a tree holds.
MOST_NODES = 3000
#: Part (1) of a side's time from which a context is kept apart: less than a pixel, unless most of the time is waiting.
LEAST_SHARE = 1e-4
#: Calls inside each other that are followed.
DEEPEST = 80


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTimes:
    """One side's functions, by row; seconds, 0 where nothing was measured."""

    tottime: Floats
    cumtime: Floats
    queued: Floats
    blocked: Floats


@dataclass(frozen=True, slots=True, eq=False)
class StackSide:
    """One side's columns of a `StackTable`, 0 where it lacks a context.

    Attributes
    ----------
    ncalls : float64 array, shape (n,)
        Calls; a fraction where they were apportioned.
    own, queued, blocked : float64 array, shape (n,)
        Self time in this context, and what of it was queued for a CPU or off the CPU otherwise, seconds.
    """

    ncalls: Floats
    own: Floats
    queued: Floats
    blocked: Floats


@dataclass(frozen=True, slots=True, eq=False)
class StackTable:
    """Calling contexts of one or more sides as one tree, in preorder: those that took most first.

    Attributes
    ----------
    depth : int32 array, shape (n,)
        0 for what nothing in the profile calls; a context is inside the last one before it with a lesser depth.
    row : int32 array, shape (n,)
        Row of the table of functions, or `OTHERS`.
    again : bool array, shape (n,)
        The function is open further out already, and is followed no further.
    sides
        One for each side.
    measured
        Whether contexts were traced, rather than made of pairs.
    """

    depth: Index
    row: Index
    again: npt.NDArray[np.bool_]
    sides: tuple[StackSide, ...]
    measured: bool

    def __len__(self) -> int:
        return len(self.row)


@dataclass(slots=True)
class _Node:
    """A context while the tree is made; `times`, `own` and `calls` have one value a side."""

    row: int
    parent: int
    depth: int
    times: Floats
    own: Floats
    calls: Floats
    again: bool = False


def stacks_of_pairs(
    caller: Index, callee: Index, pairs: Sequence[CallSide], functions: Sequence[FunctionTimes]
) -> StackTable | None:
    """Make paths of caller–callee sums, the widest first.

    Parameters
    ----------
    caller, callee : int32 array, shape (m,)
        Rows of functions.
    pairs, functions
        Of each side.

    Returns
    -------
    StackTable or None
        ``None`` where no side took any time.
    """
    totals = np.array([side.tottime.sum() for side in functions])
    if not (totals > 0).any():
        return None
    nodes, children = _grown(caller, callee, pairs, functions, np.where(totals > 0, totals, np.inf))
    order = _preorder(nodes, children)
    row = np.array([nodes[i].row for i in order], np.int32)
    own = np.array([nodes[i].own for i in order]).reshape(len(order), len(functions))
    calls = np.array([nodes[i].calls for i in order]).reshape(len(order), len(functions))
    return StackTable(
        np.array([nodes[i].depth for i in order], np.int32),
        row,
        np.array([nodes[i].again for i in order], np.bool_),
        tuple(
            _divided(calls[:, side], own[:, side], row, times) for side, times in enumerate(functions)
        ),
        measured=False,
    )


def _divided(calls: Floats, own: Floats, row: Index, times: FunctionTimes) -> StackSide:
    """Divide self times as those of their functions are."""
    known = (row >= 0) & (times.tottime[row] > 0)
    parts = [
        np.where(known, own * np.divide(part[row], times.tottime[row], where=known, out=np.zeros(len(row))), 0.0)
        for part in (times.queued, times.blocked)
    ]
    return StackSide(calls, own, *(np.minimum(part, own) for part in parts))


def _grown(
    caller: Index, callee: Index, pairs: Sequence[CallSide], functions: Sequence[FunctionTimes], totals: Floats
) -> tuple[list[_Node], dict[int, list[int]]]:
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
    children: dict[int, list[int]] = {-1: []}
    waiting: list[tuple[float, int]] = []

    def add(node: _Node) -> None:
        children.setdefault(node.parent, []).append(len(nodes))
        if node.row != OTHERS and not node.again and node.depth < DEEPEST:
            heapq.heappush(waiting, (-float((node.times / totals).max()), len(nodes)))
        nodes.append(node)

    share = (outermost / totals[:, None]).max(axis=0)
    roots = [row for row in np.argsort(-share, kind="stable")[: MOST_NODES // 4].tolist() if share[row] >= LEAST_SHARE]
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
    return nodes, children


def _ratio(part: Floats, whole: Floats) -> Floats:
    """`part` of `whole`, at most 1, and 0 of nothing."""
    return np.minimum(np.divide(part, whole, where=whole > 0, out=np.zeros(len(part))), 1.0)


def _rows_around(nodes: Sequence[_Node], place: int) -> set[int]:
    found = set()
    while place >= 0:
        found.add(nodes[place].row)
        place = nodes[place].parent
    return found


def _preorder(nodes: Sequence[_Node], children: dict[int, list[int]]) -> list[int]:
    order: list[int] = []
    left = children[-1][::-1]
    while left:
        place = left.pop()
        order.append(place)
        left += children.get(place, [])[::-1]
    return order
