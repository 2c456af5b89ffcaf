"""``profkit scaling``: runs of one program with different numbers of processes and nodes."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import study_options
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1)
@click.option("--weak", is_flag=True, help="The work grows with the processes: ideal is the same time.")
@study_options
def scaling(
    runs: tuple[str, ...],
    weak: bool,
    waits: tuple[str, ...],
    jobs: int | None,
    dask: str | None,
    output: Path | None,
    format: str | None,
    limit: int | None,
    full_paths: bool,
) -> None:
    """Compare runs with different numbers of processes and nodes.

    RUN is a run file, or a directory or quoted pattern of them; files of single ranks are joined by their job.
    """
    gc.disable()  # as in ``profkit diff``
    from profkit.api.scaling import read_scaling
    from profkit.cli.destination import destination
    from profkit.study.workers import available_cpus

    goal = destination(format, output, limit=limit, ticket=False, open_report=False)
    with Progress("reading the runs"):
        result = read_scaling(
            runs, weak=weak, waits=waits, jobs=available_cpus() if jobs is None else jobs, dask=dask
        )
    goal.keep(result.inputs())
    goal.write(result, limit=limit, full_paths=full_paths, explain=False)
