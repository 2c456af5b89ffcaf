"""`Diff` or `Run` → the flame graph; where waiting was not measured, no time counts as waiting."""

from __future__ import annotations

import numpy as np

from profkit.compare.call_table import CallSide
from profkit.compare.result_types import SideTable
from profkit.compare.stack_table import FunctionTimes, placed_paths, stacks_of_pairs, stacks_of_paths
from profkit.measure.iterations import IterationModel
from profkit.measure.selected_processes import select
from profkit.model import Profile, Run
from profkit.report.figures import StackGraph
from profkit.verdict.types import Diff


def diff_stacks(diff: Diff) -> StackGraph | None:
    """Return both sides; ``None`` if neither file records who calls whom."""
    calls, table = diff.calls, diff.table
    if calls is None:
        return None
    found = diff.stacks or stacks_of_pairs(
        calls.caller,
        calls.callee,
        (calls.baseline, calls.candidate),
        (_of_side(table.baseline), _of_side(table.candidate)),
    )
    waits = table.baseline.wait is not None and table.candidate.wait is not None
    return None if found is None else StackGraph(found, waits, _iterations(diff.iterations))


def run_stacks(run: Run, profile: Profile) -> StackGraph | None:
    """Return one run, whose threads are summed in `profile`; ``None`` without calls."""
    edges = profile.edges
    if edges is None:
        return None
    chosen = select(run, edges=False)
    traced = placed_paths(chosen)
    if traced is not None:
        found = stacks_of_paths(((traced,),))
        return None if found is None else StackGraph(found, profile.wait is not None, (None,))
    zero = np.zeros(len(profile))
    times = FunctionTimes(
        profile.tottime,
        profile.cumtime,
        zero if profile.wait is None else profile.wait,
        zero if profile.blocked is None else profile.blocked,
    )
    pairs = CallSide(edges.ncalls, edges.tottime, edges.cumtime)
    found = stacks_of_pairs(edges.caller, edges.callee, (pairs,), (times,))
    return None if found is None else StackGraph(found, profile.wait is not None, (None,))


def _of_side(side: SideTable) -> FunctionTimes:
    queued = np.zeros(len(side.tottime)) if side.wait is None else side.wait
    return FunctionTimes(side.tottime, side.cumtime, queued, np.maximum(side.tottime - side.active, 0.0))


def _iterations(models: tuple[IterationModel | None, IterationModel | None]) -> tuple[int | None, int | None]:
    """Iterations of both sides, including those left out of the statistics."""
    before, after = models
    if before is None or after is None:
        return None, None
    counts = before.count + before.left_out, after.count + after.left_out
    return counts if min(counts) > 0 else (None, None)
