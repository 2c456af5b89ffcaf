"""``profkit verify``: try a piece of advice, by running the recorded command with it and without."""

from __future__ import annotations

import os
from pathlib import Path

import click

from profkit.cli import say as say_line
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE, format_option
from profkit.cli.studies import run_options, runs_shown, stopped
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
@click.option(
    "--dir", "directory", metavar="DIR", type=FILE, help="Keep the runs there, and go on from them."
)
@click.option("--here", is_flag=True, help="Run it here, although it was captured on another machine.")
@format_option
@run_options
def verify(
    runs: tuple[str, ...],
    limit_s: float | None,
    directory: Path | None,
    here: bool,
    format: str | None,
    timeout: float | None,
    no_profile: bool,
    output: Path | None,
    full_paths: bool,
    quiet: bool,
) -> None:
    """Run the advice against the run as it was: predicted, and measured.

    The recorded command runs again in its directory, as it was and with the advice in turn, until it is decided.
    """
    from profkit.api.verify import verify as tried
    from profkit.cli.destination import destination
    from profkit.report.wording.tried import plan_line, so_far
    from profkit.study.trials import Interrupted
    from profkit.study.verify import Plan

    files, number = _files(runs)
    goal = destination(format, output, limit=None, ticket=False, open_report=False)
    goal.keep(files)
    try:
        # It goes on until it is decided.
        with runs_shown("verify", quiet=quiet, planned=False) as progress:
            result = tried(
                *files,
                number=number,
                profiled=not no_profile,
                limit_s=limit_s,
                timeout_s=timeout,
                directory=directory,
                here=here,
                progress=progress,
                known=lambda seen: progress(plan_line(seen) if isinstance(seen, Plan) else so_far(seen)),
            )
    except (Interrupted, KeyboardInterrupt):
        if directory is not None:
            raise stopped(directory) from None
        say_line("stopped before both had run; nothing is kept: --dir keeps the runs")
        raise click.exceptions.Exit(130) from None
    goal.write(result, limit=None, full_paths=full_paths, explain=False)
    if result.tried.stopped:
        raise click.exceptions.Exit(130)


def _files(words: tuple[str, ...]) -> tuple[list[str], int | None]:
    """Return the files, and the number of the advice where one is given."""
    *files, last = words
    number = int(last) if files and last.isdecimal() and not os.path.exists(last) else None
    if number is None:
        files.append(last)
    if len(files) > 2:
        raise UsageError("give a run, or a baseline and a run, and the number of a piece of advice")
    return files, number
