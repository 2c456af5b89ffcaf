"""``profkit compare``, ``history``, ``ranks`` and ``scaling``: reports on many runs, or many processes."""

from __future__ import annotations

from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import flag, option, percent
from profkit.cli.output import ReportOptions
from profkit.cli.report_options import many_runs_options, study_options


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@option(
    "--against",
    "first|best|NAME",
    "What the verdicts compare with: the first row, the fastest, or a file.  [default: first]",
    default="first",
)
@option(
    "--group-by",
    "WHAT",
    "What makes one row: settings, argument, run, command, revision or host.  [default: settings, within "
    "each RUN]",
    default="auto",
)
@many_runs_options
def compare(runs: tuple[str, ...], against: str, group_by: str, report: ReportOptions) -> None:
    """Compare several runs or configurations: one row each.

    RUN is a run file, any pstats file, or a directory or quoted pattern of them. The runs of a directory or a pattern
    that have the same command, thread variables, CPUs and revision are repeats, and one row.
    """
    from profkit.api.many_runs import read_compared

    report.write("reading the runs", lambda: read_compared(runs, by=group_by, against=against))


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@option(
    "--metric",
    "wall|own|iteration",
    "What to analyse: the wall, the wall minus CPU queueing, or an iteration.  [default: wall]",
    default="wall",
)
@option("--min-change", "PERCENT", "Ignore changes smaller than this.  [default: 2%]", default="2%")
@many_runs_options
def history(runs: tuple[str, ...], metric: str, min_change: str, report: ReportOptions) -> None:
    """Show the trend of a repeated job, and its lasting changes.

    RUN is a run file, or a directory or quoted pattern of them. The runs are put in the order in which they started;
    runs of other commands and runs that failed are left out.
    """
    from profkit.api.many_runs import read_history_runs

    least = percent(min_change, "min_change")
    report.write(
        "reading the runs", lambda: read_history_runs(runs, metric=metric, least_change=least, jobs=None)
    )


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@study_options
def ranks(runs: tuple[str, ...], report: ReportOptions, **reading: Any) -> None:
    """Compare the processes of one job: stragglers, imbalance.

    RUN is a run with several processes, or the files of a job: files, directories, quoted patterns. With --dask also
    addresses that fsspec knows, such as s3://bucket/job.
    """
    from profkit.api.many_runs import read_ranks

    report.write("reading the job", lambda: read_ranks(runs, **reading))


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@flag("--weak", "The work grows with the processes: the ideal is constant time.")
@study_options
def scaling(runs: tuple[str, ...], report: ReportOptions, **reading: Any) -> None:
    """Compare runs with different numbers of processes and nodes.

    RUN is a run file, or a directory or quoted pattern of them; files of single ranks are joined by their job.
    """
    from profkit.api.many_runs import read_scaling

    report.write("reading the runs", lambda: read_scaling(runs, **reading))
