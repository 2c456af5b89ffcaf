"""Details of a pair that reports show beside the table: its sides, lines of a function, calling contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profkit.compare.pair import Pair, Side
from profkit.compare.result_types import SideSummary
from profkit.identity.function_keys import function_keys
from profkit.measure.line_times import FunctionLines, SeenLine, seen_lines
from profkit.measure.side_facts import SideFacts
from profkit.model.arrays import median

if TYPE_CHECKING:
    from profkit.compare.stack_table import PlacedPaths, StackTable


def function_lines(pair: Pair, row: int) -> FunctionLines:
    """Return the lines of the function in a table row."""
    found: list[tuple[SeenLine, ...]] = []
    for side, behind in zip(pair.sides, pair.behind, strict=True):
        known, at = side.replicates, int(behind[row])
        keys = function_keys(known.profile, known.roots)
        found.append(seen_lines(side.selected, side.rows, known.profile, keys, at) if at >= 0 else ())
    return FunctionLines(pair.table.shown(row), *found)


def stacks_of_pair(pair: Pair) -> StackTable | None:
    """Return calling contexts of both sides over the table's rows; ``None`` where a run has none."""
    from profkit.compare.stack_table import placed_paths, stacks_of_paths

    found: list[list[list[PlacedPaths]]] = []
    for side, of_table in zip(pair.sides, pair.of_table, strict=True):
        runs = [placed_paths(selected) for selected in side.selected]
        found.append(
            [
                [(paths, of_table[place[own]]) for paths, own in run]
                for run, place in zip(runs, side.rows, strict=True)
                if run is not None
            ]
        )
        if len(found[-1]) < len(runs):
            return None
    return stacks_of_paths(found)


def side_summary(side: Side, facts: SideFacts) -> SideSummary:
    """Return a report's facts about a side; numbers are medians over its runs."""

    def middle(name: str) -> float | None:
        sums = []
        for run in side.runs.runs:
            known = [v for process in run.processes if (v := getattr(process, name)) is not None]
            if known:
                sums.append(float(sum(known)))
        return float(median(sums)) if sums else None

    runs = side.runs.runs
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
