"""Two sides made alike where one was sampled: same functions, same total, one call each.

A sampling profiler knows no calls, may count built-in functions in callers, and may not cover the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.compare.call_table import CallTable
from profkit.compare.replicates import UNSTATED
from profkit.compare.result_types import DiffTable
from profkit.identity.lookup_columns import Looked
from profkit.model import Edges, Process, Profile, Run, RunSet, Thread
from profkit.model.arrays import Bools, median

#: File name of built-in functions in a profile.
_NATIVE = "~"
#: Most levels of built-in functions that call each other.
_DEPTH = 16


def in_shares(
    runs: tuple[RunSet, RunSet], processes: Sequence[Sequence[tuple[Process, ...]]]
) -> tuple[RunSet, RunSet]:
    """Return the chosen processes of both sides, with each run scaled to the baseline's median total."""
    sides = [
        [replace(run, processes=chosen) for run, chosen in zip(side.runs, of_side, strict=True)]
        for side, of_side in zip(runs, processes, strict=True)
    ]
    with_natives = [
        any(_native_rows(profile).any() for run in runs for profile in run.profiles) for runs in sides
    ]
    if with_natives[0] != with_natives[1]:
        sides = [[_each(run, _without_natives) for run in runs] for runs in sides]
    whole = float(median([_total(run) for run in sides[0]]))
    made = [[_scaled(run, whole) for run in runs] for runs in sides]
    return replace(runs[0], runs=tuple(made[0])), replace(runs[1], runs=tuple(made[1]))


def calls_unknown(table: DiffTable, calls: CallTable | None) -> tuple[DiffTable, CallTable | None]:
    """Return the tables to show for such sides: without calls and times per call."""
    none = np.zeros(len(table), np.int64)
    before, after = (
        replace(side, ncalls=none, primitive_calls=none) for side in (table.baseline, table.candidate)
    )
    unknown = np.full(len(table), np.nan)
    table = replace(table, baseline=before, candidate=after, per_call_ratio=unknown, by_share=True)
    if calls is not None:
        none = np.zeros(len(calls), np.int64)
        first, second = (replace(side, ncalls=none) for side in (calls.baseline, calls.candidate))
        calls = replace(calls, baseline=first, candidate=second)
    return table, calls


def _each(run: Run, change: Callable[[Profile], Profile]) -> Run:
    """Change the profile of every thread, and drop kernel counters."""

    def changed(thread: Thread) -> Thread:
        return Thread(change(thread.profile), thread.tid, thread.name)

    none: dict[str, Any] = dict.fromkeys(("wall_s", "cpu_s", "run_queue_wait_s", "effect"))
    processes = (replace(process.with_threads(changed), tiers=(), **none) for process in run.processes)
    return replace(run, processes=tuple(processes))


def _total(run: Run) -> float:
    return sum(profile.total for profile in run.profiles)


def _scaled(run: Run, whole: float) -> Run:
    total = _total(run)
    factor = whole / total if total > 0 else 1.0

    def scaled(of: Profile | Edges) -> dict[str, Any]:
        once = np.ones(len(of), np.int64)
        times = {"tottime": of.tottime * factor, "cumtime": of.cumtime * factor}
        return {"ncalls": once, "primitive_calls": once, **times}

    def change(profile: Profile) -> Profile:
        edges = None if profile.edges is None else replace(profile.edges, **scaled(profile.edges))
        return replace(profile, **scaled(profile), edges=edges, **UNSTATED)

    return replace(_each(run, change), manifest=None, machine=None, machines={}, series=None)


def _native_rows(profile: Profile) -> Bools:
    return Looked(profile.file, profile.strings).where(lambda file: file == _NATIVE)


def _without_natives(profile: Profile) -> Profile:
    """Add the self time of built-in functions, unless nothing called them, to their Python callers.

    Self time is divided by caller; time received from other built-in functions like cumulative time.
    """
    edges, native = profile.edges, _native_rows(profile)
    if edges is None or not native.any():
        return profile
    n = len(profile)
    into = native[edges.callee] & (edges.caller != edges.callee)
    caller, callee = edges.caller[into], edges.callee[into]
    own = profile.tottime.copy()
    for weights in (edges.tottime[into], *(edges.cumtime[into] for _ in range(_DEPTH))):
        whole = np.bincount(callee, weights, n)
        part = np.divide(weights, whole[callee], out=np.zeros(len(weights)), where=whole[callee] > 0)
        handed = native & (whole > 0)
        moved = np.bincount(caller, part * own[callee], n)
        own = np.where(handed, 0.0, own) + moved
    return replace(profile, tottime=own).only(~native | (own > 0))
