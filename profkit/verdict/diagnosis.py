"""From two sides to what makes them differ: pair, signals, account, verdict."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from profkit.compare.pair import Side, pair_of
from profkit.compare.pair_details import function_lines, side_summary, stacks_of_pair
from profkit.compare.setting_differences import differences
from profkit.compare.signals import signals_of
from profkit.measure.import_table import Imports, imports_of_side
from profkit.measure.intervals import UNKNOWN, ratio_estimate
from profkit.model import RunSet
from profkit.verdict.judge import case_of, judge
from profkit.verdict.named_lines import lines_of_verdict
from profkit.verdict.types import Diff

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationNames


def diagnose(
    baseline: RunSet,
    candidate: RunSet,
    *,
    by: str = "tottime",
    process: str | None = None,
    iterations: IterationNames | None = None,
    calls: bool = False,
) -> Diff:
    """Compare two sides; raise `UsageError` as `pair_of` does, or for an unknown range.

    Several runs of a side are replicates. `calls` keeps `Diff.calls` and `Diff.stacks`.
    """
    pair = pair_of(baseline, candidate, by=by, process=process)
    signals = signals_of(pair, iterations)
    case = case_of(signals)
    verdict = judge(case)
    said = [
        notice.at(file=run.path)
        for side in pair.sides
        for run in side.runs.runs
        for notice in run.warnings
        if notice.code != "functions-throttled"  # `Pair.folded` already says so
    ]
    walls = signals.walls
    return Diff(
        baseline=side_summary(pair.baseline, signals.baseline),
        candidate=side_summary(pair.candidate, signals.candidate),
        comparability=signals.comparability,
        verdict=verdict,
        account=case.account,
        ranking=signals.ranking,
        table=signals.table,
        residue=signals.residue,
        slowdown=UNKNOWN
        if pair.by_share
        else ratio_estimate(walls.baseline.seconds, walls.candidate.seconds),
        warnings=tuple(dict.fromkeys((*said, *pair.folded))),
        ranges=signals.ranges,
        iterations=signals.iterations,
        calls=signals.calls if calls else None,
        stacks=stacks_of_pair(pair) if calls else None,
        settings=differences(pair.baseline.runs, pair.candidate.runs),
        imports=(None, None) if pair.by_share else (_imports(pair.baseline), _imports(pair.candidate)),
        lines=lines_of_verdict(verdict, case.account, signals.table.name, partial(function_lines, pair)),
    )


def _imports(side: Side) -> Imports | None:
    return imports_of_side(side.runs, [selected.processes for selected in side.selected])
