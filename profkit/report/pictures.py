"""Results → the figures beside a page's sections; only renderers that draw request them."""

from __future__ import annotations

from profkit.model import Run
from profkit.report.figures import Figure
from profkit.report.functions import ranked_run
from profkit.report.slopes import slopes
from profkit.report.stackgraph import diff_stacks, run_stacks
from profkit.report.timeline import timeline
from profkit.report.waits import waits
from profkit.report.wholetable import diff_calls, diff_functions, run_calls, run_functions
from profkit.verdict.types import Diff


def diff_figures(diff: Diff, baseline: Run, candidate: Run) -> tuple[Figure, ...]:
    """Return a comparison's figures; processes and time line are those of the runs given, one per side."""
    sides = (("baseline", baseline), ("candidate", candidate))
    figures = (
        slopes(diff),
        diff_functions(diff),
        diff_calls(diff.calls),
        diff_stacks(diff),
        timeline(sides),
        waits(sides),
    )
    return tuple(figure for figure in figures if figure is not None)


def run_figures(run: Run, by: str) -> tuple[Figure, ...]:
    """Return one run's figures."""
    functions = ranked_run(run, by, edges=True)
    figures = (
        run_functions(functions, by),
        run_calls(functions.profile),
        run_stacks(run, functions.profile),
        timeline((("", run),)),
        waits((("", run),)),
    )
    return tuple(figure for figure in figures if figure is not None)
