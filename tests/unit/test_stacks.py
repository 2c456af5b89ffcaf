"""Calling contexts as a tree: what is made of pairs of caller and callee, and what of traced paths."""

from __future__ import annotations

import json
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from profkit.compare import stack_table
from profkit.compare.call_table import CallSide
from profkit.compare.result_types import SideTable
from profkit.compare.stack_table import OTHERS, StackTable, stacks_of_pairs, stacks_of_paths
from profkit.model import Paths
from profkit.report.pictures import run_figures
from tests.programs import Fn, plain

Floats = npt.NDArray[np.float64]


class Pair(NamedTuple):
    caller: int
    callee: int
    own: float
    within: float


def tree(
    own: list[float], within: list[float], pairs: list[Pair], queued: list[float] | None = None
) -> StackTable:
    """One side's functions by number, and who calls whom."""
    n, times = len(own), np.array(own)
    ones, wait = np.ones(n, np.int64), np.array(queued or [0.0] * n)
    side = SideTable(ones > 0, ones, ones, ones, times, np.array(within), times, times, wait)
    caller, callee, *seconds = (np.array(column) for column in zip(*pairs, strict=True))
    columns = CallSide(np.ones(len(pairs), np.int64), *seconds)
    return stacks_of_pairs(caller.astype(np.int32), callee.astype(np.int32), (columns,), (side,))


def within(table: StackTable, side: int = 0) -> Floats:
    """Time of each context with what it called."""
    found = table.sides[side].own.copy()
    for node in range(len(table) - 1, 0, -1):
        around = [i for i in range(node) if table.depth[i] < table.depth[node]]
        if around:
            found[around[-1]] += found[node]
    return found


def listed(table: StackTable) -> list[tuple[int, int]]:
    return list(zip(table.depth.tolist(), table.row.tolist(), strict=True))


def test_pairs_become_paths_whose_times_add_up() -> None:
    """main → f (3 s of 4) and g (2 s), both → h: h's time is divided as its callers shared it."""
    table = tree(
        [1.0, 1.0, 0.5, 3.5],
        [6.0, 3.0, 2.0, 3.5],
        [Pair(0, 1, 1.0, 3.0), Pair(0, 2, 0.5, 2.0), Pair(1, 3, 2.0, 2.0), Pair(2, 3, 1.5, 1.5)],
        [0.0, 0.0, 0.0, 0.7],
    )
    assert not table.measured
    assert listed(table) == [(0, 0), (1, 1), (2, 3), (1, 2), (2, 3)]
    assert within(table) == pytest.approx([6.0, 3.0, 2.0, 2.0, 1.5])
    assert table.sides[0].own == pytest.approx([1.0, 1.0, 2.0, 0.5, 1.5])
    assert table.sides[0].queued == pytest.approx([0.0, 0.0, 0.4, 0.0, 0.3])


def test_recursion_ends_where_it_began_and_loses_no_time() -> None:
    """a → b → a: the inner a is marked, and followed no further."""
    table = tree([1.0, 1.0], [4.0, 3.0], [Pair(0, 1, 1.0, 3.0), Pair(1, 0, 0.5, 2.0)])
    assert table.row[table.again].tolist() == [0]
    assert within(table)[table.depth == 0].sum() <= 4.0 + 1e-9
    assert np.isfinite(table.sides[0].own).all()
    assert (table.sides[0].own >= -1e-12).all()


def test_what_is_too_short_is_one_block_and_its_time_is_kept() -> None:
    n = 2000
    pairs = [Pair(0, i, 1e-4, 1e-4) for i in range(1, n + 1)] + [Pair(0, n + 1, 5.0, 5.0)]
    own = [1.0] + [1e-4] * n + [5.0]
    table = tree(own, [6.0 + n * 1e-4, *own[1:]], pairs)
    assert table.row.tolist() == [0, n + 1, OTHERS]
    assert table.sides[0].own == pytest.approx([1.0, 5.0, n * 1e-4])


def test_a_tree_is_bounded_whatever_the_calls_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty functions of which each calls all later ones have more paths than any page can hold."""
    n = 40
    own = np.ones(n)
    pairs = [Pair(i, j, 1.0 / max(j, 1), 1.0) for i in range(n) for j in range(i + 1, n)]
    called = np.zeros(n)
    for pair in pairs:
        called[pair.callee] += pair.within
    total = [float(max(called[i], sum(p.within for p in pairs if p.caller == i) + 1)) for i in range(n)]
    monkeypatch.setattr(stack_table, "MOST_NODES", 300)
    table = tree(own.tolist(), total, pairs)
    assert 300 <= len(table) <= 2 * (300 + n)
    assert table.depth.max() < stack_table.DEEPEST
    assert math.isfinite(float(table.sides[0].own.sum()))


def test_a_plain_profile_has_reconstructed_stacks() -> None:
    callers = {"left": {"outer": 1}, "right": {"outer": 1}, "leaf": {"left": 2, "right": 1}}
    called = [Fn(name, sum(of.values()), 0.9, callers=of) for name, of in callers.items()]
    page = run_figures(plain([Fn("outer", run=0.1), *called]), "tottime")
    found, names = page.stacks, page.functions["names"]
    assert not found["measured"]
    paths, around = set(), ()
    for depth, row in zip(found["depth"], found["row"], strict=True):
        around = (*around[:depth], names[row] if row >= 0 else "…")
        paths.add(around)
    assert paths >= {("outer", "left", "leaf"), ("outer", "right", "leaf")}
    assert sum(json.loads(found["after"]["own"])) * 1e-9 == pytest.approx(2.8, rel=1e-3)


class Told(NamedTuple):
    """One path: its parent's place, its function, its own seconds."""

    parent: int
    function: int
    own: float


def thread_of(rows: list[Told], of_table: list[int], wait: float = 0.0) -> stack_table.PlacedPaths:
    parent, function, own = (np.array(column) for column in zip(*rows, strict=True))
    columns = (parent.astype(np.int32), function.astype(np.int32), np.ones(len(rows), np.int64))
    found = Paths(*columns, own, own * wait, own * 0.0).validate(len(of_table))
    return found, np.array(of_table)


def test_paths_of_threads_and_sides_are_one_tree() -> None:
    """Threads have their own numbers of functions; what is the same chain of rows is one context."""
    first = thread_of([Told(-1, 0, 1.0), Told(0, 1, 2.0), Told(1, 2, 3.0)], [10, 11, 12])
    second = thread_of([Told(-1, 2, 1.0), Told(0, 0, 4.0), Told(-1, 1, 0.5)], [11, 12, 10])
    other = thread_of([Told(-1, 0, 2.0), Told(0, 1, 6.0)], [10, 11], wait=0.5)
    table = stacks_of_paths([[[first, second]], [[other]]])
    assert table.measured
    # 10 → 11 → 12 of the first thread; 10 → 11 of the second, whose 12 was called by nothing.
    assert listed(table) == [(0, 10), (1, 11), (2, 12), (0, 12)]
    assert table.sides[0].own == pytest.approx([2.0, 6.0, 3.0, 0.5])
    assert table.sides[1].own == pytest.approx([2.0, 6.0, 0.0, 0.0])
    assert table.sides[1].queued == pytest.approx([1.0, 3.0, 0.0, 0.0])
