"""``profkit verify``: try a piece of advice, by running the recorded command with it and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, directory_option, format_option
from profkit.cli.studies import RunOptions, run_options
from profkit.errors import UsageError


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="[BASELINE] RUN [N]", nargs=-1, required=True)
@click.option(
    "--limit",
    "limit_s",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    help="Begin no further round of runs after this many seconds.  [default: 600, or four rounds]",
)
@directory_option("Keep the runs in DIR, and continue from them.")
@click.option("--here", is_flag=True, help="Run it here, although it was captured on another machine.")
@format_option
@run_options
def verify(
    runs: tuple[str, ...], directory: Path | None, run: RunOptions, report: ReportOptions, **how: Any
) -> None:
    """Test the advice: run the command with and without it, and compare.

    The recorded command runs again in its directory, with and without the advice in turn, until the
    result is clear.
    """
    from profkit.api.verify import verify as tried

    files, number = _files(runs)
    goal = report.destination()
    goal.keep(files)
    # The number of runs is unknown: it continues until there is a decision.
    result = run.of(
        tried,
        *files,
        title="verify",
        kept=directory,
        planned=False,
        number=number,
        directory=directory,
        **how,
    )
    goal.write(result)
    if result.study.stopped:
        raise click.exceptions.Exit(130)


def _files(words: tuple[str, ...]) -> tuple[list[str], int | None]:
    """Return the files, and the number of the advice if one is given."""
    *files, last = words
    number = int(last) if files and last.isdecimal() and not os.path.exists(last) else None
    if number is None:
        files.append(last)
    if len(files) > 2:
        raise UsageError("give a run, or a baseline and a run, then optionally a number of advice")
    return files, number
