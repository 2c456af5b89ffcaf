"""Try a piece of advice: run a recorded command as it was and as the advice changes it, in turn.

The 5 % error of the interval is divided among the looks and the end (Bonferroni).
"""

from __future__ import annotations

import math
import re
import time
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profkit.capture.agent import edited as edited_source
from profkit.errors import ProfkitError, UsageError
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.study.journal import Journal
from profkit.study.setting_results import LEVEL, Cell, Results, gain, results
from profkit.study.space import UNSET, Parameter, Space
from profkit.study.sweep import Progress, Runner, sweep
from profkit.study.trials import Interrupted, stoppable
from profkit.verdict.advice.producers import can_be_tried
from profkit.verdict.types import Advice

#: Names of the two settings in reports and journals.
AS_IT_WAS, ADVISED = "as it was", "with the advice"
_RUN = "run"
#: Rounds after which the interval is checked.
LOOKS = (3, 5, 8, 12)
#: Coverage of the interval at each look.
_LOOK_LEVEL = 1 - (1 - LEVEL) / (len(LOOKS) + 1)
#: Factor within which the difference of two times does not matter to a person who waits.
ALIKE = 1.03
#: A run is ended after `PATIENCE` × the recorded wall + `LEAST_PATIENCE_S` seconds.
PATIENCE, LEAST_PATIENCE_S = 5.0, 60.0
#: Seconds after which no round begins, unless the fewest rounds for an answer plus one take longer.
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Change:
    """What advice changes in a recorded command; `edit` is the place and text of an edited line."""

    command: tuple[str, ...]
    changed: tuple[str, ...]
    variables: Mapping[str, str]
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long it takes: each run ends after `timeout_s`, and no round begins after `limit_s`."""

    round_s: float
    limit_s: float
    timeout_s: float

    @property
    def shortest_s(self) -> float:
        """Least expected seconds until an answer."""
        return LOOKS[0] * self.round_s

    @property
    def longest_s(self) -> float:
        """Most expected seconds until the end."""
        return min(LOOKS[-1] * self.round_s, max(self.limit_s, self.round_s))


@dataclass(frozen=True, slots=True)
class Tried:
    """Results, so far or at the end, of the command as it was and with the advice.

    `outcome`: ``helps``, ``no-better`` (no difference, or none beyond the noise), ``worse``, ``fails`` (the
    advised command does not succeed), or ``undecided``. `ratio`: how many times faster it is with the advice.
    """

    outcome: str
    before: Cell
    after: Cell
    ratio: Estimate
    stopped: bool = False

    @property
    def gain_s(self) -> float:
        """Seconds that the advice saved; NaN if unknown."""
        return self.before.median - self.after.median

    @property
    def disturbed(self) -> int:
        return self.before.disturbed + self.after.disturbed


def space_of_two(change: Change, environment: Mapping[str, str]) -> Space:
    """Return the study of a command before and after a change; raises `UsageError` if nothing changes."""
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
    """Return the plan for a run of `recorded_s` that the advice should shorten by `predicted_s` (or NaN)."""
    advised_s = recorded_s - predicted_s if math.isfinite(predicted_s) else recorded_s
    round_s = recorded_s + max(0.0, advised_s)
    if limit_s is None:
        limit_s = max(LIMIT_S, (LOOKS[0] + 1) * round_s)
    timeout_s = timeout_s or PATIENCE * recorded_s + LEAST_PATIENCE_S
    return Plan(round_s, limit_s, timeout_s)


def try_change(
    journal: Journal,
    runner: Runner,
    plan: Plan,
    *,
    progress: Callable[[Progress | Plan | Tried], None] = lambda _: None,
) -> Tried:
    """Run both commands in turn until there is a decision or the user stops.

    `progress` is called with the plan, before and after each run, and with the result after each round.
    Raises `Interrupted` if stopped before both had run, `ProfkitError` if the original command does not run.
    """
    begun = time.monotonic()
    rounds = made = 0
    stopped = False

    def runs(seen: Progress) -> None:
        nonlocal made
        if not made:
            progress(plan)
        made += seen.trial is None
        which = AS_IT_WAS if seen.label.startswith(f"{_RUN}={AS_IT_WAS}") else ADVISED
        progress(replace(seen, label=which, total=2 * LOOKS[-1]))  # numbered among the most that there can be

    try:
        with stoppable():
            for rounds in range(1, LOOKS[-1] + 1):
                before = made
                sweep(
                    journal,
                    runner,
                    repeat=rounds,
                    again=0,  # the runs alternate: a disturbance affects both
                    progress=runs,
                )
                tried = _tried(results(runner.space, journal.trials), rounds)
                if made > before:
                    progress(tried)
                spent = time.monotonic() - begun
                if tried.outcome != "undecided" or spent + spent / rounds > plan.limit_s:
                    break
    except Interrupted:
        stopped = True
    study = results(runner.space, journal.trials)
    if stopped and not all(cell.times for cell in study.cells):
        raise Interrupted
    return replace(_tried(study, rounds, last=True), stopped=stopped)


def _outcome(ratio: Estimate) -> str:
    """Return what an interval decides, empty if nothing."""
    if ratio.low > 1:
        return "helps"
    if ratio.high < 1:
        return "worse"
    return "no-better" if ratio.low > 1 / ALIKE and ratio.high < ALIKE else ""


def _tried(study: Results, rounds: int, *, last: bool = False) -> Tried:
    """Return the result so far; raises `ProfkitError` if the original command does not run."""
    before, after = study.cells
    if not before.times:
        raise ProfkitError(f"the recorded command does not run here: {before.problem}")
    ratio = gain(study, 0, 1, _LOOK_LEVEL)
    outcome = "undecided"
    if not after.times:
        outcome, ratio = "fails", UNKNOWN
    elif rounds in LOOKS or last:
        outcome = _outcome(ratio) or ("no-better" if rounds == LOOKS[-1] else "undecided")
    return Tried(outcome, before, after, ratio)


_PYTHON = re.compile(r"python[\d.]*w?")
#: Interpreter options whose value is the next word.
_WITH_VALUE = ("-W", "-X")


def advised(advice: Advice, command: Sequence[str], roots: Sequence[Path]) -> Change | None:
    """Return what advice changes in a recorded command with files in `roots`; ``None`` if untestable."""
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
    """Return the index of a Python command's script or ``-m``; ``None`` if it has neither."""
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
