"""``profkit show``: report on one run."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import click

import profkit
from profkit.cli.app import CONTEXT
from profkit.cli.merge import say_left_behind
from profkit.cli.options import ReportOptions, report_options, run_argument
from profkit.cli.own_path import import_numpy
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@run_argument
@report_options
def show(run: Path, report: ReportOptions, **reading: Any) -> None:
    """Show one run: processes, waiting, top functions.

    RUN is a run file, any pstats file, or what another profiler wrote. Of a run that is still going it is the file
    that is to be written, the spool directory, or the number of a process: what was done until now is shown.
    """
    gc.disable()  # as in ``profkit diff``
    import_numpy()
    goal = report.destination()
    goal.keep((str(run),))
    with Progress("reading"):
        result = profkit.read(run, calls=goal.drawn, **reading)
    goal.write(result)
    say_left_behind(run.parent)
