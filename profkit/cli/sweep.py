"""``profkit sweep``: run a command with all combinations of some settings, and say which is the fastest."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.study.space import Space
    from profkit.study.sweep import Progress

__all__ = ["sweep"]


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "-p",
    "--param",
    metavar="NAME=VALUES",
    multiple=True,
    help="Values for {NAME} in the command: 1,2,4 or 1..8 or 1..64x2. Repeatable.",
)
@click.option(
    "-e",
    "--env",
    metavar="NAME=VALUES",
    multiple=True,
    help="Values of an environment variable; unset is one of them. Repeatable.",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    help="Runs of each setting, in rounds over all settings.  [default: 3]",
)
@click.option(
    "--warmup",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Runs of the first setting before anything counts.  [default: 0]",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    help="End a run after this many seconds.  [default: never]",
)
@click.option("--no-profile", is_flag=True, help="Do not capture the runs: only their times are taken.")
@click.option(
    "--baseline",
    metavar="NAME=VALUE,…",
    help="The setting that speed-ups refer to.  [default: the first value of each parameter]",
)
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=FILE,
    default=Path("sweep"),
    help="Where the study is kept; a study that was stopped goes on.  [default: sweep]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Write the report to a .html, .json, .md or .txt file instead of stdout.",
)
@click.option("--full-paths", is_flag=True, help="Leave paths, users, host names and command lines as they are.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
def sweep(
    param: tuple[str, ...],
    env: tuple[str, ...],
    repeat: int,
    warmup: int,
    timeout: float | None,
    no_profile: bool,
    baseline: str | None,
    directory: Path,
    output: Path | None,
    full_paths: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Run a command with all combinations of settings and show which is fastest.

    \b
    profkit sweep -p workers=1,2,4 -e OMP_NUM_THREADS=1,2,4 -- python train.py --workers {workers}
    profkit sweep --dir sweep -o sweep.html          show the study again
    """  # noqa: D301 - click's sign for a paragraph that is not wrapped
    from profkit.cli.destination import destination

    goal = destination(None, output, limit=None, ticket=False, open_report=False)
    if command:
        space = _space(param, env, command)
        if baseline is not None:
            from profkit.study.space import parse_setting

            parse_setting(baseline, space.parameters)
        _run(space, directory, repeat, warmup, timeout, not no_profile, quiet)
    elif param or env:
        raise UsageError("no command to run; put it behind --")
    from profkit.api.sweep import read_sweep

    goal.write(read_sweep(directory, baseline=baseline), limit=None, full_paths=full_paths, explain=False)


def _space(param: tuple[str, ...], env: tuple[str, ...], command: tuple[str, ...]) -> Space:
    from profkit.study.space import Space, parse_parameter

    parameters = [parse_parameter(text, environment=False) for text in param]
    parameters += [parse_parameter(text, environment=True) for text in env]
    space = Space(command, tuple(parameters))
    space.check()
    program = space.command_of(space.settings()[0])[0]
    if shutil.which(program) is None:
        raise UsageError(f"{program}: no such command; nothing was run")
    return space


def _run(
    space: Space,
    directory: Path,
    repeat: int,
    warmup: int,
    timeout: float | None,
    profiled: bool,
    quiet: bool,
) -> None:
    from profkit.study.journal import Journal
    from profkit.study.sweep import sweep as run
    from profkit.study.trials import Interrupted

    with Journal(directory, space, profiled=profiled) as journal:
        try:
            run(
                journal,
                space,
                repeat=repeat,
                warmup=warmup,
                timeout_s=timeout,
                progress=(lambda _: None) if quiet else _say,
            )
        except Interrupted:
            done = len(journal.trials)
            print(
                f"profkit: stopped; {done} runs are in {directory}: run the same command again to go on",
                file=sys.stderr,
            )
            raise click.exceptions.Exit(130) from None


def _say(progress: Progress) -> None:
    """Print one line for each run when it has ended."""
    trial = progress.trial
    if trial is None:
        return
    from profkit.report.text import clean
    from profkit.report.units import seconds

    place = "warm-up" if progress.number == 0 else f"run {progress.number} of {progress.total}"
    said = seconds(trial.wall_s) if trial.status == "done" else f"{trial.status}: {trial.problem}"
    print(clean(f"profkit: {place}: {progress.label}: {said}"), file=sys.stderr, flush=True)
