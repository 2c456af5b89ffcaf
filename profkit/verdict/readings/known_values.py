"""Readings of what is measured of each side, and of what is found only in some comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from profkit.measure.side_facts import SideFacts
from profkit.verdict.rule import Case, Reading

#: A measurement of one side.
Measured: TypeAlias = Callable[[SideFacts], "float | None"]


def factor(before: float | None, after: float | None) -> float | None:
    """Return the candidate's value over the baseline's, if both are known and above 0."""
    return after / before if before and after else None


def growth(before: float | None, after: float | None) -> float | None:
    """Return the difference of the sides, ``None`` where one is unknown."""
    return None if before is None or after is None else after - before


def of_sides(name: str, unit: str, about: str, of: Measured) -> Mapping[str, Reading]:
    """Return the readings of the candidate, and of the baseline under ``NAME-before``."""
    return {
        name: Reading(unit, about, lambda case: of(case.now)),
        f"{name}-before": Reading(unit, f"{name} of the baseline", lambda case: of(case.before)),
    }


def factor_of(about: str, of: Measured) -> Reading:
    """Return the reading of a measurement over the baseline's."""
    over = f"{about} over the baseline's"
    return Reading("factor", over, lambda case: factor(of(case.before), of(case.now)))


def growth_of(unit: str, about: str, of: Measured) -> Reading:
    """Return the reading of a measurement less the baseline's."""
    return Reading(unit, about, lambda case: growth(of(case.before), of(case.now)))


def grown(about: str, bucket: str) -> Reading:
    """Return the reading of whether a bucket of the account grew beyond its noise."""
    return Reading("bool", about, lambda case: case.account.bucket(bucket).low > 0)


def of_known(find: Callable[[Case], Any], part: Callable[[Any], float]) -> Callable[[Case], float | None]:
    """Return a reading of a part of what `find` returns, ``None`` without that."""
    return lambda case: None if (found := find(case)) is None else part(found)
