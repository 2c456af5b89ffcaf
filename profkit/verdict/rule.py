"""Rules, which are data, what they judge, and their evaluation: conditions on readings against thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from profkit.compare.signals import Signals
from profkit.measure.side_facts import SideFacts
from profkit.verdict.account import Account
from profkit.verdict.thresholds import THRESHOLDS
from profkit.verdict.types import Bounded, Checked, Value


@dataclass(frozen=True, slots=True)
class Condition:
    """A reading compared with a threshold (``>=``, ``<=``), or required to be true (``is``) or false.

    The whole interval of an estimated reading must be beyond the threshold.
    """

    reading: str
    operator: str
    threshold: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value that rules may read, in one of `UNITS`; `of` computes it (``None``: unknown).

    `compares` lists, for ``--explain``, comparisons that the reading makes itself; none decides alone.
    """

    unit: str
    about: str
    of: Callable[..., Value]
    compares: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The input of readings, evidence and advice; of one run alone, `before` is unknown."""

    before: SideFacts
    now: SideFacts
    account: Account
    readings: Mapping[str, Reading]

    def read(self, name: str) -> Value:
        """Return the value of a reading; ``None`` if unknown, also for NaN."""
        found = self.readings[name].of(self)
        return None if isinstance(found, float) and math.isnan(found) else found

    def number(self, name: str) -> float:
        """Return the value of a numeric reading; NaN, which reaches no threshold, where it is unknown."""
        found = self.read(name)
        return found if isinstance(found, float) else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Case(Judged):
    """Everything by which a comparison is judged."""

    signals: Signals


def more(reading: str, threshold: str) -> Condition:
    """Require that the reading is at least the threshold."""
    return Condition(reading, ">=", threshold)


def less(reading: str, threshold: str) -> Condition:
    """Require that the reading is at most the threshold."""
    return Condition(reading, "<=", threshold)


def yes(reading: str) -> Condition:
    """Require that the reading is true."""
    return Condition(reading, "is")


def no(reading: str) -> Condition:
    """Require that the reading is false."""
    return Condition(reading, "not")


#: Conditions that hold together.
Group = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to recognise a cause, one of `profkit.verdict.types.CAUSES`; `id` is unique.

    `bucket` is the one that it explains, empty for a rule of no loss; if it explains more, `part` is the reading
    with the part of the lost time. `kind` is the reading with the kind of
    contention. Readings in `requires` must be known; rules in `unless` come before it, and it yields to them.
    All `conditions` must hold, and one group of each set of `alternatives`. `confidence` orders findings
    until the measured confidence replaces it; `doubts` are groups of conditions, each with the confidence
    that it leaves. `strength` is the reading by which the measured confidence is looked up, empty for a
    single value. `evidence` and `advice` name producers, in order; `subject` and `numbers` are readings for
    its sentence.
    """

    id: str
    cause: str
    about: str
    bucket: str = ""
    part: str = ""
    kind: str = ""
    requires: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    conditions: Group = ()
    alternatives: tuple[tuple[Group, ...], ...] = ()
    confidence: float = 0.9
    doubts: tuple[tuple[Group, float], ...] = ()
    strength: str = ""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    subject: str = ""
    numbers: tuple[str, ...] = ()


def alone(
    of: Rule, about: str, *conditions: Condition, confidence: float, strength: str = "", **other: Any
) -> Rule:
    """Return the rule that recognises the cause of another one in a run alone.

    The run must last and have counters; evidence, advice, words, and the numbers that need no baseline are those of a
    comparison, unless given.
    """
    conditions = (more("wall", "alone.wall"), *conditions)
    own = replace(of, about=about, conditions=conditions, confidence=confidence, strength=strength)
    numbers = tuple(name for name in of.numbers if not name.endswith("-before"))
    usual = {
        "requires": ("pair.counters",),
        "unless": (),
        "alternatives": (),
        "doubts": (),
        "numbers": numbers,
    }
    return replace(own, **usual | other)


def evaluate(rule: Rule, case: Judged, held: frozenset[str]) -> tuple[bool, tuple[Checked, ...]]:
    """Return whether a rule holds, and all its conditions; `held` are the rules that held before it."""
    checks = [_check(rule.id, "requires", Condition(name, "known"), case) for name in rule.requires]
    checks += [
        Checked(rule.id, "unless", 0, 0, other, "not", "bool", other in held, None, "", other not in held)
        for other in rule.unless
    ]
    checks += [_check(rule.id, "conditions", condition, case) for condition in rule.conditions]
    holds = all(check.held for check in checks)
    for number, groups in enumerate(rule.alternatives):
        found = False
        for which, group in enumerate(groups):
            part = [
                _check(rule.id, "alternatives", condition, case, choice=number + 1, group=which + 1)
                for condition in group
            ]
            checks += part
            found = found or all(check.held for check in part)
        holds = holds and found
    for number, (group, _) in enumerate(rule.doubts):
        checks += [_check(rule.id, "doubts", one, case, choice=number + 1) for one in group]
    return holds, tuple(checks)


def compared(case: Judged) -> tuple[Checked, ...]:
    """Return the comparisons that readings make themselves, under the name of the reading."""
    return tuple(
        _check(name, "reading", condition, case)
        for name, reading in case.readings.items()
        for condition in reading.compares
    )


def doubted(rule: Rule, case: Judged) -> float | None:
    """Return the lowest confidence that a rule's doubts leave; ``None`` where none holds."""
    left = [
        confidence
        for group, confidence in rule.doubts
        if all(_check(rule.id, "doubts", condition, case).held for condition in group)
    ]
    return min(left, default=None)


def _check(
    rule: str, part: str, condition: Condition, case: Judged, *, choice: int = 0, group: int = 0
) -> Checked:
    found = case.read(condition.reading)
    unit = case.readings[condition.reading].unit
    against = THRESHOLDS[condition.threshold].value if condition.threshold else None
    margin = math.nan
    if condition.operator == "known":
        held = found is not None
    elif condition.operator in ("is", "not"):
        # An unknown reading is neither true nor false.
        held = found is not None and bool(found) is (condition.operator == "is")
    elif isinstance(found, (int, float)) and against is not None and math.isfinite(found):
        low, high = (found.low, found.high) if isinstance(found, Bounded) else (found, found)
        margin = low - against if condition.operator == ">=" else against - high
        held = margin >= 0
    else:
        held = False
    return Checked(
        rule,
        part,
        choice,
        group,
        condition.reading,
        condition.operator,
        unit,
        found,
        against,
        condition.threshold,
        held,
        margin,
    )
