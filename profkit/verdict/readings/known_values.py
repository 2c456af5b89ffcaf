"""Values that are unknown if what they are computed from is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.verdict.rule import Case


def factor(before: float | None, after: float | None) -> float | None:
    """Return the candidate's value over the baseline's, if both are known and above 0."""
    return after / before if before and after else None


def growth(before: float | None, after: float | None) -> float | None:
    """Return the difference of the sides, ``None`` where one is unknown."""
    return None if before is None or after is None else after - before


def of_known(find: Callable[[Case], Any], part: Callable[[Any], float]) -> Callable[[Case], float | None]:
    """Return a reading of a part of what `find` returns, ``None`` without that."""
    return lambda case: None if (found := find(case)) is None else part(found)
