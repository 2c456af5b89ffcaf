"""What a rule is, and how one is evaluated: conditions on readings, against thresholds, and nothing else.

A rule is data. It holds where all that it requires is known, none of the rules that it yields to holds, all its
conditions hold, and of each set of alternatives one group does. The engine knows no cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from profkit.measure.counters import SideFacts
from profkit.verdict.account import Account
from profkit.verdict.thresholds import THRESHOLDS
from profkit.verdict.types import Bounded, Checked, Value


class Sides(Protocol):
    """The counters of a baseline and a candidate; of one run alone the baseline knows nothing."""

    @property
    def baseline(self) -> SideFacts:
        """Of the baseline."""

    @property
    def candidate(self) -> SideFacts:
        """Of the candidate, or of the one run."""


class Judged(Protocol):
    """What evidence and advice are made from, of a comparison and of one run alike."""

    @property
    def signals(self) -> Sides:
        """The measured signals."""

    @property
    def account(self) -> Account | None:
        """Where the time went."""

    def read(self, name: str) -> Value:
        """Value of a reading; ``None`` where it is not known."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A reading against a threshold (``>=``, ``<=``), or a yes-or-no reading that must be so (``is``, ``not``).

    Of a reading that was estimated the whole interval must be beyond the threshold.
    """

    reading: str
    operator: str
    threshold: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value that rules may read.

    Attributes
    ----------
    unit
        One of `profkit.verdict.types.UNITS`.
    about
        What it is, in a line.
    of
        Computes it from the case; ``None`` where it is not known.
    compares
        What is compared with thresholds to make it, for ``--explain``: none of these conditions decides alone.
    """

    unit: str
    about: str
    of: Callable[..., Value]
    compares: tuple[Condition, ...] = ()


def more(reading: str, threshold: str) -> Condition:
    """The reading is at least the threshold."""
    return Condition(reading, ">=", threshold)


def less(reading: str, threshold: str) -> Condition:
    """The reading is at most the threshold."""
    return Condition(reading, "<=", threshold)


def yes(reading: str) -> Condition:
    """The reading is true."""
    return Condition(reading, "is")


def no(reading: str) -> Condition:
    """The reading is false."""
    return Condition(reading, "not")


#: Conditions that hold together.
Group = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to recognise a cause.

    Attributes
    ----------
    id
        Name of the rule; unique.
    cause
        One of `profkit.verdict.types.CAUSES`.
    about
        What it recognises, in a line.
    bucket
        Bucket of the account that it explains; empty for a rule of no loss.
    kind
        Reading that gives the kind of contention; empty without kinds.
    requires
        Readings that must be known.
    unless
        Rules that it yields to, evaluated before it.
    conditions
        All must hold.
    alternatives
        Of each set, one group of conditions must hold.
    confidence
        Orders findings that hold together, until the measured confidence takes its place.
    doubts
        Groups of conditions that lower it, each with what is left.
    strength
        Reading by which the measured confidence is looked up; empty where the rule has one for all.
    evidence, advice
        Producers of `profkit.verdict.evidence` and `profkit.verdict.advice`, in order.
    subject
        Reading that names the function or range that it is about.
    numbers
        Readings whose values its sentence needs.
    """

    id: str
    cause: str
    about: str
    bucket: str = ""
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


def evaluate(
    rule: Rule, read: Callable[[str], Value], units: Mapping[str, Reading], held: frozenset[str]
) -> tuple[bool, tuple[Checked, ...]]:
    """Evaluate one rule.

    Parameters
    ----------
    rule
        What to evaluate.
    read
        Value of a reading by its id.
    units
        All readings.
    held
        Rules that were found to hold before this one.

    Returns
    -------
    holds : bool
    checks : tuple of Checked
        Every condition with its value, whether or not one before it failed.
    """
    checks = [_check(rule.id, "requires", Condition(name, "known"), read, units) for name in rule.requires]
    checks += [
        Checked(rule.id, "unless", 0, 0, other, "not", "bool", other in held, None, "", other not in held)
        for other in rule.unless
    ]
    checks += [_check(rule.id, "conditions", condition, read, units) for condition in rule.conditions]
    holds = all(check.held for check in checks)
    for number, groups in enumerate(rule.alternatives):
        found = False
        for which, group in enumerate(groups):
            part = [
                _check(rule.id, "alternatives", condition, read, units, choice=number + 1, group=which + 1)
                for condition in group
            ]
            checks += part
            found = found or all(check.held for check in part)
        holds = holds and found
    for number, (group, _) in enumerate(rule.doubts):
        checks += [_check(rule.id, "doubts", one, read, units, choice=number + 1) for one in group]
    return holds, tuple(checks)


def compared(read: Callable[[str], Value], readings: Mapping[str, Reading]) -> tuple[Checked, ...]:
    """What readings compare with thresholds by themselves, under the name of the reading."""
    return tuple(
        _check(name, "reading", condition, read, readings)
        for name, reading in readings.items()
        for condition in reading.compares
    )


def doubted(rule: Rule, read: Callable[[str], Value], units: Mapping[str, Reading]) -> float | None:
    """The least confidence that its doubts leave; ``None`` without any that hold."""
    left = [
        confidence
        for group, confidence in rule.doubts
        if all(_check(rule.id, "doubts", condition, read, units).held for condition in group)
    ]
    return min(left, default=None)


def _check(
    rule: str,
    part: str,
    condition: Condition,
    read: Callable[[str], Value],
    units: Mapping[str, Reading],
    *,
    choice: int = 0,
    group: int = 0,
) -> Checked:
    found = read(condition.reading)
    unit = units[condition.reading].unit
    against = THRESHOLDS[condition.threshold].value if condition.threshold else None
    margin = math.nan
    if condition.operator == "known":
        held = found is not None
    elif condition.operator in ("is", "not"):
        # What is not known is neither so nor not so.
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
