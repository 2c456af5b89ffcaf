"""What ``profkit sweep`` and ``profkit tune`` share: options of a study, and what is printed."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from profkit.cli.options import FILE
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.study.journal import Trial
    from profkit.study.space import Space
    from profkit.study.sweep import Progress

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Of every command that runs a command several times.
_RUN_OPTIONS = (
    click.option(
        "--timeout",
        metavar="S",
        type=click.FloatRange(min=0, min_open=True),
        help="End a run after this many seconds.",
    ),
    click.option("--no-profile", is_flag=True, help="Do not capture the runs: only their figures are taken."),
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=FILE,
        help="Write the report to a .html, .json, .md or .txt file instead of stdout.",
    ),
    click.option(
        "--full-paths",
        is_flag=True,
        help="Leave paths, users, host names and command lines as they are in files too.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print no progress."),
)
_STUDY_OPTIONS = (
    click.option(
        "-p",
        "--param",
        metavar="NAME=VALUES",
        multiple=True,
        help="Values for {NAME} in the command: 1,2,4 or 1..8 or 1..64x2 or 1..64:log. Repeatable.",
    ),
    click.option(
        "-e",
        "--env",
        metavar="NAME=VALUES",
        multiple=True,
        help="Values of an environment variable; unset may be one of them. Repeatable.",
    ),
    *_RUN_OPTIONS,
    click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED),
)


def run_options(command: _Command) -> _Command:
    """Give a command the options of how runs are made and reported."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


def study_options(command: _Command) -> _Command:
    """Give a command the options of a study."""
    for option in reversed(_STUDY_OPTIONS):
        command = option(command)
    return command


def space_of(param: tuple[str, ...], env: tuple[str, ...], command: tuple[str, ...]) -> Space:
    """Return what is varied; raises `UsageError` before any run if it or the command is invalid."""
    from profkit.study.space import Space, parse_parameter

    if not command:
        raise UsageError("no command to run; put it behind --")
    parameters = [parse_parameter(text, environment=False) for text in param]
    parameters += [parse_parameter(text, environment=True) for text in env]
    space = Space(command, tuple(parameters))
    space.check()
    first = tuple(parameter.values[0] for parameter in space.parameters)
    program = space.command_of(first)[0]
    if shutil.which(program) is None:
        raise UsageError(f"{program}: no such command; nothing was run")
    return space


@contextlib.contextmanager
def runs_shown(
    title: str, *, quiet: bool, planned: bool = True
) -> Iterator[Callable[[Progress | str], None]]:
    """Give a function to call before and after each run of a study; it prints nothing if `quiet`.

    If the number of runs is `planned`, each ended run gets a line, and a terminal shows the remaining time at
    the median run time so far. Otherwise only failed runs, and texts passed to the function, get a line.
    """
    from profkit.cli.progress import Progress as Line

    if quiet:
        yield lambda _: None
        return
    line, took = Line(title), list[float]()
    begun = 0.0

    with line as show:

        def progress(at: Progress | str) -> None:
            nonlocal begun
            if isinstance(at, str):
                line.say(at)
            elif at.trial is None:
                begun = time.monotonic()
                show(partial(_running, at, begun, tuple(took) if planned else None))
            else:
                took.append(time.monotonic() - begun)
                show("")
                if planned or at.trial.status != "done":
                    line.say(_said(at, at.trial))

        yield progress


def _place(progress: Progress) -> str:
    return "warm-up" if progress.number == 0 else f"run {progress.number} of {progress.total}"


def _running(progress: Progress, begun: float, took: Sequence[float] | None) -> str:
    """Return what runs, since when, and how long the study still takes at the durations in `took`."""
    now = time.monotonic() - begun
    if took is None:
        return f"run {progress.number} of at most {progress.total}: {progress.label}, {now:.0f} s"
    text = f"{_place(progress)}: {progress.label}, {now:.0f} s"
    if not took:
        return text
    usual = statistics.median(took)
    left = max(0.0, usual - now) + usual * (progress.total - progress.number)
    return f"{text}, about {left:.0f} s left"


def _said(progress: Progress, trial: Trial) -> str:
    from profkit.report.text import clean
    from profkit.report.units import seconds

    if trial.status == "disturbed":
        said = f"{seconds(trial.wall_s)}, disturbed: {trial.problem}"
    elif trial.status != "done":
        said = f"{trial.status}: {trial.problem}"
    elif trial.objective is not None:
        said = f"{trial.objective:.6g} in {seconds(trial.wall_s)}"
    else:
        said = seconds(trial.wall_s)
    return clean(f"{_place(progress)}: {progress.label}: {said}")


def stopped(directory: Path) -> click.exceptions.Exit:
    """Say that the user stopped a study; the exit status is that of an interrupt."""
    print(
        f"profkit: stopped; what has run is in {directory}: run the same command again to go on",
        file=sys.stderr,
    )
    return click.exceptions.Exit(130)
