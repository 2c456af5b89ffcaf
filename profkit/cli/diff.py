"""``profkit diff`` and ``profkit show``: read two sides or one run, write the report, set the exit code."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import profkit
from profkit.cli import import_numpy, say
from profkit.cli.app import CONTEXT
from profkit.cli.options import flag, option, percent, run_argument
from profkit.cli.output import ReportOptions
from profkit.cli.progress import Progress
from profkit.cli.report_options import report_options
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.api.diff import Diff

#: The keyword of --fail-on that takes a limit: a factor, percent, or seconds more.
IMPORT_TIME = "import-time"
_LIMIT = re.compile(rf"{IMPORT_TIME}>(\d{{1,9}}(?:\.\d{{1,9}})?)(x|%|s)")


@click.command(context_settings=CONTEXT)
@click.argument("baseline", metavar="BASELINE", type=click.Path())
@click.argument("candidate", metavar="CANDIDATE", type=click.Path())
@click.argument("further", metavar="", nargs=-1, type=click.Path())
@report_options
@option(
    "--fail-on",
    "CAUSE[,CAUSE…]",
    "Exit with 1 if the verdict is one of these; any: whatever makes it slower; import-time>1.3x (or >30%, >2s): "
    "imports take that much longer.",
)
@option(
    "--min-slowdown",
    "PERCENT",
    "Exit with 1 only if it is at least this much slower: 5%.  [default with it: --fail-on any]",
)
@flag(
    "--github", "In GitHub Actions: append the report to the step's summary, and annotate the changed line."
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
    repeats. CANDIDATE is the slower side.
    """
    # This short process creates millions of tuples and no cycles; collecting garbage costs a fifth of the time.
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
    if fail_on is None and least is not None:
        fail_on = "any"
    limits, causes = _parsed(fail_on)
    if github:
        from profkit.api.posted import annotation, append_summary, summary_file
        from profkit.report.renderers import Markdown, Terminal

        summary_file()
        if goal.output is None and not isinstance(goal.renderer, Terminal | Markdown):
            raise UsageError("--github also prints a line on stdout; write the report with -o FILE")
    goal.keep(path for side in (baseline, candidate) for path in files_of(side)[0])
    with Progress("comparing"):
        result = profkit.api.diff.diff(baseline, candidate, calls=goal.drawn, **reading)
    goal.write(result, masked=github)
    failed = _failed(result, causes, least) | _imported_longer(result, limits, least)
    if github:
        append_summary(
            result.report("md", limit=report.limit, full_paths=report.full_paths, explain=report.explain)
        )
        note = annotation(result, failed=failed, full_paths=report.full_paths)
        if note:
            click.echo(note)
    if failed:
        raise click.exceptions.Exit(1)


def _failed(result: Diff, causes: frozenset[str], least: float | None) -> bool:
    """Return whether the exit status is 1; print why or why not."""
    cause, ratio = result.verdict.cause, result.slowdown.value
    if cause not in causes:
        return False
    if least is not None and ratio < 1 + least:
        say(f"exit status 0: the verdict is {cause}, at {ratio:.3f} × the baseline; {_bar(least)}")
        return False
    slower = "" if least is None else f", at {ratio:.3f} × the baseline"
    say(f"exit status 1: the verdict is {cause}, which --fail-on names{slower}")
    return True


def _bar(least: float) -> str:
    return f"--min-slowdown is {100 * least:g}%"


def _parsed(fail_on: str | None) -> tuple[list[re.Match[str]], frozenset[str]]:
    """Parse ``--fail-on``: limits of import time, and causes; ``any`` is all that make it slower."""
    if fail_on is None:
        return [], frozenset()
    from profkit.verdict.types import CAUSES, NO_HARM

    limits, causes = [], []
    for word in map(str.strip, fail_on.split(",")):
        if not word.startswith(IMPORT_TIME):
            causes.append(word)
        elif found := _LIMIT.fullmatch(word):
            limits.append(found)
        else:
            raise UsageError(
                f"give a limit of {IMPORT_TIME}: {IMPORT_TIME}>1.3x, {IMPORT_TIME}>30% or {IMPORT_TIME}>2s",
                "fail_on",
                word,
            )
    unknown = [cause for cause in causes if cause not in (*CAUSES, "any")]
    if unknown:
        raise UsageError(
            f"not a cause; use {', '.join(CAUSES)}, or any for all that make it slower; a limit is "
            f"{IMPORT_TIME}>1.3x",
            "fail_on",
            unknown[0] or ",".join(causes),
        )
    return limits, frozenset(causes) | (frozenset(CAUSES) - NO_HARM if "any" in causes else frozenset())


def _imported_longer(result: Diff, limits: Sequence[re.Match[str]], least: float | None) -> bool:
    """Return whether imports took longer than a limit allows; print which, or why it does not count."""
    failed, ratio = False, result.slowdown.value
    for limit in limits:
        before, after = result.imports
        if before is None or after is None:
            side = "the baseline" if before is None else "the candidate"
            raise UsageError(
                f"what {side} imported is not known: no call of Python's import system is in its profile",
                "fail_on",
                limit[0],
            )
        more = {
            "x": after.seconds / before.seconds,
            "%": 100 * (after.seconds / before.seconds - 1),
            "s": after.seconds - before.seconds,
        }[limit[2]]
        if more > float(limit[1]):
            took = f"imports took {before.seconds:.3g} → {after.seconds:.3g} s, beyond {limit[0]}"
            if least is not None and ratio < 1 + least:
                say(f"exit status 0: {took}, at {ratio:.3f} × the baseline; {_bar(least)}")
                continue
            say(f"exit status 1: {took}")
            failed = True
    return failed


@click.command(context_settings=CONTEXT)
@run_argument
@report_options
def show(run: Path, report: ReportOptions, **reading: Any) -> None:
    """Show one run: processes, waiting, top functions.

    RUN is a run file, any pstats file, or what another profiler wrote. For a run that is still going, give the
    file that it will write, its spool directory, or a process ID: the report shows what it has done so far.
    """
    gc.disable()  # as in `diff`
    import_numpy()
    from profkit.cli.merge import say_left_behind

    goal = report.destination()
    goal.keep((str(run),))
    with Progress("reading"):
        result = profkit.read(run, **reading)
    goal.write(result)
    say_left_behind(run.parent)
