"""Caller–callee sums of both sides under common rows."""

from __future__ import annotations

from dataclasses import replace

from profkit.model import Profile
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Diff
from tests import builders
from tests.builders import Row, foreign


def profile(names: list[str], edges: list[tuple[str, str, int, float]]) -> Profile:
    """Build a profile of functions in one file, with edges of caller, callee, calls and cumulative time."""
    rows = [Row("/p/a.py", line, name, 1, float(line)) for line, name in enumerate(names, 1)]
    return builders.profile(rows, [(names.index(a), names.index(b), calls, s) for a, b, calls, s in edges])


def pairs(found: Diff) -> dict[tuple[str, str], tuple[int, float, int, float]]:
    calls, names = found.calls, found.table.name
    ends = [(names[a], names[b]) for a, b in zip(calls.caller.tolist(), calls.callee.tolist(), strict=True)]
    before, after = calls.baseline, calls.candidate
    columns = [column.tolist() for side in (before, after) for column in (side.ncalls, side.cumtime)]
    return dict(zip(ends, zip(*columns, strict=True), strict=True))


def test_pairs_of_both_sides_meet_whatever_the_order_of_rows() -> None:
    a = profile(
        ["main", "f", "g", "old"], [("main", "f", 3, 1.0), ("f", "g", 5, 0.5), ("main", "old", 1, 0.1)]
    )
    b = profile(
        ["g", "f", "main", "new"],
        [("f", "g", 7, 4.5), ("main", "f", 3, 6.0), ("f", "f", 2, 0.2), ("f", "new", 1, 0.3)],
    )
    assert pairs(diff(foreign(a), foreign(b), calls=True)) == {
        ("main", "f"): (3, 1.0, 3, 6.0),
        ("f", "g"): (5, 0.5, 7, 4.5),
        ("f", "f"): (0, 0.0, 2, 0.2),
        ("main", "old"): (1, 0.1, 0, 0.0),
        ("f", "new"): (0, 0.0, 1, 0.3),
    }


def test_calls_are_told_only_where_they_are_asked_for_and_known() -> None:
    a = profile(["main", "f"], [("main", "f", 3, 1.0)])
    assert diff(foreign(a), foreign(a)).calls is None
    bare = replace(a, edges=None)
    assert diff(foreign(bare), foreign(bare), calls=True).calls is None
