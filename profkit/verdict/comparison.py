"""The whole comparison of two sides: select, align, rank, measure, diagnose.

What ``profkit diff`` calls between reading files and laying out a report. It reads no files and prints
nothing; every step of it is a module of this room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.measure import noise
from profkit.identity.align import align_joined, join
from profkit.measure.calls import call_table
from profkit.measure.comparability import comparability, same_capture, sampled, threads_mixed, versions_differ
from profkit.measure.counters import SideFacts, side_facts
from profkit.verdict.judge import diagnose
from profkit.measure.settings import differences
from profkit.measure.signals import Facts
from profkit.identity.fold import fold_comprehensions, needs_folding
from profkit.identity.keys import infer_python
from profkit.measure.intervals import ratio_estimate
from profkit.measure.inventory import inventory
from profkit.measure.movement import movement
from profkit.measure.rank import location_and_spread
from profkit.measure.ranking import ranking_of
from profkit.measure.select import check_ranked_by, select_pair, select_processes, select_profile
from profkit.measure.sides import Side, gather
from profkit.measure.signs import lump_size, matched, noisier, signs
from profkit.measure.starvation import starvation
from profkit.measure.table import build_table, busy_seconds, stopped_seconds
from profkit.identity.alignment import Alignment
from profkit.measure.tables import Residue, SideSummary
from profkit.verdict.types import Diff
from profkit.errors import UsageError
from profkit.model import Profile, Ranges, Roots, RunSet

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel, IterationNames
    from profkit.measure.range_waiting import RangeWaiting
    from profkit.measure.range_stats import RangeChange

__all__ = ["diff"]

Index = npt.NDArray[np.int32]

#: A side, its rows that took in comprehensions, and the profiles of its runs.
_Gathered: TypeAlias = "tuple[Side, Index, list[Profile]]"


def diff(
    baseline: RunSet,
    candidate: RunSet,
    *,
    by: str = "tottime",
    process: str | None = None,
    iterations: IterationNames | None = None,
    calls: bool = False,
) -> Diff:
    """Compare two sides.

    Parameters
    ----------
    baseline, candidate
        Each of at least one run; several are replicates.
    by
        ``tottime`` or ``cumtime``: what functions are ranked by.
    process
        ``None`` for all processes summed, ``main``, ``rank:N`` or ``pid:N``.
    iterations
        What the user said of the NVTX ranges.
    calls
        Whether to tell who calls whom too (`Diff.calls`); the runs must have been read with their edges.

    Returns
    -------
    Diff

    Raises
    ------
    UsageError
        A side is empty, ``by`` is neither, or a run has no such process or range.
    """
    check_ranked_by(by)
    for side in (baseline, candidate):
        if not side.runs:
            raise UsageError(f"{side.label}: there is no run to compare")
    selector_a, selector_b, warnings = select_pair(baseline.runs[0], candidate.runs[0], process)
    (a, folded_a, of_a), (b, folded_b, of_b) = _sides(baseline, candidate, selector_a, selector_b, calls)

    joined = join(a.profile, b.profile, a.roots, b.roots)
    found = align_joined(joined, a.profile, b.profile, baseline_folded=folded_a, candidate_folded=folded_b)
    table, rows = build_table(joined, found, a, b, by)
    residue = _residue(found, a, b)
    busy_a, busy_b = busy_seconds(a.profile, b.profile, rows)
    other_python = versions_differ(baseline, candidate, a.profile, b.profile)
    moved = movement(
        table,
        busy_a,
        busy_b,
        python_differs=other_python,
        within=busy_seconds(a.profile, b.profile, rows, cumulative=True),
        stopped=stopped_seconds(a.profile, b.profile, rows),
    )
    facts_a = side_facts(baseline, _total(a), partial(select_processes, process=selector_a))
    facts_b = side_facts(candidate, _total(b), partial(select_processes, process=selector_b))
    ranking = ranking_of(table, rows, a, b, by)
    totals_a, totals_b = _totals(baseline, a), _totals(candidate, b)
    both = matched(joined, found, a, b)
    shown = signs(both)
    changes = _compared_ranges(baseline, candidate, selector_a, selector_b)
    models = (
        _iterations(baseline, selector_a, iterations),
        _iterations(candidate, selector_b, iterations),
    )
    facts = Facts(
        baseline=facts_a,
        candidate=facts_b,
        table=table,
        movement=moved,
        rbo=ranking.rbo,
        rbo_floor=ranking.noise_floor,
        reordered=ranking.reordered,
        total_variation=ranking.total_variation,
        identical=any(same_capture(x, y) for x in baseline.runs for y in candidate.runs),
        python_differs=other_python,
        sampled_differs=sampled(baseline) != sampled(candidate),
        threads_differ=threads_mixed(baseline) != threads_mixed(candidate),
        total_scatter=_total_scatter(totals_a, totals_b),
        signs=shown,
        starved=starvation(shown),
        noisier=noisier(both),
        lump_s=lump_size(both),
        ranges=changes,
        iterations=models,
        unmatched=min(residue.baseline_only_share, residue.candidate_only_share),
    )
    said = [f"{run.path}: {w}" for side in (baseline, candidate) for run in side.runs for w in run.warnings]
    return Diff(
        baseline=_summary(baseline, a, facts_a),
        candidate=_summary(candidate, b, facts_b),
        comparability=comparability(
            baseline, candidate, a.profile, b.profile, residue, moved.calls_factor, warnings
        ),
        verdict=diagnose(facts),
        ranking=ranking,
        table=table,
        residue=residue,
        slowdown=ratio_estimate(totals_a, totals_b),
        warnings=tuple(dict.fromkeys(said)),
        ranges=changes,
        iterations=models,
        calls=call_table((of_a, of_b), (a.places, b.places), rows) if calls else None,
        settings=differences(baseline, candidate),
    )


def _has_ranges(side: RunSet) -> bool:
    """Whether any run recorded NVTX ranges; what is done with them is not imported elsewhere."""
    return any(process.ranges is not None for run in side.runs for process in run.processes)


def _iterations(side: RunSet, selector: str | None, names: IterationNames | None) -> IterationModel | None:
    if names is None and not _has_ranges(side):
        return None
    from profkit.measure.iterations import iteration_model, typical_model

    return typical_model(
        [iteration_model(replace(run, processes=select_processes(run, selector)), names) for run in side.runs]
    )


def _compared_ranges(
    baseline: RunSet, candidate: RunSet, selector_a: str | None, selector_b: str | None
) -> tuple[RangeChange, ...]:
    if not _has_ranges(baseline) and not _has_ranges(candidate):
        return ()
    from profkit.measure.range_stats import compare_ranges

    a, waits_a = _ranges(baseline, selector_a)
    b, waits_b = _ranges(candidate, selector_b)
    return compare_ranges(a, b, (waits_a, waits_b))


def _ranges(side: RunSet, selector: str | None) -> tuple[list[list[Ranges]], list[list[RangeWaiting | None]]]:
    """NVTX ranges of the selected processes of every run that recorded any, and what they waited."""
    from profkit.measure.range_waiting import waiting_of

    runs = [[p for p in select_processes(run, selector) if p.ranges is not None] for run in side.runs]
    runs = [run for run in runs if run]
    return [[p.ranges for p in run if p.ranges is not None] for run in runs], [
        waiting_of(run) for run in runs
    ]


def _sides(
    baseline: RunSet, candidate: RunSet, selector_a: str | None, selector_b: str | None, edges: bool
) -> tuple[_Gathered, _Gathered]:
    """Replicates of both sides under common rows."""
    a = [select_profile(run, selector_a, edges=edges) for run in baseline.runs]
    b = [select_profile(run, selector_b, edges=edges) for run in candidate.runs]
    if not needs_folding(a[0][0], b[0][0]):
        return _gathered(a), _gathered(b)
    # Edges cost a sum over all processes, and are otherwise needed only to find who called a comprehension.
    return _folded(baseline, selector_a), _folded(candidate, selector_b)


def _gathered(selected: Sequence[tuple[Profile, Roots]]) -> _Gathered:
    profiles = [profile for profile, _ in selected]
    return gather(profiles, [roots for _, roots in selected]), np.zeros(0, np.int32), profiles


def _folded(side: RunSet, selector: str | None) -> _Gathered:
    selected = [select_profile(run, selector) for run in side.runs]
    folded = [fold_comprehensions(profile) for profile, _ in selected]
    profiles = [profile for profile, _ in folded]
    whole = gather(profiles, [roots for _, roots in selected])
    rows = {
        int(place[row])
        for (_, taken), place in zip(folded, whole.places, strict=True)
        for row in taken.values()
    }
    return whole, np.array(sorted(rows), np.int32), profiles


def _total(side: Side) -> float:
    """Seconds of self time of one run, median over the runs."""
    return float(np.median(side.tottime.sum(axis=1)))


def _totals(runs: RunSet, side: Side) -> npt.NDArray[np.float64]:
    """Wall-clock seconds of every run of a side, or their self times where a wall is not known."""
    walls = [run.manifest.wall_s for run in runs.runs if run.manifest is not None]
    if len(walls) == side.runs and all(wall > 0 for wall in walls):
        return np.array(walls, np.float64)
    totals: npt.NDArray[np.float64] = np.maximum(side.tottime.sum(axis=1), 1e-12)
    return totals


def _total_scatter(totals_a: npt.NDArray[np.float64], totals_b: npt.NDArray[np.float64]) -> float:
    """Standard deviation of ln(candidate's total / baseline's), by the scatter of their repeats; NaN without."""
    if min(len(totals_a), len(totals_b)) < noise.MIN_RUNS_NOISE:
        return float("nan")
    spread_a, spread_b = (location_and_spread(np.log(totals))[1] for totals in (totals_a, totals_b))
    return math.hypot(spread_a, spread_b)


def _residue(found: Alignment, a: Side, b: Side) -> Residue:
    def share(side: Side, rows: Index) -> float:
        total = side.profile.total
        return float(side.profile.tottime[rows].sum()) / total if total > 0 else 0.0

    return Residue(
        baseline_only=len(found.baseline_only),
        candidate_only=len(found.candidate_only),
        baseline_only_share=share(a, found.baseline_only),
        candidate_only_share=share(b, found.candidate_only),
    )


def _summary(side: RunSet, gathered: Side, facts: SideFacts) -> SideSummary:
    def middle(values: Sequence[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(np.median(known)) if known else None

    def summed(run_values: Sequence[float | None]) -> float | None:
        known = [v for v in run_values if v is not None]
        return float(sum(known)) if known else None

    run = side.runs[0]
    python = next((p.python for p in run.processes if p.python), None)
    inferred = None if python else infer_python(gathered.profile)
    return SideSummary(
        label=side.label,
        runs=len(side.runs),
        files=tuple(r.path for r in side.runs),
        wall_s=facts.wall_s,
        cpu_s=middle([summed([p.cpu_s for p in r.processes]) for r in side.runs]),
        total_s=facts.total_s,
        run_queue_wait_s=middle([summed([p.run_queue_wait_s for p in r.processes]) for r in side.runs]),
        host=facts.host or facts.cpu_model or None,
        python=python or (f"{inferred[0]}.{inferred[1]}" if inferred else None),
        processes=len(run.processes),
        skipped=side.skipped,
        inventory=inventory(run),
        command=facts.command,
        environment=facts.environment,
    )
