"""``profkit tune``: search for the best setting with Optuna, and confirm it against the default."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE
from profkit.cli.studies import runs_shown, space_of, stopped, study_options

if TYPE_CHECKING:
    from profkit.study.cells import Results
    from profkit.study.tune import Search


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--objective",
    metavar="WHAT",
    default="wall",
    help="wall, range:NAME (median of an NVTX range), output:REGEX, or json:FILE:PATH.  [default: wall]",
)
@click.option("--maximise", is_flag=True, help="More of the objective is better, as in examples/s.")
@click.option(
    "--trials",
    metavar="N",
    type=click.IntRange(min=1),
    default=20,
    help="Settings to try, by all processes that work on the study.  [default: 20]",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    help="Runs of the best settings and of the default, in turn, to confirm; 0 does not.  [default: 5]",
)
@click.option(
    "--baseline",
    metavar="NAME=VALUE,…",
    help="The default.  [default: variables as they are now, {workers} and the like as many as CPUs]",
)
@click.option(
    "--sampler", metavar="NAME", default="", help="One of Optuna's: tpe, random, gp, qmc …  [default: tpe]"
)
@click.option(
    "--pruner", metavar="NAME", default="", help="One of Optuna's, for output:REGEX.  [default: none]"
)
@click.option("--seed", metavar="N", type=int, help="Of the sampler.")
@click.option(
    "--storage",
    metavar="URL",
    help="Any of Optuna's, or journal:FILE, for several machines on one study.  [default: SQLite in DIR]",
)
@click.option(
    "--study", "name", metavar="NAME", default="profkit", help="Name in the storage.  [default: profkit]"
)
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=FILE,
    default=Path("tune"),
    help="Where runs are kept; a study that was stopped goes on.  [default: tune]",
)
@study_options
def tune(
    objective: str,
    maximise: bool,
    trials: int,
    repeat: int,
    baseline: str | None,
    sampler: str,
    pruner: str,
    seed: int | None,
    storage: str | None,
    name: str,
    directory: Path,
    param: tuple[str, ...],
    env: tuple[str, ...],
    timeout: float | None,
    no_profile: bool,
    output: Path | None,
    full_paths: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Search for the best settings of a command, and confirm them against the default."""
    from profkit.api.study import Tuned, advice_of, check_objective, confirm
    from profkit.capture.host import cpus_to_use
    from profkit.cli.destination import destination
    from profkit.study.objectives import parse_objective
    from profkit.study.space import parse_setting
    from profkit.study.sweep import Runner
    from profkit.study.trials import Interrupted
    from profkit.study.tune import baseline_of, finalists, first_settings, open_search
    from profkit.study.tune import tune as search_on

    goal = destination(None, output, limit=None, ticket=False, open_report=False)
    space = space_of(param, env, command)
    wanted = parse_objective(objective, maximise=maximise)
    check_objective(wanted, not no_profile)
    cpus = max(1, int(cpus_to_use()))
    if baseline is None:
        default = baseline_of(space, cpus, os.environ)
    else:
        default = parse_setting(baseline, space.parameters, listed=False)
    runs = make_runs(directory)
    search = open_search(
        space,
        wanted,
        default,
        storage=storage or f"sqlite:///{directory / 'study.db'}",
        name=name,
        sampler=sampler,
        pruner=pruner,
        seed=seed,
        first=first_settings(space, cpus),
    )
    runner = Runner(space, runs, not no_profile, dict(os.environ), timeout, wanted)
    again = None
    try:
        with runs_shown("tune", quiet=quiet) as progress:
            advise = partial(advice_of, runner, default)
            search_on(search, runner, trials=trials, advise=advise, progress=progress)
            best = finalists(search)
            if repeat and best:
                again = confirm(directory, runner, [default, *best], repeat=repeat, progress=progress)
    except (Interrupted, KeyboardInterrupt):
        raise stopped(directory) from None
    goal.write(
        Tuned(space, _figures(search), again),
        limit=None,
        full_paths=full_paths,
        explain=False,
    )


def make_runs(directory: Path) -> Path:
    """Create the directory of run files; raises `UsageError` if that fails."""
    from profkit.errors import UsageError

    runs = directory / "runs"
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write there ({error.strerror}); choose another place", parameter="dir", value=directory
        ) from None
    return runs


def _figures(search: Search) -> Results:
    """Return the figures of all trials; speed-ups refer to the default."""
    from dataclasses import replace

    from profkit.study.cells import results
    from profkit.study.tune import trials_of

    trials = trials_of(search)
    names = [parameter.name for parameter in search.space.parameters]
    tried = [tuple(trial.setting[name] for name in names) for trial in trials]
    space = replace(search.space, listed=tuple(dict.fromkeys([search.baseline, *tried])))
    # Each has a round of its own: a setting that was tried twice has two figures.
    numbered = [replace(trial, round=number) for number, trial in enumerate(trials)]
    return results(space, numbered, baseline=search.baseline, objective=search.objective)
