"""``profkit ranks``: the processes of one job against each other."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import study_options
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@study_options
def ranks(
    runs: tuple[str, ...],
    waits: tuple[str, ...],
    jobs: int | None,
    dask: str | None,
    output: Path | None,
    format: str | None,
    limit: int | None,
    full_paths: bool,
) -> None:
    """Compare the processes of one job: stragglers, imbalance.

    RUN is a run with several processes, or the files of a job: files, directories, quoted patterns. With --dask also
    addresses that fsspec knows, such as s3://bucket/job.
    """
    gc.disable()  # as in ``profkit diff``
    from profkit.api.ranks import read_ranks
    from profkit.cli.destination import destination
    from profkit.study.workers import available_cpus

    goal = destination(format, output, limit=limit, ticket=False, open_report=False)
    with Progress("reading the job"):
        result = read_ranks(runs, waits=waits, jobs=available_cpus() if jobs is None else jobs, dask=dask)
    goal.keep(result.inputs())
    goal.write(result, limit=limit, full_paths=full_paths, explain=False)
