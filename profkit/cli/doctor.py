"""``profkit doctor``: what would start how many threads or processes here, and is that too much?"""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE
from profkit.cli.progress import Progress
from profkit.errors import UsageError

_COUNT = click.IntRange(min=1)


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--python", metavar="PATH", help="Python whose libraries are asked about.  [default: the active one]"
)
@click.option("--ranks", metavar="N", type=_COUNT, help="Plan for this many ranks on this machine.")
@click.option("--workers", metavar="N", type=_COUNT, help="Plan for this many worker processes of each rank.")
@click.option("--threads", metavar="N", type=_COUNT, help="Plan for this many threads of each process.")
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(min=0.5, max=3600),
    default=10.0,
    help="End the command after this many seconds.  [default: 10]",
)
@click.option("--fail-on", metavar="oversubscribed", help="Exit with 1 if it is oversubscribed.")
@click.option("--format", metavar="FORMAT", help="Format: terminal, json, md or html.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Write the report to a .html, .json, .md or .txt file instead of stdout.",
)
@click.option(
    "--full-paths", is_flag=True, help="Leave paths, users, host names and command lines as they are."
)
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
def doctor(
    python: str | None,
    ranks: int | None,
    workers: int | None,
    threads: int | None,
    seconds: float,
    fail_on: str | None,
    format: str | None,
    output: Path | None,
    full_paths: bool,
    command: tuple[str, ...],
) -> None:
    """Say what would oversubscribe this machine.

    It answers for the libraries of a Python, for a plan, or for a command, which is run for a few seconds.
    """
    from profkit.cli.destination import destination

    goal = destination(format, output, limit=None, ticket=False, open_report=False)
    if fail_on not in (None, "oversubscribed"):
        raise UsageError(
            "is nothing that doctor finds, use oversubscribed", parameter="fail_on", value=fail_on
        )
    if command and (ranks or workers or threads):
        raise UsageError("--ranks, --workers and --threads are a plan; a command shows its own")
    from profkit.api.doctor import doctor as examine
    from profkit.study.trials import Interrupted

    # Not beside a command, which writes to the terminal itself.
    shown = contextlib.nullcontext() if command else Progress("looking")
    try:
        with shown:
            found = examine(
                command, python=python, ranks=ranks, workers=workers, threads=threads, seconds=seconds
            )
    except Interrupted:
        raise click.exceptions.Exit(130) from None
    goal.write(found, limit=None, full_paths=full_paths, explain=False)
    if fail_on and found.diagnosis.oversubscribed:
        raise click.exceptions.Exit(1)
