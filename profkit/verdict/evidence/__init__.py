"""Evidence for each name in a rule: measured facts of both sides, or nothing if not measured."""

from __future__ import annotations

from collections.abc import Iterable

from profkit.verdict.evidence import (
    changed_functions,
    cpu_competition,
    machine_and_inputs,
    totals_and_orders,
    waits_off_cpu,
)
from profkit.verdict.evidence.producing import Producers
from profkit.verdict.rule import Judged
from profkit.verdict.types import Evidence

#: Producers by what they measure.
PARTS: tuple[Producers, ...] = (
    totals_and_orders.TOTALS_AND_ORDERS,
    cpu_competition.CPU_COMPETITION,
    waits_off_cpu.WAITS_OFF_CPU,
    changed_functions.CHANGED_FUNCTIONS,
    machine_and_inputs.MACHINE_AND_INPUTS,
)

#: By the name that rules use.
PRODUCERS: Producers = {name: producer for part in PARTS for name, producer in part.items()}


def produce(names: Iterable[str], case: Judged) -> tuple[Evidence, ...]:
    """Return the evidence of some names in their order, without duplicates."""
    found: list[Evidence] = []
    for name in names:
        found += [evidence for evidence in PRODUCERS[name](case) if evidence not in found]
    return tuple(found)
