"""``profkit diff``: compare two sides, write the report, and answer with an exit code."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, percent, report_options
from profkit.cli.own_path import import_numpy
from profkit.cli.progress import Progress
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.api.diff import Diff
    from profkit.cli.destination import Destination


@click.command(context_settings=CONTEXT)
@click.argument("baseline", metavar="BASELINE", type=click.Path())
@click.argument("candidate", metavar="CANDIDATE", type=click.Path())
@click.argument("further", metavar="", nargs=-1, type=click.Path())
@report_options
@click.option(
    "--fail-on",
    metavar="CAUSE[,CAUSE…]",
    help="Exit with 1 if the verdict is one of these; any: whatever makes it slower.",
)
@click.option(
    "--min-slowdown",
    metavar="PERCENT",
    help="Exit with 1 only if it is at least this much slower: 5%.  [default with it: --fail-on any]",
)
@click.option(
    "--github",
    is_flag=True,
    help="In GitHub Actions: append the report to the step's summary, and note the changed line.",
)
def diff(
    baseline: str,
    candidate: str,
    further: tuple[str, ...],
    report: ReportOptions,
    fail_on: str | None,
    min_slowdown: str | None,
    github: bool,
    **reading: Any,
) -> None:
    """Explain why one run is slower than another.

    BASELINE and CANDIDATE are each a run file, any pstats file, a directory of them or a quoted glob; several are
    replicates. CANDIDATE is what is slower.
    """
    # A short-lived process that builds millions of tuples and no cycles: looking for cycles costs a fifth.
    gc.disable()
    import_numpy()
    import profkit.api.diff
    from profkit.formats.load import files_of

    if further:
        raise UsageError(
            f"diff compares two sides, and {2 + len(further)} were given: put quotes around a pattern, or compare "
            "more than two with profkit compare"
        )

    goal = report.destination()
    least = None if min_slowdown is None else percent(min_slowdown, "min_slowdown")
    causes = _causes("any" if fail_on is None and least is not None else fail_on)
    if github:
        _check_github(goal)
    goal.keep(path for side in (baseline, candidate) for path in files_of(side)[0])
    with Progress("comparing"):
        result = profkit.api.diff.diff(baseline, candidate, calls=goal.drawn, **reading)
    goal.write(result, masked=github)
    failed = _failed(result, causes, least)
    if github:
        from profkit.api.github import annotation, append_summary

        append_summary(
            result.report("md", limit=report.limit, full_paths=report.full_paths, explain=report.explain)
        )
        note = annotation(result, failed=failed, full_paths=report.full_paths)
        if note:
            click.echo(note)
    if failed:
        raise click.exceptions.Exit(1)


def _failed(result: Diff, causes: frozenset[str], least: float | None) -> bool:
    """Whether the exit status is 1; say why or why not."""
    cause, ratio = result.verdict.cause, result.slowdown.value
    if cause not in causes:
        return False
    if least is not None and ratio < 1 + least:
        bar = f"--min-slowdown is {100 * least:g}%"
        say(f"exit status 0: the verdict is {cause}, at {ratio:.3f} times the time; {bar}")
        return False
    slower = "" if least is None else f", at {ratio:.3f} times the time"
    say(f"exit status 1: the verdict is {cause}, which --fail-on names{slower}")
    return True


def _check_github(goal: Destination) -> None:
    """Refuse ``--github`` with JSON and the like on stdout, before anything is read."""
    from profkit.api.github import summary_file
    from profkit.report.renderers import Markdown, Terminal

    summary_file()

    if goal.output is None and not isinstance(goal.renderer, Terminal | Markdown):
        raise UsageError("--github prints a line on stdout, beside the report; give -o FILE")


def _causes(fail_on: str | None) -> frozenset[str]:
    """Parse ``--fail-on``: causes separated by commas, or ``any`` for all that make it slower.

    ``inconclusive`` is not a finding, and fails only if it is named.
    """
    if fail_on is None:
        return frozenset()
    from profkit.verdict.types import CAUSES, NO_HARM

    named = [cause.strip() for cause in fail_on.split(",")]
    unknown = [cause for cause in named if cause not in (*CAUSES, "any")]
    if unknown:
        raise UsageError(
            f"not a cause, the causes are {', '.join(CAUSES)}, and any for all that make it slower",
            parameter="fail_on",
            value=unknown[0] or fail_on,
        )
    return frozenset(named) | (frozenset(CAUSES) - NO_HARM if "any" in named else frozenset())
