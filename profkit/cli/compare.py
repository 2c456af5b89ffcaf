"""``profkit compare``: several runs or configurations, one row each."""

from __future__ import annotations

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, many_runs_options


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@click.option(
    "--against",
    metavar="first|best|NAME",
    default="first",
    help="What the verdicts compare with: the first row, the fastest, or a file.  [default: first]",
)
@click.option(
    "--group-by",
    metavar="WHAT",
    default="auto",
    help="What makes one row: settings, argument, run, command, revision or host.  [default: settings, each "
    "argument by itself]",
)
@many_runs_options
def compare(runs: tuple[str, ...], against: str, group_by: str, report: ReportOptions) -> None:
    """Compare several runs or configurations: one row each.

    RUN is a run file, any pstats file, or a directory or quoted pattern of them. The runs of a directory or a pattern
    that have the same command, thread variables, CPUs and revision are repeats, and one row.
    """
    from profkit.api.many_runs import read_compared

    # Only base names fit its tables.
    report.write("reading the runs", lambda: read_compared(runs, by=group_by, against=against), masked=True)
