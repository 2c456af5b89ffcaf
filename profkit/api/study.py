"""Studies of settings: run a command with them, and report the results.

A directory holds the study (`profkit.study.journal`); the same call continues an interrupted one. All raise
`UsageError` for invalid settings, options or places, before anything runs; `ProfkitError` if the command
cannot be started; `Interrupted` if the user stops it. `progress` is called before and after each run.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from profkit import model
from profkit.api.reported import Studied
from profkit.capture.cpu_limits import read_limits
from profkit.capture.host import cpus_to_use
from profkit.errors import FormatError, ProfkitError, UsageError
from profkit.formats import load_run
from profkit.report.sweepdoc import SweepReport, TuneReport
from profkit.study.journal import COUNTED, Journal, Plan, Trial, make_runs, read_plan, read_trials
from profkit.study.launch import Launch, of_setting
from profkit.study.objectives import WALL, Objective, parse_objective
from profkit.study.setting_results import Results, resources, results
from profkit.study.space import Setting, Space, is_number, parse_parameter, parse_setting
from profkit.study.sweep import Progress, Runner
from profkit.study.sweep import sweep as run_grid
from profkit.study.tune import advised_settings, baseline_of, figures, finalists, first_settings, open_search
from profkit.study.tune import tune as search_on
from profkit.verdict.account import Account


def parse_space(command: Sequence[str], param: Sequence[str], env: Sequence[str]) -> Space:
    """Return what is varied: ``NAME=VALUES`` of placeholders (`param`) and of variables (`env`)."""
    if not command:
        raise UsageError("no command to run; put it behind --")
    parameters = [parse_parameter(text, environment=False) for text in param]
    parameters += [parse_parameter(text, environment=True) for text in env]
    space = Space(tuple(command), tuple(parameters))
    space.check()
    program = space.command_of(tuple(parameter.values[0] for parameter in parameters))[0]
    if shutil.which(program) is None:
        raise UsageError(f"{program}: no such command; nothing was run")
    return space


def sweep(
    space: Space,
    directory: Path,
    *,
    repeat: int,
    warmup: int = 0,
    baseline: str | None = None,
    profiled: bool = True,
    timeout_s: float | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Run every setting `repeat` times, after uncounted `warmup` runs; `baseline` is only checked here."""
    space.settings()
    if baseline is not None:
        parse_setting(baseline, space.parameters)
    with Journal(directory, space, profiled=profiled) as journal:
        runner = Runner(space, journal.runs, profiled, dict(os.environ), timeout_s)
        run_grid(journal, runner, repeat=repeat, warmup=warmup, progress=progress)


def read_sweep(directory: Path, *, baseline: str | None = None) -> Studied[Results]:
    """Read the study of a grid; speed-ups refer to `baseline` (``NAME=VALUE,…``; default: first setting).

    Raises `FormatError` if there is no study, or its files are damaged.
    """
    grid = _grid(directory, baseline)
    report = SweepReport(grid.results, grid.plan.space, grid.compared())
    return Studied(grid.results, report, known=grid.compared_runs())


def tune(
    space: Space,
    directory: Path,
    *,
    objective: str = "wall",
    maximise: bool = False,
    trials: int,
    repeat: int,
    baseline: str | None = None,
    profiled: bool = True,
    timeout_s: float | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    storage: str | None = None,
    **search: Any,
) -> Studied[Results]:
    """Search for the best setting with `trials` runs, then run it and the default `repeat` times in turn.

    `storage` and `search` (`name`, `sampler`, `pruner`, `seed`) are as for `profkit.study.tune.open_search`.
    """
    wanted = parse_objective(objective, maximise=maximise)
    if wanted.kind == "range" and not profiled:
        raise UsageError(
            "NVTX ranges are captured with the profile: leave out --no-profile", "objective", objective
        )
    cpus = max(1, int(cpus_to_use()))
    if baseline is None:
        default = baseline_of(space, cpus, os.environ)
    else:
        default = parse_setting(baseline, space.parameters, listed=False)
    runner = Runner(space, make_runs(directory), profiled, dict(os.environ), timeout_s, wanted)
    place = storage or f"sqlite:///{directory / 'study.db'}"
    opened = open_search(runner, default, storage=place, first=first_settings(space, cpus), **search)
    advise = partial(_advice_of, runner, default)
    search_on(opened, runner, default, trials=trials, advise=advise, progress=progress)
    found = figures(opened, runner, default)
    best = finalists(found)
    if not repeat or not best:
        return Studied(found, TuneReport(found, space))
    again = _confirmed(
        directory, replace(runner, space=replace(space, listed=(default, *best))), repeat, progress
    )
    report = TuneReport(found, space, again.results, again.account(), again.compared(), _launch(space, again))
    return Studied(found, report, known=again.compared_runs())


def _launch(space: Space, found: _Grid) -> Launch | None:
    """Return how to start the advised setting as a job; ``None`` if there is none, or it is unknown."""
    if found.results.advised is None:
        return None
    setting = found.results.cells[found.results.advised].setting
    counts = {
        space.parameters[i].name: int(setting[i])
        for i in resources(space.parameters)
        if is_number(setting[i])
    }
    return of_setting(read_limits(os.environ), counts, space.command_of(setting))


def _advice_of(runner: Runner, baseline: Setting, trial: Trial) -> list[Setting]:
    """Return the settings that `profkit doctor` advises from a run of the study's baseline."""
    from profkit.api.doctor import diagnosed

    run_file = runner.directory / trial.run if trial.run else None
    counts = [i for i in resources(runner.space.parameters) if not runner.space.parameters[i].environment]
    workers = math.prod(int(baseline[i]) for i in counts if is_number(baseline[i]))
    try:
        diagnosis = diagnosed(
            runner.space.command_of(baseline),
            runner.space.environment_of(baseline, runner.environment),
            run_file=run_file,
            workers=workers if counts else None,
        )
    except ProfkitError:  # the interpreter cannot be read
        return []
    return advised_settings(runner.space, baseline, diagnosis)


def _confirmed(directory: Path, runner: Runner, repeat: int, progress: Callable[[Progress], None]) -> _Grid:
    """Run the listed settings again in turn; each set of settings has its own study in the directory."""
    number = 1
    while True:
        place = directory / ("confirm" if number == 1 else f"confirm-{number}")
        plan = read_plan(place)
        if plan is None or (plan.space == runner.space and plan.profiled == runner.profiled):
            break
        number += 1
    with Journal(place, runner.space, profiled=runner.profiled) as journal:
        run_grid(journal, replace(runner, directory=journal.runs), repeat=repeat, progress=progress)
    return _grid(place, objective=runner.objective)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The runs of a grid so far."""

    directory: Path
    plan: Plan
    trials: Sequence[Trial]
    results: Results

    def _pair(self) -> tuple[str, str] | None:
        """Return patterns of the run files of the advised setting and the baseline, the slower side last."""
        study = self.results
        if not self.plan.profiled or study.advised is None or study.advised == study.baseline:
            return None
        advised, baseline = (
            str(self.directory / "runs" / f"{i + 1}-*.prof") for i in (study.advised, study.baseline)
        )
        return advised, baseline

    def compared(self) -> tuple[str, ...]:
        """Return the command that compares the advised setting with the baseline; empty without one."""
        pair = self._pair()
        return () if pair is None else ("profkit", "diff", *pair)

    def account(self) -> Account | None:
        """Return the account of the seconds that the baseline takes more than the advised setting."""
        from profkit.api.diff import diff

        pair = self._pair()
        try:
            # The account starts from the side with less queueing: queueing that vanished cannot be separated
            # from the work that vanished with it.
            return None if pair is None else diff(*pair).account
        except ProfkitError:
            return None

    def compared_runs(self) -> list[model.Run]:
        """Return the first run of the baseline, and of the advised setting."""
        found = []
        for at in dict.fromkeys((self.results.baseline, self.results.advised)):
            setting = None if at is None else self.plan.space.named(self.results.cells[at].setting)
            runs = (t.run for t in self.trials if t.setting == setting and t.status in COUNTED)
            file = next(filter(None, runs), "")
            try:
                found += [load_run(self.directory / "runs" / file)] if file else []
            except FormatError:
                continue  # removed by the user; the journal keeps the figures
        return found


def _grid(directory: Path, baseline: str | None = None, objective: Objective = WALL) -> _Grid:
    plan = read_plan(directory)
    if plan is None:
        raise FormatError(directory, "holds no study", "name the directory of a sweep")
    trials = read_trials(directory)
    setting = None if baseline is None else parse_setting(baseline, plan.parameters)
    return _Grid(directory, plan, trials, results(plan.space, trials, baseline=setting, objective=objective))
