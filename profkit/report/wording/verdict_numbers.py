"""The numbers that sentences about a verdict are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profkit.report import units
from profkit.report.wording.evidence import number_of
from profkit.verdict.thresholds import value
from profkit.verdict.types import Value


@dataclass(frozen=True, slots=True)
class VerdictNumbers:
    """What a sentence is made from; `alone`: it is of one run."""

    kind: str | None
    subject: str
    numbers: Mapping[str, Value]
    alone: bool

    def number(self, name: str) -> float | None:
        """Return a number by its name."""
        return number_of(self.numbers.get(name))

    def share(self, name: str) -> str:
        """Return it as a percentage."""
        return units.share(self.number(name))

    def factor(self, name: str) -> str:
        """Return it as a factor."""
        return units.factor(self.number(name))

    def count(self, name: str) -> str:
        """Return it as a count."""
        return units.count(self.number(name))


def by_instructions(numbers: Mapping[str, Value]) -> bool:
    """Whether variables chose other instructions, and the machine itself was as fast."""
    part = number_of(numbers.get("machine.part"))
    return bool(numbers.get("instructions.differ")) and (part is None or part < value("part.most"))
