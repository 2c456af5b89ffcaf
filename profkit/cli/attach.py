"""``profkit attach``: record a running program for a while."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import output_option


@click.command(context_settings=CONTEXT)
@click.argument("pid", metavar="PID", type=click.IntRange(min=1))
@click.option(
    "--duration",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="Seconds to record; Ctrl-C ends it earlier.",
)
@output_option("Run file to write.  [default: run.prof, run-2.prof, …]")
@click.option(
    "--functions",
    type=click.Choice(["auto", "trace", "sample", "none"]),
    default="auto",
    show_default=True,
    help="What records functions: the agent (Python 3.14 on), py-spy, or nothing.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print neither the limitations nor where the run was written."
)
def attach(pid: int, duration: float, output: Path | None, functions: str, quiet: bool) -> None:
    """Record a program that is running already.

    PID is its first process; all its descendants are in the run.
    """
    from profkit.capture.attach import attach as look
    from profkit.cli.capture import say_notices, say_written

    look(
        pid,
        output,
        duration_s=duration,
        functions=functions,
        begun=None if quiet else say_notices,
        written=None if quiet else say_written,
    )
