"""What ``profkit sweep``, ``profkit tune`` and ``profkit verify`` share: options and progress."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from profkit.cli import say
from profkit.cli.options import ReportOptions, options, text_output

if TYPE_CHECKING:
    from profkit.study.journal import Trial
    from profkit.study.space import Space
    from profkit.study.sweep import Progress
    from profkit.study.verify import Plan, Tried

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a command runs another one several times."""

    timeout: float | None = None
    no_profile: bool = False
    quiet: bool = False

    def of(
        self,
        make: Callable[..., _Result],
        *of: Any,
        title: str,
        kept: Path | None,
        planned: bool = True,
        **how: Any,
    ) -> _Result:
        """Call an API function that makes runs, showing progress; an interrupt exits with 130."""
        try:
            with runs_shown(title, quiet=self.quiet, planned=planned) as progress:
                return make(
                    *of, profiled=not self.no_profile, timeout_s=self.timeout, progress=progress, **how
                )
        except KeyboardInterrupt:
            if kept is None:
                say("stopped before both had run; nothing is kept: --dir keeps the runs")
            else:
                say(f"stopped; the finished runs are in {kept}: run the same command again to continue")
            raise click.exceptions.Exit(130) from None


@dataclass(frozen=True, slots=True)
class Varied:
    """What a study varies."""

    param: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def space(self) -> Space:
        """Return the space of settings; raises `UsageError` if it or the command is invalid."""
        from profkit.api.study import parse_space

        return parse_space(self.command, self.param, self.env)


#: For every command that runs a command several times.
run_options = options(
    click.option(
        "--timeout",
        metavar="S",
        type=click.FloatRange(min=0, min_open=True),
        help="End a run after this many seconds.",
    ),
    click.option("--no-profile", is_flag=True, help="Do not capture the runs; only measure them."),
    text_output,
    click.option(
        "--full-paths",
        is_flag=True,
        help="Do not mask paths, users, host names and command lines in files.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print no progress."),
    run=RunOptions,
    report=ReportOptions,
)
#: For a study.
study_options = options(
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
    run_options,
    click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED),
    varied=Varied,
)


@contextlib.contextmanager
def runs_shown(
    title: str, *, quiet: bool, planned: bool = True
) -> Iterator[Callable[[Progress | Plan | Tried], None]]:
    """Yield a function to call before and after each run of a study; it prints nothing if `quiet`.

    If the number of runs is `planned`, each ended run gets a line, and a terminal shows the remaining time.
    Otherwise only failed runs, the plan, and intermediate results get a line.
    """
    from profkit.cli.progress import Progress as Line
    from profkit.report.wording.studies import plan_line, so_far
    from profkit.study.verify import Plan, Tried

    if quiet:
        yield lambda _: None
        return
    line, took = Line(title), list[float]()
    begun = 0.0

    with line as show:

        def progress(at: Progress | Plan | Tried) -> None:
            nonlocal begun
            if isinstance(at, Plan | Tried):
                line.say(plan_line(at) if isinstance(at, Plan) else so_far(at))
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
    """Return the current run, its duration, and the study's remaining time at the durations in `took`."""
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
