"""`Sweep` and `Tuned`: the results of studies of settings, with their reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.api.reported import Reported
from profkit.errors import FormatError, ProfkitError, UsageError
from profkit.formats import load_run
from profkit.report.sweepdoc import SweepReport, TuneReport
from profkit.study.cells import resources, results
from profkit.study.journal import Journal, Plan, Trial, read_plan, read_trials
from profkit.study.objectives import WALL, Objective
from profkit.study.space import Setting, Space, parse_setting
from profkit.study.sweep import Progress, Runner, sweep

if TYPE_CHECKING:
    from profkit import model
    from profkit.report.reports import Report
    from profkit.study.cells import Results
    from profkit.verdict.account import Account

__all__ = ["Sweep", "Tuned", "advice_of", "confirm", "read_sweep"]


class Sweep(Reported):
    """The runs of a grid so far; made by `read_sweep`."""

    def __init__(self, directory: Path, plan: Plan, trials: Sequence[Trial], figures: Results) -> None:
        self._directory = directory
        self._plan = plan
        self._trials = trials
        self._results = figures

    @property
    def results(self) -> Results:
        """The figures of all settings (`profkit.study.cells`)."""
        return self._results

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        compared = _compared(self._directory, self._plan, self._results)
        report = SweepReport(self._results, self._plan.space, compared)
        return report if full_paths else self._masker_of(self.runs(True).values()).value(report)

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: the first run of the baseline and of the advised setting."""
        found = _runs(self._directory, self._plan, self._trials, self._results)
        if full_paths:
            return found
        mask = self._masker_of(found.values())
        return {name: mask.run(run) for name, run in found.items()}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return ()


def read_sweep(directory: Path, *, baseline: str | None = None) -> Sweep:
    """Read the study of a grid.

    Parameters
    ----------
    directory
        Where it is.
    baseline
        ``NAME=VALUE,…``: the setting that speed-ups refer to; by default the first.

    Raises
    ------
    FormatError
        There is no study, or its files are damaged.
    UsageError
        There is no such setting.
    """
    plan = read_plan(directory)
    if plan is None:
        raise FormatError(directory, "holds no study", "name the directory of a sweep")
    trials = read_trials(directory)
    setting = None if baseline is None else parse_setting(baseline, plan.parameters)
    return Sweep(directory, plan, trials, results(plan.space, trials, baseline=setting))


class Tuned(Reported):
    """A search for the best setting.

    Parameters
    ----------
    space
        What was varied.
    figures
        Of all trials.
    confirmed
        The study in which the best settings ran again, with its directory; ``None`` if they did not.
    """

    def __init__(self, space: Space, figures: Results, confirmed: Sweep | None) -> None:
        self._space = space
        self._results = figures
        self._confirmed = confirmed

    @property
    def confirmed(self) -> Results | None:
        """The figures of the best settings and the default, run again in turn; ``None`` if they were not."""
        return None if self._confirmed is None else self._confirmed.results

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        again = self._confirmed
        report = TuneReport(
            self._results,
            self._space,
            self.confirmed,
            self._account(),
            () if again is None else _compared(again._directory, again._plan, again.results),
        )
        return report if full_paths else self._masker_of(self.runs(True).values()).value(report)

    def _account(self) -> Account | None:
        """Return where the seconds go that the default takes more than the advised setting."""
        again = self._confirmed
        if again is None or not again._plan.profiled:
            return None
        pair = _pair(again._directory, again._plan, again.results)
        if pair is None:
            return None
        from profkit.api.diff import diff

        try:
            # Queueing that went away cannot be told from the work that went with it: the account starts from the
            # side that queued least.
            return diff(pair[1], pair[0]).account
        except ProfkitError:
            return None

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`."""
        if self._confirmed is None:
            return {}
        if self._names_hidden:
            self._confirmed.hide_names()
        return self._confirmed.runs(full_paths)

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return ()


def advice_of(runner: Runner, baseline: Setting, trial: Trial) -> list[Setting]:
    """Return the settings that `profkit doctor` advises for the baseline of a study.

    Parameters
    ----------
    runner
        How the runs of the study are made.
    baseline, trial
        The setting, and a run of it.
    """
    from profkit.api.doctor import diagnosed
    from profkit.study.tune import advised_settings

    run_file = runner.directory / trial.run if trial.run else None
    counts = [
        i for i in resources(runner.space.parameters) or () if not runner.space.parameters[i].environment
    ]
    workers = math.prod(int(baseline[i]) for i in counts if baseline[i].isascii() and baseline[i].isdigit())
    try:
        diagnosis = diagnosed(
            runner.space.command_of(baseline),
            runner.space.environment_of(baseline, runner.environment),
            run_file=run_file,
            workers=workers if counts else None,
        )
    except ProfkitError:  # an interpreter that cannot be asked: there is no advice then
        return []
    return advised_settings(runner.space, baseline, diagnosis)


def confirm(
    directory: Path,
    runner: Runner,
    settings: Sequence[Setting],
    *,
    repeat: int,
    progress: Callable[[Progress], None],
) -> Sweep:
    """Run settings again in turn, the baseline first among them, and return their study.

    Parameters
    ----------
    directory
        Where studies of the best settings are kept; each set of settings has one of its own.
    runner
        How runs are made.
    settings
        The baseline, and those that are compared with it.
    repeat
        Runs of each.
    progress
        Called before and after each run.

    Raises
    ------
    Interrupted
        The user stopped it; the same call goes on.
    """
    space = replace(runner.space, listed=tuple(settings))
    place = _place(directory, space, runner.profiled)
    with Journal(place, space, profiled=runner.profiled) as journal:
        sweep(
            journal,
            space,
            repeat=repeat,
            timeout_s=runner.timeout_s,
            environment=runner.environment,
            objective=runner.objective,
            progress=progress,
        )
    return _confirmed(place, runner.objective)


def _confirmed(place: Path, objective: Objective = WALL) -> Sweep:
    plan = read_plan(place)
    assert plan is not None, "a journal was written there"
    trials = read_trials(place)
    return Sweep(place, plan, trials, results(plan.space, trials, objective=objective))


def _place(directory: Path, space: Space, profiled: bool) -> Path:
    """Return the directory of a study of these settings: one that has it already, or a new one."""
    number = 1
    while True:
        place = directory / ("confirm" if number == 1 else f"confirm-{number}")
        plan = read_plan(place)
        if plan is None or (plan.space == space and plan.profiled == profiled):
            return place
        number += 1


def _pair(directory: Path, plan: Plan, study: Results) -> tuple[str, str] | None:
    """Return patterns of the run files of the baseline and of the advised setting."""
    if not plan.profiled or study.advised is None or study.advised == study.baseline:
        return None
    before, after = (str(directory / "runs" / f"{i + 1}-*.prof") for i in (study.baseline, study.advised))
    return before, after


def _compared(directory: Path, plan: Plan, study: Results) -> tuple[str, ...]:
    pair = _pair(directory, plan, study)
    # What is slower is the candidate.
    return () if pair is None else ("profkit", "diff", *reversed(pair))


def _runs(directory: Path, plan: Plan, trials: Sequence[Trial], study: Results) -> Mapping[str, model.Run]:
    names = [parameter.name for parameter in plan.parameters]
    found: dict[str, model.Run] = {}
    for role, at in (("baseline", study.baseline), ("advised", study.advised)):
        if at is None or (role == "advised" and at == study.baseline):
            continue
        setting = dict(zip(names, study.cells[at].setting, strict=True))
        file = next((t.run for t in trials if t.run and t.setting == setting), "")
        if file:
            try:
                found[f"{role}.prof"] = load_run(directory / "runs" / file)
            except FormatError:
                continue  # removed by the user: the figures stand in the journal
    return found


def check_objective(objective: Objective, profiled: bool) -> None:
    """Refuse an objective that runs of this kind cannot have.

    Raises
    ------
    UsageError
        It is a range, and runs are not captured.
    """
    if objective.needs_profile() and not profiled:
        raise UsageError(
            "NVTX ranges are captured with the profile: leave out --no-profile",
            parameter="objective",
            value=objective.text,
        )
