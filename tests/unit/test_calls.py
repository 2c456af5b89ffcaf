"""Caller–callee sums of both sides under common rows."""

from __future__ import annotations

import cProfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.formats.load import load_side
from profkit.model import Edges, Process, Profile, Run, RunSet, Thread
from profkit.verdict.diagnosis import diagnose as diff


def profile(names: list[str], edges: list[tuple[str, str, int, float]]) -> Profile:
    """Build a profile of functions in one file, with edges of caller, callee, calls and cumulative time."""
    n = len(names)
    zero = np.zeros(n, np.int32)
    at = {name: i for i, name in enumerate(names)}
    return Profile(
        ("", "/p/a.py", *names),
        np.ones(n, np.int32),
        np.arange(1, n + 1, dtype=np.int32),
        np.arange(2, n + 2, dtype=np.int32),
        *(zero, zero, zero),
        np.ones(n, np.int64),
        np.ones(n, np.int64),
        np.linspace(1.0, 2.0, n),
        np.linspace(2.0, 3.0, n),
        edges=Edges(
            np.array([at[e[0]] for e in edges], np.int32),
            np.array([at[e[1]] for e in edges], np.int32),
            np.array([e[2] for e in edges], np.int64),
            np.array([e[2] for e in edges], np.int64),
            np.array([e[3] for e in edges]),
            np.array([e[3] for e in edges]),
        ),
    ).validate()


def side(label: str, *profiles: Profile) -> RunSet:
    return RunSet(
        label, tuple(Run(f"{label}{i}", (Process(threads=(Thread(p),)),)) for i, p in enumerate(profiles))
    )


def pairs(found: object) -> dict[tuple[str, str], tuple[int, float, int, float]]:
    calls, names = found.calls, found.table.name  # type: ignore[attr-defined]
    return {
        (names[a], names[b]): (na, ca, nb, cb)
        for a, b, na, ca, nb, cb in zip(
            calls.caller.tolist(),
            calls.callee.tolist(),
            calls.baseline.ncalls.tolist(),
            calls.baseline.cumtime.tolist(),
            calls.candidate.ncalls.tolist(),
            calls.candidate.cumtime.tolist(),
            strict=True,
        )
    }


def test_pairs_of_both_sides_meet_whatever_the_order_of_rows() -> None:
    a = profile(
        ["main", "f", "g", "old"], [("main", "f", 3, 1.0), ("f", "g", 5, 0.5), ("main", "old", 1, 0.1)]
    )
    b = profile(
        ["g", "f", "main", "new"],
        [("f", "g", 7, 4.5), ("main", "f", 3, 6.0), ("f", "f", 2, 0.2), ("f", "new", 1, 0.3)],
    )
    assert pairs(diff(side("a", a), side("b", b), calls=True)) == {
        ("main", "f"): (3, 1.0, 3, 6.0),
        ("f", "g"): (5, 0.5, 7, 4.5),
        ("f", "f"): (0, 0.0, 2, 0.2),
        ("main", "old"): (1, 0.1, 0, 0.0),
        ("f", "new"): (0, 0.0, 1, 0.3),
    }


def test_calls_are_told_only_where_they_are_asked_for_and_known() -> None:
    a = profile(["main", "f"], [("main", "f", 3, 1.0)])
    assert diff(side("a", a), side("b", a)).calls is None
    bare = replace(a, edges=None)
    assert diff(side("a", bare), side("b", bare), calls=True).calls is None


def leaf() -> int:
    return sum(range(200))


def branch(n: int) -> int:
    return leaf() if n == 0 else branch(n - 1) + branch(n - 1)


def test_edges_of_a_real_profile_add_up_to_its_calls(tmp_path: Path) -> None:
    for name in ("a", "b"):
        recorded = cProfile.Profile()
        recorded.runcall(branch, 6)
        recorded.dump_stats(tmp_path / f"{name}.prof")
    found = diff(load_side(tmp_path / "a.prof"), load_side(tmp_path / "b.prof"), calls=True)
    for edges, table in (
        (found.calls.baseline, found.table.baseline),
        (found.calls.candidate, found.table.candidate),
    ):
        for name in ("leaf", "branch"):
            row = found.table.name.index(name)
            # The first call of `branch` came from outside the profile.
            assert edges.ncalls[found.calls.callee == row].sum() == table.ncalls[row] - (name == "branch")
        assert edges.cumtime[found.calls.callee == found.table.name.index("leaf")].sum() == pytest.approx(
            table.cumtime[found.table.name.index("leaf")]
        )
