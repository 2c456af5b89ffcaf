"""``profkit show``: read one run and write what it was."""

from __future__ import annotations

import gc
from pathlib import Path

import click

import profkit
from profkit.cli.app import CONTEXT
from profkit.cli.merge import say_left_behind
from profkit.cli.options import report_options, run_argument
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@run_argument
@report_options
def show(
    run: Path,
    output: Path | None,
    format: str | None,
    by: str,
    process: str | None,
    limit: int | None,
    iteration: tuple[str, ...],
    load: tuple[str, ...],
    compute: tuple[str, ...],
    batch_size: int | None,
    full: bool,
    explain: bool,
    full_paths: bool,
    ticket: bool,
    open_report: bool,
) -> None:
    """Show one run: processes, waiting, top functions.

    RUN is a run file, or any pstats file. Of a run that is still going it is the file that is to be written, the
    spool directory, or the number of a process: what was done until now is shown.
    """
    gc.disable()  # as in ``profkit diff``
    from profkit.cli.destination import destination

    # Who asks for more rows or for the conditions asks for the report that has them.
    brief = not full and limit is None
    goal = destination(format, output, limit=limit, ticket=ticket, open_report=open_report, brief=brief)
    goal.keep((str(run),))
    with Progress("reading"):
        result = profkit.read(
            run,
            by=by,
            process=process,
            iteration=iteration,
            load=load,
            compute=compute,
            batch_size=batch_size,
            calls=goal.drawn,
        )
    goal.write(result, limit=limit, full_paths=full_paths, explain=explain)
    say_left_behind(run.parent)
