"""What the verdict room returns: evidence, findings, verdicts, and the whole comparison. Holds data, computes nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from profkit.measure.calls import CallTable
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.measure.settings import Setting
from profkit.measure.tables import Comparability, DiffTable, Ranking, Residue, SideSummary
from profkit.model import Notice

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel
    from profkit.measure.range_stats import RangeChange

__all__ = ["CAUSES", "Diff", "Evidence", "Finding", "Verdict"]

#: Every cause that a verdict can name.
CAUSES = (
    "no-change",
    "contention",
    "slower-machine",
    "code-change",
    "workload-change",
    "data-starvation",
    "blocked",
    "faster",
    "inconclusive",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured fact: what it is on either side (formatted with units) and what it says."""

    signal: str
    baseline: str
    candidate: str
    says: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that holds, with its evidence.

    Attributes
    ----------
    rule
        Name of the rule that fired (a cause of `CAUSES` or a narrower name).
    cause
        One of `CAUSES`.
    kind
        For ``contention``: ``self-oversubscription``, ``external-load``, ``cpu-quota`` or ``None``.
    severity
        Share of the lost time that it explains, 0 to 1; NaN where that cannot be known.
    strength
        How far the evidence is beyond the rule's thresholds, in the rule's own measure: what its confidence
        was calibrated by. NaN where the rule knows no more and less.
    """

    rule: str
    cause: str
    confidence: float
    severity: float
    summary: str
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()
    kind: str | None = None
    strength: float = math.nan


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding that explains most, and all findings.

    Attributes
    ----------
    cause
        One of `CAUSES`.
    confidence
        0 to 1.
    summary
        One sentence.
    """

    cause: str
    confidence: float
    summary: str
    kind: str | None = None
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Diff:
    """Everything that ``profkit diff`` says, before it is laid out; `calls` only where they were asked for.

    `slowdown` is the candidate's wall over the baseline's (self time where a wall is not known).
    """

    baseline: SideSummary
    candidate: SideSummary
    comparability: Comparability
    verdict: Verdict
    ranking: Ranking
    table: DiffTable
    residue: Residue
    warnings: tuple[Notice, ...] = field(default=())
    ranges: tuple[RangeChange, ...] = ()
    iterations: tuple[IterationModel | None, IterationModel | None] = (None, None)
    calls: CallTable | None = None
    settings: tuple[Setting, ...] = ()
    slowdown: Estimate = UNKNOWN
