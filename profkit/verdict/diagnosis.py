"""From two sides to what makes them differ: pair, signals, account, verdict."""

from __future__ import annotations

from profkit.compare.pair import Pair, Side, pair_of
from profkit.compare.result_types import SideSummary
from profkit.compare.setting_differences import differences
from profkit.compare.signals import signals_of
from profkit.compare.stack_table import PlacedPaths, StackTable, placed_paths, stacks_of_paths
from profkit.identity.function_keys import function_keys
from profkit.measure.import_table import Imports, imports_of_side
from profkit.measure.intervals import UNKNOWN, ratio_estimate
from profkit.measure.iterations import IterationNames
from profkit.measure.line_times import FunctionLines, SeenLine, seen_lines
from profkit.measure.side_facts import SideFacts
from profkit.model import RunSet
from profkit.model.arrays import known, known_sum, median
from profkit.verdict.judge import case_of, judge
from profkit.verdict.named_lines import lines_of_verdict
from profkit.verdict.types import Diff


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
        baseline=_summary(pair.baseline, signals.baseline),
        candidate=_summary(pair.candidate, signals.candidate),
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
        stacks=_stacks(pair) if calls else None,
        settings=differences(pair.baseline.runs, pair.candidate.runs),
        imports=(None, None) if pair.by_share else (_imports(pair.baseline), _imports(pair.candidate)),
        lines=lines_of_verdict(verdict, case.account, signals.table.name, lambda row: _lines(pair, row)),
    )


def _imports(side: Side) -> Imports | None:
    return imports_of_side(side.runs, [selected.processes for selected in side.selected])


def _summary(side: Side, facts: SideFacts) -> SideSummary:
    """Return a report's facts about a side; numbers are medians over its runs."""
    runs = side.runs.runs

    def middle(name: str) -> float | None:
        sums = known(known_sum(getattr(process, name) for process in run.processes) for run in runs)
        return float(median(sums)) if sums else None

    return SideSummary(
        label=side.runs.label,
        runs=len(runs),
        files=tuple(run.path for run in runs),
        wall_s=facts.wall_s,
        cpu_s=middle("cpu_s"),
        total_s=facts.total_s,
        run_queue_wait_s=middle("run_queue_wait_s"),
        host=facts.host or facts.cpu_model or None,
        python=side.python or None,
        processes=len(runs[0].processes),
        skipped=side.runs.skipped,
        inventory=facts.inventory,
        command=facts.command,
        environment=facts.environment,
        neighbours=facts.neighbours,
    )


def _lines(pair: Pair, row: int) -> FunctionLines:
    found: list[tuple[SeenLine, ...]] = []
    for side, behind in zip(pair.sides, pair.behind, strict=True):
        whole, at = side.replicates, int(behind[row])
        keys = function_keys(whole.profile, whole.roots)
        found.append(seen_lines(side.selected, side.rows, whole.profile, keys, at) if at >= 0 else ())
    return FunctionLines(pair.table.shown(row), *found)


def _stacks(pair: Pair) -> StackTable | None:
    """Return calling contexts of both sides over the table's rows; ``None`` where a run has none."""
    found: list[list[list[PlacedPaths]]] = []
    for side, of_table in zip(pair.sides, pair.of_table, strict=True):
        runs = known(placed_paths(selected) for selected in side.selected)
        if len(runs) < len(side.selected):
            return None
        found.append(
            [
                [(paths, of_table[place[own]]) for paths, own in run]
                for run, place in zip(runs, side.rows, strict=True)
            ]
        )
    return stacks_of_paths(found)
