"""``profkit sweep``, ``profkit tune`` and ``profkit verify``, which run a command several times."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import POSITIVE, directory_option, flag, number_option, option, options
from profkit.cli.output import ReportOptions
from profkit.cli.report_options import text_format_option, text_output
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.study.journal import Trial
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


#: For every command that runs a command several times.
run_options = options(
    option("--timeout", "S", "End a run after this many seconds.", type=POSITIVE),
    flag("--no-profile", "Do not capture the runs; only measure them."),
    text_output,
    flag("--full-paths", "Do not mask paths, users, host names and command lines in files."),
    flag("-q --quiet", "Print no progress."),
    run=RunOptions,
    report=ReportOptions,
)
#: For a study.
study_options = options(
    option(
        "-p --param",
        "NAME=VALUES",
        "Values for {NAME} in the command: 1,2,4 or 1..8 or 1..64x2 or, for tune, 1..64:log. Repeatable.",
        multiple=True,
    ),
    option(
        "-e --env",
        "NAME=VALUES",
        "Values of an environment variable; unset may be one of them. Repeatable.",
        multiple=True,
    ),
    run_options,
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


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@number_option("--repeat", "Runs of each setting, in rounds over all settings.  [default: 3]", 3)
@number_option("--warmup", "Warm-up runs of the first setting, not counted.  [default: 0]", 0, least=0)
@option(
    "--baseline",
    "NAME=VALUE,…",
    "The setting that speed-ups refer to.  [default: the first value of each parameter]",
)
@directory_option("Where the study is kept; a stopped one continues there.  [default: sweep]", "sweep")
@study_options
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
def sweep(
    param: tuple[str, ...],
    env: tuple[str, ...],
    command: tuple[str, ...],
    baseline: str | None,
    directory: Path,
    run: RunOptions,
    report: ReportOptions,
    **rounds: Any,
) -> None:
    """Run a command with all combinations of settings and show which is fastest."""
    from profkit.api.study import parse_space, read_sweep
    from profkit.api.study import sweep as make_runs

    goal = report.destination()
    goal.keep_study(directory)
    if param or env or command:
        space = parse_space(command, param, env)
        run.of(make_runs, space, directory, title="sweep", kept=directory, baseline=baseline, **rounds)
    elif not directory.is_dir():
        raise UsageError("nothing to run and no study there: give parameters and a command", "dir", directory)
    goal.write(read_sweep(directory, baseline=baseline))


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@option(
    "--objective",
    "WHAT",
    "wall, range:NAME (median of an NVTX range), output:REGEX, or json:FILE:PATH.  [default: wall]",
    default="wall",
)
@flag("--maximise", "Higher is better, as for examples/s.")
@number_option("--trials", "Settings to try, by all processes on the study together.  [default: 20]", 20)
@number_option(
    "--repeat",
    "Runs of the best settings and of the default, in turn, to confirm; 0 skips it.  [default: 5]",
    5,
    least=0,
)
@option(
    "--baseline",
    "NAME=VALUE,…",
    "The default setting.  [default: variables as they are now; one per CPU for {workers} and the like]",
)
@option("--sampler", "NAME", "One of Optuna's: tpe, random, gp, qmc …  [default: tpe]", default="")
@option(
    "--pruner",
    "NAME",
    "One of Optuna's, such as median, to end runs whose first figures are bad; for output:REGEX.  [default: none]",
    default="",
)
@option("--seed", "N", "Seed of the sampler.", type=int)
@option(
    "--storage",
    "URL",
    "Any Optuna storage, or journal:FILE for several machines on one study.  [default: SQLite in DIR]",
)
@option("--study name", "NAME", "Name in the storage.  [default: profkit]", default="profkit")
@directory_option("Where runs are kept; a stopped study continues there.  [default: tune]", "tune")
@study_options
@click.argument("command", metavar="-- COMMAND…", nargs=-1, type=click.UNPROCESSED)
def tune(
    param: tuple[str, ...],
    env: tuple[str, ...],
    command: tuple[str, ...],
    directory: Path,
    run: RunOptions,
    report: ReportOptions,
    **search: Any,
) -> None:
    """Search for the best settings of a command, and confirm them against the default."""
    from profkit.api.study import parse_space
    from profkit.api.study import tune as search_on

    goal = report.destination()
    goal.keep_study(directory)
    space = parse_space(command, param, env)
    goal.write(run.of(search_on, space, directory, title="tune", kept=directory, **search))


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="[BASELINE] RUN [N]", nargs=-1, required=True)
@option(
    "--limit limit_s",
    "S",
    "Begin no further round of runs after this many seconds.  [default: 600, or four rounds]",
    type=POSITIVE,
)
@directory_option("Keep the runs in DIR, and continue from them.")
@flag("--here", "Run it here, although it was captured on another machine.")
@text_format_option
@run_options
def verify(
    runs: tuple[str, ...], directory: Path | None, run: RunOptions, report: ReportOptions, **how: Any
) -> None:
    """Test the advice: run the command with and without it, and compare.

    The recorded command runs again in its directory, with and without the advice in turn, until the
    result is clear.
    """
    from profkit.api.verify import verify as tried

    files, number = _files(runs)
    goal = report.destination()
    goal.keep(files)
    if directory is not None:
        goal.keep_study(directory)
    # The number of runs is unknown: it continues until there is a decision.
    result = run.of(
        tried,
        *files,
        title="verify",
        kept=directory,
        planned=False,
        number=number,
        directory=directory,
        **how,
    )
    goal.write(result)
    if result.study.stopped:
        raise click.exceptions.Exit(130)


def _files(words: tuple[str, ...]) -> tuple[list[str], int | None]:
    """Return the files, and the number of the advice if one is given."""
    *files, last = words
    number = int(last) if files and last.isdecimal() and not os.path.exists(last) else None
    if number is None:
        files.append(last)
    if len(files) > 2:
        raise UsageError("give a run, or a baseline and a run, then optionally a number of advice")
    return files, number
