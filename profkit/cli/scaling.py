"""``profkit scaling``: runs of one program with different numbers of processes and nodes."""

from __future__ import annotations

from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, study_options


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@click.option("--weak", is_flag=True, help="The work grows with the processes: the ideal is constant time.")
@study_options
def scaling(runs: tuple[str, ...], report: ReportOptions, **reading: Any) -> None:
    """Compare runs with different numbers of processes and nodes.

    RUN is a run file, or a directory or quoted pattern of them; files of single ranks are joined by their job.
    """
    from profkit.api.many_runs import read_scaling

    report.write("reading the runs", lambda: read_scaling(runs, **reading))
