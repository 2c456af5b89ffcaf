"""What a producer of evidence is, and how much it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from profkit.measure.side_facts import SideFacts
from profkit.verdict.rule import Judged
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence

#: Most functions and ranges that are named.
NAMED = 3
#: Least part of a range's time in queueing for it to be named.
LEAST_SHARE = 0.1

Found = Iterable[Evidence]
#: By the name that rules use. Each takes a `Case`; those that rules of one run use, any `Judged`.
Producers = Mapping[str, Callable[[Any], Found]]


def of_sides(
    signal: str, unit: str, of: Callable[[SideFacts], float | None], *, reading: str = "", threshold: str = ""
) -> Callable[[Judged], Found]:
    """Make a producer for a measurement of both sides, if it is known of the candidate."""

    def found(case: Judged) -> Found:
        before, now = of(case.before), of(case.now)
        if now is not None:
            yield Evidence(signal, unit, before, now, value(threshold) if threshold else None, reading)

    return found
