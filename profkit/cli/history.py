"""``profkit history``: one job run again and again, and where it changed for good."""

from __future__ import annotations

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, many_runs_options, percent


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@click.option(
    "--metric",
    metavar="wall|own|iteration",
    default="wall",
    help="What to analyse: the wall, the wall minus CPU queueing, or an iteration.  [default: wall]",
)
@click.option(
    "--min-change",
    metavar="PERCENT",
    default="2%",
    help="Ignore changes smaller than this.  [default: 2%]",
)
@many_runs_options
def history(runs: tuple[str, ...], metric: str, min_change: str, report: ReportOptions) -> None:
    """Show the trend of a repeated job, and its lasting changes.

    RUN is a run file, or a directory or quoted pattern of them. The runs are put in the order in which they started;
    runs of other commands and runs that failed are left out.
    """
    from profkit.api.many_runs import read_history_runs

    least = percent(min_change, "min_change")
    # Only base names fit its tables.
    report.write(
        "reading the runs",
        lambda: read_history_runs(runs, metric=metric, least_change=least, jobs=None),
        masked=True,
    )
