"""``profkit history``: one job run again and again, and where it changed for good."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import many_runs_options, percent
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@click.option(
    "--metric",
    metavar="wall|own|iteration",
    default="wall",
    help="What to search: the wall, the wall less queueing for CPUs, or an iteration.  [default: wall]",
)
@click.option(
    "--min-change",
    metavar="PERCENT",
    help="Report no change that is smaller: 2%.  [default: 2%]",
)
@many_runs_options
def history(
    runs: tuple[str, ...],
    metric: str,
    min_change: str | None,
    output: Path | None,
    format: str | None,
    limit: int | None,
    full_paths: bool,
) -> None:
    """Show the trend of a repeated job, and where it changed for good.

    RUN is a run file, or a directory or quoted pattern of them. The runs are put in the order in which they started;
    runs of other commands and runs that failed are left out.
    """
    gc.disable()  # as in ``profkit diff``
    from profkit.api.history import read_history_runs
    from profkit.cli.destination import destination
    from profkit.measure.changepoints import LEAST_CHANGE
    from profkit.study.workers import available_cpus

    goal = destination(format, output, limit=limit, ticket=False, open_report=False)
    least = LEAST_CHANGE if min_change is None else percent(min_change, "min_change")
    with Progress("reading the runs"):
        result = read_history_runs(runs, metric=metric, least_change=least, jobs=available_cpus())
    goal.keep(result.inputs())
    # Its tables have room for base names only.
    goal.write(result, limit=limit, full_paths=full_paths, explain=False, masked=True)
