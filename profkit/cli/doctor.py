"""``profkit doctor``: how many threads and processes would start here, and is that too much?"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import flag, number_option, option, options
from profkit.cli.output import ReportOptions
from profkit.cli.progress import Progress
from profkit.cli.report_options import text_format_option, text_output
from profkit.errors import UsageError


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@option("--python", "PATH", "Python whose libraries are asked about.  [default: the active one]")
@number_option("--ranks", "Plan for this many ranks on this machine.")
@number_option("--workers", "Plan for this many worker processes of each rank.")
@number_option("--threads", "Plan for this many threads of each process.")
@option(
    "--launcher",
    "slurm|mpirun|torchrun|all",
    "Print the lines for this launcher.  [default: the one in use, if any]",
)
@option(
    "--seconds",
    "S",
    "End the command after this many seconds.  [default: 10]",
    type=click.FloatRange(min=0.5, max=3600),
    default=10.0,
)
@option("--fail-on", "oversubscribed", "Exit with 1 if it is oversubscribed.")
@options(
    text_format_option,
    text_output,
    flag("--full-paths", "Do not mask paths, users, host names and command lines."),
    report=ReportOptions,
)
@flag(
    "--build-tracers",
    "Build the tracers that captures of other Pythons on this machine need: for those named, or for all "
    "on PATH and in pyenv.",
)
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
def doctor(
    fail_on: str | None,
    report: ReportOptions,
    build_tracers: bool,
    command: tuple[str, ...],
    **asked: Any,
) -> None:
    """Say what would oversubscribe this machine.

    It answers for the libraries of a Python, for a plan, or for a command, which is run for a few seconds.
    """
    if build_tracers:
        _build_tracers(command)
        return
    goal = report.destination()
    if fail_on not in (None, "oversubscribed"):
        raise UsageError("is not a finding of doctor; use oversubscribed", "fail_on", fail_on)
    if command and (asked["ranks"] or asked["workers"] or asked["threads"]):
        raise UsageError("--ranks, --workers and --threads describe a plan; do not give a command as well")
    from profkit.api.doctor import doctor as examine

    # A command writes to the terminal itself.
    with contextlib.nullcontext() if command else Progress("looking"):
        found = examine(command, **asked)
    goal.write(found)
    if fail_on and found.study.oversubscribed:
        raise click.exceptions.Exit(1)


def _build_tracers(named: tuple[str, ...]) -> None:
    """Print a line for each Python; exit with 2 if a named one cannot be traced."""
    context = click.get_current_context()
    others = [
        name
        for name in context.params
        if name not in ("build_tracers", "command")
        and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if others:
        raise UsageError("--build-tracers takes interpreters only, no other options")
    from profkit.capture.tracers import build_tracers

    outcomes = build_tracers(named, os.environ)
    for outcome in outcomes:
        click.echo(f"{outcome.path}: {outcome.says}")
    if named and not all(outcome.traced for outcome in outcomes):
        raise click.exceptions.Exit(2)
