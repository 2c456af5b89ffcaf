"""Search for the best setting with Optuna, and confirm it against the default.

Every Optuna trial keeps its `Trial` as an attribute, so that any reader of the storage can read the study.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from profkit.errors import ProfkitError, UsageError
from profkit.study.journal import TRIALS, Trial
from profkit.study.objectives import Objective
from profkit.study.setting_results import Results, resources, results
from profkit.study.space import UNSET, Parameter, Setting, Space, is_number
from profkit.study.sweep import MOST_DISTURBED, Progress, Runner, run_trial
from profkit.study.trials import Interrupted

if TYPE_CHECKING:
    import optuna

    from profkit.study.doctor import Diagnosis

#: A run is ended after this many times the best wall time: it cannot become the best.
SLACK = 3.0
#: Least seconds above the best before a run is ended: starting a process may take that on a busy machine.
LEAST_SLACK_S = 10.0
#: Settings whose first figure is within this part (1) of the best run again before one is advised.
CLOSE = 0.1
MOST_FINALISTS = 3
#: The search ends after this many repeated suggestions of the sampler in a row.
MOST_REPEATED = 50
#: Most attempts to open a storage.
OPENING_TRIES = 10
#: What samplers and pruners need beside Optuna, which imports it in the middle of a study.
_NEEDS = {
    "GPSampler": ("torch", "scipy"),
    "CmaEsSampler": ("cmaes",),
    "QMCSampler": ("scipy",),
    "WilcoxonPruner": ("scipy",),
}
#: Trials that the default sampler draws at random before it learns; the first settings count.
STARTUP_TRIALS = 6


def open_search(
    runner: Runner,
    baseline: Setting,
    *,
    storage: str,
    name: str,
    sampler: str = "",
    pruner: str = "",
    seed: int | None = None,
    first: Sequence[Setting] = (),
) -> optuna.Study:
    """Open a study in its storage (an Optuna URL, or ``journal:FILE``), or create it.

    `sampler` and `pruner`: Optuna's classes (case and suffix are ignored); default: TPE, no pruner. Processes
    on one study need different seeds. `first`: settings to try after the default. Raises `UsageError` if
    Optuna, the sampler, pruner or storage is missing, or the parameters differ.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError('this needs Optuna: pip install "profkit[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space, objective = runner.space, runner.objective
    if pruner and objective.kind != "output":
        raise UsageError(
            "a pruner needs figures while a run goes on: use it with an objective output:REGEX",
            "pruner",
            pruner,
        )
    how: dict[str, Any] = {
        "study_name": name,
        "sampler": _made(optuna.samplers, sampler, "Sampler", seed=seed)
        if sampler
        else optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=STARTUP_TRIALS),
        "pruner": _made(optuna.pruners, pruner, "Pruner") if pruner else optuna.pruners.NopPruner(),
        "direction": "maximize" if objective.maximise else "minimize",
    }
    about = {
        "command": list(space.command),
        "parameters": [[p.name, p.environment, list(p.values), p.scale] for p in space.parameters],
        "objective": [objective.text, objective.maximise],
        "baseline": list(baseline),
    }
    study = _opened(optuna, storage, how)
    known = study.user_attrs.get("profkit")
    if known is None:
        study.set_user_attr("profkit", about)
        _enqueue(study, space, baseline)
        for setting in first:
            if setting != baseline:
                study.enqueue_trial(_params(space, setting), skip_if_exists=True)
    elif known != about:
        what = next(key for key in about if known.get(key) != about[key])
        raise UsageError(
            f"holds a study with another {what.removesuffix('s')}; choose another name or place",
            "storage",
            storage,
        )
    return study


def _enqueue(study: optuna.Study, space: Space, setting: Setting) -> None:
    """Queue a setting as the next trial, even if it was one.

    Outside the space, a trial has no parameters.
    """
    inside = _usable(space, [setting])
    attributes = None if inside else {"setting": list(setting)}
    study.enqueue_trial(_params(space, setting) if inside else {}, user_attrs=attributes)


def _opened(optuna: Any, storage: str, how: Mapping[str, Any]) -> optuna.Study:
    kind, _, file = storage.partition(":")
    for left in reversed(range(OPENING_TRIES)):
        try:
            place: Any = storage
            if kind == "journal":
                from optuna.storages.journal import JournalFileBackend

                place = optuna.storages.JournalStorage(JournalFileBackend(file))
            return optuna.create_study(storage=place, load_if_exists=True, **how)  # type: ignore[no-any-return]
        except Exception as error:  # from SQLAlchemy, its drivers, Redis …
            if left and "sqlite3" in str(error):
                time.sleep(0.2)  # another process is creating the same tables
                continue
            problem = " ".join(str(error).split())[:200]
            raise UsageError(f"cannot be opened: {problem}", "storage", storage) from None
    raise AssertionError("the last try returns or raises")


def _made(module: Any, word: str, suffix: str, **given: Any) -> Any:
    """Return an object of the class that a word names, without regard to case and suffix."""
    option = suffix.lower()
    classes = {
        name.removesuffix(suffix).lower(): getattr(module, name)
        for name in dir(module)
        if name.endswith(suffix) and not name.startswith("Base")
    }
    found = classes.get(word.lower().removesuffix(option))
    if found is None:
        raise UsageError(f"not one of {', '.join(sorted(classes))}", option, word)
    missing = [name for name in _NEEDS.get(found.__name__, ()) if find_spec(name) is None]
    if missing:
        raise UsageError(f"cannot be used here: pip install {' '.join(missing)}", option, word)
    try:
        try:
            return found(**given)
        except TypeError:
            return found()
    except (TypeError, ImportError, ValueError) as error:
        raise UsageError(f"cannot be used here: {error}", option, word) from None


def _params(space: Space, setting: Setting) -> dict[str, Any]:
    return {
        parameter.name: int(value) if parameter.scale else value
        for parameter, value in zip(space.parameters, setting, strict=True)
    }


def first_settings(space: Space, cpus: int) -> list[Setting]:
    """Return settings that are often good: all parameters at one, and each parameter alone at `cpus`."""
    ones = [_nearest(parameter, 1) for parameter in space.parameters]
    alone = [(*ones[:i], _nearest(p, cpus), *ones[i + 1 :]) for i, p in enumerate(space.parameters)]
    return _usable(space, [tuple(ones), *alone])


def advised_settings(space: Space, baseline: Setting, diagnosis: Diagnosis) -> list[Setting]:
    """Return the settings that `profkit doctor` advises for the baseline; empty without surplus threads.

    The first reduces only threads, the second also reduces processes to the CPUs.
    """
    if not diagnosis.oversubscribed:
        return []
    cpus, running = diagnosis.demand.cpus, max(1, diagnosis.demand.processes)
    variables = {name for name, _ in diagnosis.advice}
    threads = [i for i, p in enumerate(space.parameters) if p.name in variables or "thread" in p.name.lower()]
    processes = [i for i in resources(space.parameters) if i not in threads]
    fitting, fewer = list(baseline), list(baseline)
    for i in processes if running > cpus else ():
        fewer[i] = _nearest(space.parameters[i], max(1, int(_count(baseline[i]) * cpus / running)))
    left = running * _product(fewer, processes) / _product(baseline, processes)
    for i in threads:
        fitting[i] = _nearest(space.parameters[i], diagnosis.share)
        fewer[i] = _nearest(space.parameters[i], max(1, int(cpus / max(1.0, left))))
    return [s for s in _usable(space, [tuple(fitting), tuple(fewer)]) if s != baseline]


def _product(setting: Sequence[str], positions: Sequence[int]) -> int:
    return math.prod(_count(setting[i]) for i in positions)


def _count(value: str) -> int:
    """Return how many processes a value stands for: 1 for no workers and for a word."""
    return max(1, int(value)) if is_number(value) else 1


def _usable(space: Space, found: Sequence[Setting]) -> list[Setting]:
    """Return each setting once, except those with values outside the space."""
    return [
        setting
        for setting in dict.fromkeys(found)
        if all(value in p.values for p, value in zip(space.parameters, setting, strict=True))
    ]


def _nearest(parameter: Parameter, number: int) -> str:
    """Return the value nearest to a number; the first value if no value is a number."""
    numbers = filter(is_number, parameter.values)
    return min(numbers, key=lambda value: abs(int(value) - number), default=parameter.values[0])


def tune(
    study: optuna.Study,
    runner: Runner,
    baseline: Setting,
    *,
    trials: int,
    advise: Callable[[Trial], Sequence[Setting]] = lambda _: (),
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Try settings until the study has `trials` of all its processes together, or no new setting is found.

    `advise` maps a run of the baseline to settings. Raises `Interrupted` if the user stops it (the study can
    be resumed), `UsageError` if the first run lacks the objective.
    """
    from optuna.trial import TrialState

    space, objective = runner.space, runner.objective
    repeated = 0
    while repeated < MOST_REPEATED:
        known = trials_of(study)
        if len(known) >= trials:
            return
        asked = study.ask()
        try:
            setting = _setting_of(space, asked)
        except RuntimeError:
            if _is_taken(study, asked):
                continue
            raise
        earlier = [trial for trial in known if space.setting_of(trial.setting) == setting]
        if earlier:
            # The sampler is told the known figure, so that it suggests another setting.
            repeated += 1
            _tell(study, objective, asked, earlier[-1], repeated=True)
            continue
        repeated = 0
        label = space.label(setting)
        progress(Progress(label, len(known) + 1, trials))
        try:
            trial = _run(runner, asked, setting, known)
        except (Interrupted, ProfkitError):
            if not _is_taken(study, asked):
                study.tell(asked, state=TrialState.FAIL)
                _enqueue(study, space, setting)  # for whoever resumes the study
            raise
        _tell(study, objective, asked, trial)
        progress(Progress(label, len(known) + 1, trials, trial))
        if setting == baseline:
            for advised in advise(trial):
                study.enqueue_trial(_params(space, advised), skip_if_exists=True)
        lacks_figure = trial.status == "failed" and trial.problem == objective.missing()
        if lacks_figure and all(objective.figure(t) is None for t in known):
            raise UsageError(f"{trial.problem}; the first run has shown it", "objective", objective.text)


def _is_taken(study: optuna.Study, asked: Any) -> bool:
    """Return whether another process finished the trial: a database without locks of rows gives it to both."""
    return any(
        trial.number == asked.number and trial.state.is_finished()
        for trial in study.get_trials(deepcopy=False)
    )


def _setting_of(space: Space, asked: Any) -> Setting:
    fixed = asked.user_attrs.get("setting")
    if fixed is not None:
        return tuple(fixed)
    return tuple(
        str(
            asked.suggest_int(p.name, int(p.values[0]), int(p.values[-1]), log=p.scale == "log")
            if p.scale
            else asked.suggest_categorical(p.name, p.values)
        )
        for p in space.parameters
    )


def _run(runner: Runner, asked: Any, setting: Setting, known: Sequence[Trial]) -> Trial:
    """Run a setting, again if other processes disturbed it, and end it early if it cannot win."""
    walls = [trial.wall_s for trial in known if trial.status == "done" and trial.wall_s is not None]
    limit = None
    if walls and runner.objective.kind == "wall":
        limit = max(SLACK * min(walls), min(walls) + LEAST_SLACK_S)
    pruned = False
    reported: set[int] = set()  # Optuna keeps the first figure of a step

    def hopeless() -> bool:
        nonlocal pruned
        for step, value in enumerate(runner.objective.of_output(runner.directory / f"{asked.number}.log")):
            if step not in reported:
                reported.add(step)
                try:
                    asked.report(value, step)
                except RuntimeError:
                    if _is_taken(asked.study, asked):
                        return True
                    raise
        pruned = bool(asked.should_prune())
        return pruned

    for _ in range(MOST_DISTURBED + 1):
        trial = run_trial(
            runner,
            setting,
            str(asked.number),
            0,
            timeout_s=limit,
            hopeless=hopeless if runner.objective.kind == "output" else None,
        )
        if trial.status != "disturbed":
            break
    if trial.status == "timeout" and pruned:
        return _ended(trial, "its first figures were worse than those of other runs")
    if trial.status == "timeout" and limit is not None and limit < (runner.timeout_s or limit + 1):
        return _ended(trial, "it took several times as long as the best")
    return trial


def _ended(trial: Trial, why: str) -> Trial:
    return replace(trial, status="pruned", problem=f"ended early: {why}")


def _tell(
    study: optuna.Study, objective: Objective, asked: Any, trial: Trial, *, repeated: bool = False
) -> None:
    """Tell the sampler how a run ended, and keep it unless it is `repeated`."""
    from optuna.trial import TrialState

    figure, pruned = objective.figure(trial), trial.status == "pruned"
    try:
        if not repeated:
            asked.set_user_attr("run", TRIALS.write(trial))
        if pruned and trial.wall_s is not None and objective.kind == "wall":
            asked.report(trial.wall_s, 0)
        if "setting" in asked.user_attrs:
            # Samplers search the parameters that all trials have that did not fail, and this one has none.
            study.tell(asked, state=TrialState.FAIL)
        elif figure is not None:
            study.tell(asked, figure)
        else:
            study.tell(asked, state=TrialState.PRUNED if pruned else TrialState.FAIL)
    except (RuntimeError, ValueError):
        if not _is_taken(study, asked):
            raise


def trials_of(study: optuna.Study) -> list[Trial]:
    """Return the ended runs of a study, of all processes, in the order in which they were requested."""
    found = []
    for frozen in study.get_trials(deepcopy=False):
        if frozen.state.is_finished() and "run" in frozen.user_attrs:
            found.append(TRIALS.read("trial", frozen.user_attrs["run"]))
    return found


def finalists(found: Results) -> list[Setting]:
    """Return the settings to run again against the default: those close to the best, the best first."""
    others = [cell for i, cell in enumerate(found.cells) if i != found.baseline and cell.times]
    others.sort(key=lambda cell: cell.median, reverse=found.objective.maximise)
    close = [c for c in others if abs(c.median - others[0].median) <= CLOSE * others[0].median]
    return [cell.setting for cell in close[:MOST_FINALISTS]]


def figures(study: optuna.Study, runner: Runner, baseline: Setting) -> Results:
    """Return the figures of all trials; speed-ups refer to the default."""
    trials = trials_of(study)
    tried = [runner.space.setting_of(trial.setting) for trial in trials]
    space = replace(runner.space, listed=tuple(dict.fromkeys([baseline, *tried])))
    # A round per trial, so that a setting that was tried twice keeps both figures.
    numbered = [replace(trial, round=number) for number, trial in enumerate(trials)]
    return results(space, numbered, baseline=baseline, objective=runner.objective)


def baseline_of(space: Space, cpus: int, environment: Mapping[str, str]) -> Setting:
    """Return the default setting: values of `environment` or unset, and `cpus` for parameters that count."""
    counts = resources(space.parameters)
    return tuple(
        environment.get(parameter.name, UNSET)
        if parameter.environment
        else _nearest(parameter, cpus)
        if i in counts
        else parameter.values[0]
        for i, parameter in enumerate(space.parameters)
    )
