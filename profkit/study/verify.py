"""Advice that is tried: a recorded command as it was, interleaved with the same command as the advice changes it.

A study of two settings (`sweep`), which goes on until it is decided: after some rounds one looks whether the
interval of the gain leaves 1 out. Each look has a part of the 5 %, one of them for where the time is over or the user
stops it, so that together they err no more often (Bonferroni).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profkit.capture.agent import edited as edited_source
from profkit.errors import ProfkitError, UsageError
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.study.cells import LEVEL, Cell, Results, gain, results
from profkit.study.journal import Journal
from profkit.study.space import UNSET, Parameter, Space
from profkit.study.sweep import Progress, sweep
from profkit.study.trials import Interrupted, stoppable
from profkit.verdict.advice import can_be_tried
from profkit.verdict.types import Advice

#: The two settings, as reports and journals call them.
AS_IT_WAS, ADVISED = "as it was", "with the advice"
_RUN = "run"
#: Rounds after which it is looked whether the runs decide.
LOOKS = (3, 5, 8, 12)
#: Coverage of the interval at each look.
_LOOK_LEVEL = 1 - (1 - LEVEL) / (len(LOOKS) + 1)
#: Factor within which two commands take the same time for anyone who has to wait for them.
ALIKE = 1.03
#: Times of the recorded wall, and seconds beyond that, after which a run is ended.
PATIENCE, LEAST_PATIENCE_S = 5.0, 60.0
#: Seconds after which no further round begins, unless one more round than an answer needs at least takes longer.
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Change:
    """What a piece of advice changes in a recorded command.

    Attributes
    ----------
    command, changed
        The words as they were recorded, and as the advice has them.
    variables
        Variables that the advice sets, with their values.
    edit
        Place and text of the line of the program that is edited; empty without one.
    """

    command: tuple[str, ...]
    changed: tuple[str, ...]
    variables: Mapping[str, str]
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to be run.

    Attributes
    ----------
    fewest, most
        Runs that an answer needs at least, and those after which there are no more.
    round_s
        Seconds that one round is expected to take, by what was recorded and predicted.
    limit_s
        Seconds after which no further round begins.
    timeout_s
        Seconds after which a run is ended.
    """

    fewest: int
    most: int
    round_s: float
    limit_s: float
    timeout_s: float

    @property
    def shortest_s(self) -> float:
        """Seconds that an answer is expected to take at least."""
        return self.fewest / 2 * self.round_s

    @property
    def longest_s(self) -> float:
        """Seconds after which it is expected to end at the latest."""
        return min(self.most / 2 * self.round_s, max(self.limit_s, self.round_s))


@dataclass(frozen=True, slots=True)
class Tried:
    """What the runs showed, up to now or at the end.

    Attributes
    ----------
    outcome
        ``helps``, ``no-better`` (no difference, or none beyond the noise), ``worse``, ``fails`` (with the advice it
        does not end well), or ``undecided`` (the time was over, or it goes on).
    before_s, after_s
        Times of the runs as it was, and with the advice, in the order of their rounds.
    before_median_s, after_median_s
        Of them; NaN without any.
    ratio
        How many times faster it is with the advice.
    disturbed
        Runs that count although other processes took CPUs meanwhile.
    problem
        Why runs with the advice failed.
    stopped
        Whether the user stopped it.
    """

    outcome: str
    before_s: tuple[float, ...]
    after_s: tuple[float, ...]
    before_median_s: float
    after_median_s: float
    ratio: Estimate
    disturbed: int = 0
    problem: str = ""
    stopped: bool = False

    @property
    def gain_s(self) -> float:
        """Seconds that the advice won back; NaN where that is not known."""
        return self.before_median_s - self.after_median_s


def space_of_two(change: Change, environment: Mapping[str, str]) -> Space:
    """Return the study of a command as it was and as it is changed.

    Parameters
    ----------
    change
        What is changed.
    environment
        Variables of the run as it was.

    Raises
    ------
    UsageError
        Nothing is changed.
    """
    changed = {n: v for n, v in sorted(change.variables.items()) if environment.get(n) != v}
    if not changed and change.changed == change.command:
        raise UsageError("the advice changes nothing in the command")
    run = Parameter(_RUN, False, (AS_IT_WAS, ADVISED), words=(change.command, change.changed))
    variables = [Parameter(n, True, (environment.get(n) or UNSET, v)) for n, v in changed.items()]
    listed = tuple(
        (name, *(variable.values[i] for variable in variables)) for i, name in enumerate((AS_IT_WAS, ADVISED))
    )
    return Space((f"{{{_RUN}}}",), (run, *variables), listed)


def plan_of(
    recorded_s: float, predicted_s: float, limit_s: float | None = None, timeout_s: float | None = None
) -> Plan:
    """Return what is going to be run.

    Parameters
    ----------
    recorded_s, predicted_s
        Seconds that the run took when it was recorded, and that the advice is to win back; the latter may be NaN.
    limit_s, timeout_s
        Of the plan, where they are given.
    """
    advised_s = recorded_s - predicted_s if math.isfinite(predicted_s) else recorded_s
    round_s = recorded_s + max(0.0, advised_s)
    if limit_s is None:
        limit_s = max(LIMIT_S, (LOOKS[0] + 1) * round_s)
    timeout_s = timeout_s or PATIENCE * recorded_s + LEAST_PATIENCE_S
    return Plan(2 * LOOKS[0], 2 * LOOKS[-1], round_s, limit_s, timeout_s)


def try_change(
    journal: Journal,
    space: Space,
    environment: Mapping[str, str],
    plan: Plan,
    *,
    cwd: Path,
    progress: Callable[[Progress], None] = lambda _: None,
    known: Callable[[Plan | Tried], None] = lambda _: None,
) -> Tried:
    """Run both in turn until it is decided, or the user stops it.

    Parameters
    ----------
    journal, space
        Where runs are written down, and what is run (`space_of_two`).
    environment, cwd
        What the command runs in.
    plan
        How often and for how long it runs (`plan_of`).
    progress
        Called before and after each run.
    known
        Called with the plan before the first run, and after each round with what is known by then.

    Raises
    ------
    Interrupted
        The user stopped it before both had run.
    ProfkitError
        The command cannot be run as it was.
    """
    begun = time.monotonic()
    rounds = made = 0
    stopped = False

    def runs(seen: Progress) -> None:
        nonlocal made
        if not made:
            known(plan)
        made += seen.trial is None
        progress(_named(seen, plan))

    try:
        with stoppable():
            for rounds in range(1, LOOKS[-1] + 1):
                before = made
                sweep(
                    journal,
                    space,
                    repeat=rounds,
                    timeout_s=plan.timeout_s,
                    environment=environment,
                    cwd=cwd,
                    again=0,  # both run in turn: what disturbs one disturbs the other
                    progress=runs,
                )
                tried = _tried(results(space, journal.trials), rounds)
                if made > before:
                    known(tried)
                spent = time.monotonic() - begun
                if tried.outcome != "undecided" or spent + spent / rounds > plan.limit_s:
                    break
    except Interrupted:
        stopped = True
    study = results(space, journal.trials)
    if stopped and not all(cell.times for cell in study.cells):
        raise Interrupted
    return replace(_tried(study, rounds, last=True), stopped=stopped)


def _named(seen: Progress, plan: Plan) -> Progress:
    """Return what is going on as a reader wants it: which of both, and of how many runs at most."""
    which = AS_IT_WAS if seen.label.startswith(f"{_RUN}={AS_IT_WAS}") else ADVISED
    return replace(seen, label=which, total=plan.most)


def _outcome(ratio: Estimate) -> str:
    """Return what an interval decides, empty where it does not."""
    if ratio.low > 1:
        return "helps"
    if ratio.high < 1:
        return "worse"
    return "no-better" if ratio.low > 1 / ALIKE and ratio.high < ALIKE else ""


def _tried(study: Results, rounds: int, *, last: bool = False) -> Tried:
    """Return what so many rounds show; it is decided at a look, or where no run comes any more.

    Raises
    ------
    ProfkitError
        The command cannot be run as it was.
    """
    before, after = study.cells
    if not before.times:
        raise ProfkitError(f"the command as it was does not run here: {before.problem}")
    ratio = gain(study, 0, 1, _LOOK_LEVEL)
    outcome = "undecided"
    if not after.times:
        outcome, ratio = "fails", UNKNOWN
    elif rounds in LOOKS or last:
        outcome = _outcome(ratio) or ("no-better" if rounds == LOOKS[-1] else "undecided")

    def median(cell: Cell) -> float:
        return cell.median if cell.times else math.nan

    return Tried(
        outcome,
        before.times,
        after.times,
        median(before),
        median(after),
        ratio,
        before.disturbed + after.disturbed,
        after.problem,
    )


@contextlib.contextmanager
def on_cpus(cpus: Sequence[int]) -> Iterator[None]:
    """Let what is started here run on these CPUs alone; on those of this process where none are named.

    Raises
    ------
    UsageError
        They are not there, or this process may not use them.
    """
    if not cpus or not hasattr(os, "sched_getaffinity") or os.sched_getaffinity(0) == set(cpus):
        yield
        return
    mine = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
        allowed = os.sched_getaffinity(0) == set(cpus)
    except OSError:
        allowed = False
    try:
        if not allowed:
            raise UsageError(
                f"the run was on CPUs that are not to be had here ({len(cpus)} of them): run this where it ran"
            )
        yield
    finally:
        os.sched_setaffinity(0, mine)


_PYTHON = re.compile(r"python[\d.]*w?")
#: Options of the interpreter whose value is the next word.
_WITH_VALUE = ("-W", "-X")


def advised(advice: Advice, command: Sequence[str], roots: Sequence[Path]) -> Change | None:
    """Return what a piece of advice changes in the command that was recorded; ``None`` where it cannot be tried.

    Parameters
    ----------
    advice
        Of the run.
    command
        As it was recorded.
    roots
        Directories in which the program's files are looked for.
    """
    words = tuple(command)
    if not can_be_tried(advice):
        return None
    if advice.where is None:
        return Change(words, advice.argv, advice.env)
    at = _program_at(words)
    file = next((root / advice.where.path for root in roots if (root / advice.where.path).is_file()), None)
    if at is None or file is None:
        return None
    lines = _edited_lines(file, advice)
    if not lines:
        return None
    place = (str(file), str(advice.line), advice.where.qualname, advice.subject)
    edited = (*words[:at], edited_source.__file__, *place, *words[at:])
    return Change(words, edited, {}, f"{advice.where.path}:{lines[0]}: {advice.subject}")


def _program_at(words: Sequence[str]) -> int | None:
    """Return where a command of Python names its script or its module (``-m``); ``None`` where it has neither."""
    start = next((i for i, word in enumerate(words) if _PYTHON.fullmatch(word.rpartition("/")[2])), None)
    if start is None:
        return None
    at = start + 1
    while at < len(words):
        word = words[at]
        if word == "-m" or not word.startswith("-"):
            return at
        if word == "-c" or word == "-":
            return None
        at += 2 if word in _WITH_VALUE else 1
    return None


def _edited_lines(file: Path, advice: Advice) -> list[int]:
    assert advice.where is not None
    try:
        with tokenize.open(file) as source:
            text = source.read()
        return edited_source.edit(text, str(file), advice.line, advice.where.qualname, advice.subject)[1]
    except (OSError, SyntaxError, ValueError):
        return []
