"""``profkit compare``: several runs or configurations, one row each."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import many_runs_options
from profkit.cli.progress import Progress


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
    help="What is one row: settings, argument, run, command, revision or host.  "
    "[default: settings, each argument by itself]",
)
@many_runs_options
def compare(
    runs: tuple[str, ...],
    against: str,
    group_by: str,
    output: Path | None,
    format: str | None,
    limit: int | None,
    full_paths: bool,
) -> None:
    """Compare several runs or configurations: one row each.

    RUN is a run file, any pstats file, or a directory or quoted pattern of them. The runs of a directory or a pattern
    that have the same command, thread variables, CPUs and revision are repeats, and one row.
    """
    gc.disable()  # as in ``profkit diff``
    from profkit.api.compare import read_compared
    from profkit.cli.destination import destination

    goal = destination(format, output, limit=limit, ticket=False, open_report=False)
    with Progress("reading the runs"):
        result = read_compared(runs, by=group_by, against=against)
    goal.keep(result.inputs())
    # Its tables have room for base names only.
    goal.write(result, limit=limit, full_paths=full_paths, explain=False, masked=True)
