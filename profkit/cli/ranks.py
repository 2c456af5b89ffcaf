"""``profkit ranks``: compare the processes of one job."""

from __future__ import annotations

from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, study_options


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
