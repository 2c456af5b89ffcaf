"""Run a grid of settings, interleaved, and write each run down when it ends.

Each round shuffles all settings, so that a machine that gets slower slows all alike (Fisher's randomised
blocks, 1935).
"""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from profkit.errors import FormatError
from profkit.formats import load_run
from profkit.model import Run
from profkit.study.journal import COUNTED, Journal, Trial
from profkit.study.objectives import WALL, Objective
from profkit.study.space import Setting, Space
from profkit.study.trials import Ended, run_once
from profkit.verdict.alone import judge_run

#: Most repetitions of a disturbed run in one round; the last one then counts, and is marked.
MOST_DISTURBED = 2


@dataclass(frozen=True, slots=True)
class Runner:
    """How and where the runs of a study are made; `environment` is the one in which variables are changed."""

    space: Space
    directory: Path
    profiled: bool
    environment: Mapping[str, str]
    timeout_s: float | None = None
    objective: Objective = WALL
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A run begins (no `trial`) or has ended; a repeated run keeps its `number`, 0 is a warm-up."""

    label: str
    number: int
    total: int
    trial: Trial | None = None


def sweep(
    journal: Journal,
    runner: Runner,
    *,
    repeat: int,
    warmup: int = 0,
    again: int = MOST_DISTURBED,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Run every setting `repeat` times, except the runs that the journal already has.

    A disturbed run is repeated up to `again` times in a round. Raises `Interrupted` if the user stops it (the
    journal is kept), `ProfkitError` if the command cannot be started.
    """
    space = runner.space
    settings = space.settings()
    total = repeat * len(settings)

    def statuses(setting: Setting, round_: int | None = None) -> Counter[str]:
        """Count how runs of a setting ended, in one round or in all."""
        named = space.named(setting)
        return Counter(t.status for t in journal.trials if t.setting == named and round_ in (None, t.round))

    def wanted(round_: int, setting: Setting) -> bool:
        """Return whether a setting has no run in a round yet, or only disturbed ones, and not too many."""
        ended = statuses(setting, round_)
        return not (ended.keys() - {"disturbed"}) and ended["disturbed"] <= again

    left = [run for run in _rounds(settings, repeat) if wanted(*run)]
    for _ in range(warmup if left else 0):
        progress(Progress(space.label(settings[0]), 0, total))
        trial = run_trial(runner, settings[0], "warm-up", 0)
        progress(Progress(space.label(settings[0]), 0, total, trial))
    for number, (round_, setting) in enumerate(left, total - len(left) + 1):
        label = space.label(setting)
        ended = statuses(setting)
        if ended and not ended.keys() & {*COUNTED}:
            continue  # it failed or timed out in an earlier round, and never succeeded
        while wanted(round_, setting):
            progress(Progress(label, number, total))
            name = f"{settings.index(setting) + 1}-{round_ + 1}"
            trial = run_trial(runner, setting, name, round_)
            journal.add(trial)
            progress(Progress(label, number, total, trial))


def _rounds(settings: Sequence[Setting], repeat: int) -> Iterator[tuple[int, Setting]]:
    """Yield all runs, each round in an order of its own, which is reproducible."""
    for round_ in range(repeat):
        order = list(settings)
        random.Random(round_).shuffle(order)
        yield from ((round_, setting) for setting in order)


def run_trial(
    runner: Runner,
    setting: Setting,
    name: str,
    round_: int,
    *,
    timeout_s: float | None = None,
    hopeless: Callable[[], bool] | None = None,
) -> Trial:
    """Run one setting once, replacing its files ``runs/NAME.*``; raises as `sweep` does."""
    run_file = runner.directory / f"{name}.prof" if runner.profiled else None
    log = runner.directory / f"{name}.log"
    limits = [limit for limit in (runner.timeout_s, timeout_s) if limit is not None]
    if run_file is not None:
        run_file.unlink(missing_ok=True)
    began = time.time()
    try:
        ended = run_once(
            runner.space.command_of(setting),
            runner.space.environment_of(setting, runner.environment),
            log=log,
            run_file=run_file,
            timeout_s=min(limits, default=None),
            hopeless=hopeless,
            cwd=runner.cwd,
        )
    except BaseException:
        if run_file is not None:
            run_file.unlink(missing_ok=True)
        raise
    finally:
        if run_file is not None:
            _remove_spool(run_file)
    trial = _trial(runner.space.named(setting), round_, ended, run_file, log)
    if runner.objective.kind != "wall" and trial.status in COUNTED:
        value = runner.objective.measure(log, run_file, began)
        trial = replace(trial, objective=value)
        if value is None:
            trial = replace(trial, status="failed", problem=runner.objective.missing())
    if run_file is not None and trial.status not in COUNTED and run_file.is_file():
        # `diff` takes all run files of a setting: not this one.
        aside = run_file.rename(run_file.with_name(f"failed-{run_file.name}"))
        trial = replace(trial, run=aside.name if trial.run else trial.run)
    return trial


def _trial(setting: Mapping[str, str], round_: int, ended: Ended, run_file: Path | None, log: Path) -> Trial:
    trial = Trial(setting, round_, "done", ended.started, ended.exit_status, log=log.name)
    if ended.exit_status is None:
        trial = replace(trial, status="timeout", problem="exceeded its time limit")
    elif ended.exit_status:
        last = f": {ended.last_line}" if ended.last_line else ""
        trial = replace(trial, status="failed", problem=f"exit status {ended.exit_status}{last}")
    if run_file is None:
        return replace(trial, wall_s=ended.wall_s, cpu_s=ended.cpu_s)
    if not run_file.is_file():
        if trial.status != "done":
            return trial
        return replace(trial, status="failed", problem=f"it left no run file: {ended.last_line}")
    try:
        trial = replace(trial, run=run_file.name, **_measured(run_file))
    except FormatError as error:
        return replace(trial, status="failed", problem=str(error))
    if trial.status == "done" and trial.kind == "external-load":
        return replace(trial, status="disturbed", problem="other processes took its CPUs")
    return trial


def _measured(run_file: Path) -> dict[str, Any]:
    run = load_run(run_file, edges=False)
    judged = judge_run(run, run.processes)
    facts: dict[str, Any] = {"wall_s": run.wall_s, "cpu_s": _cpu_seconds(run)}
    if judged.verdict is not None:
        facts |= {"cause": judged.verdict.cause, "kind": judged.verdict.kind or ""}
    if not judged.account.merged:
        facts["queue_s"] = judged.account.bucket("queue").seconds
        facts["blocked_s"] = judged.account.whole("blocked")
    return facts


def _cpu_seconds(run: Run) -> float | None:
    """Return CPU seconds of all processes: the tree's lack those whose parents did not wait for them."""
    known = [process.cpu_s for process in run.processes if process.cpu_s is not None]
    tree = None if run.machine is None else run.machine.tree_cpu_s
    return max(sum(known), tree or 0.0) if known else tree


def _remove_spool(run_file: Path) -> None:
    """Remove what a killed capture left behind."""
    for left in run_file.parent.glob(f".{run_file.name}.*"):
        with contextlib.suppress(OSError):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
