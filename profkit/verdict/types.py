"""What the verdict room returns: evidence, advice, findings, verdicts, and the whole comparison.

Numbers stay numbers, with a unit and an id; sentences are made of them in `profkit.report.wording`. Holds data,
computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from profkit.measure.calls import CallTable
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.measure.lines import FunctionLines
from profkit.measure.settings import Setting
from profkit.measure.stacks import StackTable
from profkit.measure.tables import Comparability, DiffTable, Ranking, Residue, SideSummary
from profkit.model import FunctionKey, Notice
from profkit.verdict.account import Account

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel
    from profkit.measure.range_stats import RangeChange

__all__ = [
    "CAUSES",
    "COUNTED",
    "NO_HARM",
    "UNITS",
    "Advice",
    "Bounded",
    "Checked",
    "Diff",
    "Evidence",
    "Finding",
    "RunVerdict",
    "Value",
    "Verdict",
]

#: Every cause that a verdict can name.
CAUSES = (
    "no-change",
    "contention",
    "slower-machine",
    "code-change",
    "workload-change",
    "data-starvation",
    "blocked",
    "interpreter-lock",
    "start-up",
    "faster",
    "inconclusive",
)
#: Causes that make no candidate slower.
NO_HARM = frozenset(("no-change", "faster", "inconclusive"))
#: What counted calls or the source show, whatever capture added to the walls.
COUNTED = frozenset(("code-change", "workload-change"))

#: Units of values: seconds, a part of 1, a factor, CPU cores, a count, bytes, a distance of rankings, text, and
#: yes or no.
UNITS = ("s", "share", "factor", "cores", "count", "bytes", "distance", "text", "bool")


class Bounded(float):
    """A value that was estimated: the estimate as a number, with its 95 % interval."""

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Bounded:
        found = super().__new__(cls, value)
        found.low, found.high = low, high
        return found


#: One measured value; ``None`` where it is not known.
Value: TypeAlias = "float | str | bool | None"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured fact of both sides.

    Attributes
    ----------
    signal
        Id of what was measured: a key of `profkit.report.wording.SIGNALS`.
    unit
        One of `UNITS`; ``text`` for names, such as a CPU's.
    baseline, candidate
        The values. A run alone has no baseline.
    threshold
        What the candidate's value was compared with, in the same unit; ``None`` without one.
    reading
        Id of what it says: a key of `profkit.report.wording.READINGS`; empty where the numbers say it.
    subject
        The function, NVTX range or variable that it is about, empty for the whole program.
    whole
        Of which the values of either side are a part (cores of the CPUs available, seconds of active time),
        in the same unit; ``None`` where that says nothing.
    numbers
        Further numbers that the reading needs.
    """

    signal: str
    unit: str
    baseline: Value = None
    candidate: Value = None
    threshold: float | None = None
    reading: str = ""
    subject: str = ""
    whole: tuple[float | None, float | None] | None = None
    numbers: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do next.

    Attributes
    ----------
    kind
        Id: a key of `profkit.report.wording.ADVICE`.
    argv
        Command to run, empty for what is no command (an edit, a setting of a machine).
    env
        Environment variables to run it with.
    files
        Run files that the command reads, after its other words.
    cures
        Bucket of the account that it empties; empty for what only measures more.
    predicted_gain_s
        Seconds of the candidate's wall that it should win back; NaN where that is not known.
    subject
        What it is about: a function, a file, a line of code.
    numbers
        Numbers that its sentence needs.
    where, line
        The function to edit, and where it begins (0: not known); ``None`` where there is none, or it is not known.
    """

    kind: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    cures: str = ""
    predicted_gain_s: float = math.nan
    subject: str = ""
    numbers: Mapping[str, Value] = field(default_factory=dict)
    where: FunctionKey | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """One condition of a rule, as it was evaluated.

    Attributes
    ----------
    rule
        Of the rule; of ``reading``, the reading that compares.
    part
        ``requires``, ``unless``, ``conditions``, ``alternatives``, ``doubts``, or ``reading`` for what a reading
        compares by itself.
    choice, group
        Of ``alternatives``: number of the set, and of the group in it, from 1. Conditions of one group hold together,
        and of each set one group must hold. Of ``doubts``, the number of the doubt in `choice`. 0 elsewhere.
    reading, operator, unit
        What was compared, and how.
    value, threshold
        The two values; ``None`` where one is not known.
    threshold_id
        Id of the threshold, empty for a condition without one.
    held
        Whether it held.
    margin
        How far the value is beyond the threshold, in its unit, negative where it did not hold; NaN without numbers.
    """

    rule: str
    part: str
    choice: int
    group: int
    reading: str
    operator: str
    unit: str
    value: Value
    threshold: float | None
    threshold_id: str
    held: bool
    margin: float = math.nan


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause that holds, with its evidence.

    Attributes
    ----------
    rule
        Id of the rule that holds.
    cause
        One of `CAUSES`.
    bucket
        Bucket of the account that it explains; empty for a finding of no loss.
    seconds
        Of that bucket; NaN where there is none.
    severity
        Part of the lost time that it explains, 0 to 1; NaN where that cannot be known.
    confidence
        Share of right verdicts of its rule on labelled runs, less what is doubted, 0 to 1. Where `calibrated` is
        false it only orders findings.
    calibrated
        Whether the confidence was measured for findings of this kind.
    strength
        The value that its confidence was calibrated by; NaN where the rule has none.
    kind
        For ``contention``: ``self-oversubscription``, ``external-load``, ``cpu-quota`` or ``None``.
    subject
        The function or range that it is about; empty for the whole program.
    numbers
        Values that its sentence needs, by reading id.
    stated, doubt, left
        What `confidence` was made from beside the table: what the rule states, what the greatest of its doubts
        leaves (``None`` without one), and the part that everything else leaves.
    """

    rule: str
    cause: str
    confidence: float
    severity: float = math.nan
    bucket: str = ""
    seconds: float = math.nan
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[Advice, ...] = ()
    kind: str | None = None
    strength: float = math.nan
    calibrated: bool = False
    subject: str = ""
    numbers: Mapping[str, Value] = field(default_factory=dict)
    stated: float = 1.0
    doubt: float | None = None
    left: float = 1.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding that explains most, and all findings.

    Attributes
    ----------
    cause, kind
        Of the finding; ``inconclusive`` where none decides.
    rule
        Of the finding; for ``inconclusive`` the reason: ``another-program``, ``unfinished``, ``sampled``,
        ``nothing-decides``, or one of `profkit.verdict.rules.undecided`.
    confidence
        0 to 1; ``None`` where nothing is claimed or it was not calibrated.
    findings
        All that hold; the one that the verdict names first, unless it is inconclusive.
    checks
        Every condition of every rule, in the order of the rules.
    doubts
        Codes of the notices on what else differs between the sides, such as their machines: each has lowered the
        confidence, and is to be known before the cause.
    """

    cause: str
    rule: str
    confidence: float | None = None
    kind: str | None = None
    subject: str = ""
    evidence: tuple[Evidence, ...] = ()
    advice: tuple[Advice, ...] = ()
    numbers: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    checks: tuple[Checked, ...] = ()
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The account of one run, what it lacked (``None``: nothing), and the lines of the function with most of it."""

    account: Account
    verdict: Verdict | None
    checks: tuple[Checked, ...] = ()
    lines: FunctionLines | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Diff:
    """The whole result of ``profkit diff``, before it is laid out; `calls` and `stacks` only where requested.

    `slowdown` is the candidate's wall over the baseline's (self time where a wall is not known); `lines` are those
    of the function that the verdict is about, ``None`` where they are not known.
    """

    baseline: SideSummary
    candidate: SideSummary
    comparability: Comparability
    verdict: Verdict
    account: Account
    ranking: Ranking
    table: DiffTable
    residue: Residue
    warnings: tuple[Notice, ...] = field(default=())
    ranges: tuple[RangeChange, ...] = ()
    iterations: tuple[IterationModel | None, IterationModel | None] = (None, None)
    calls: CallTable | None = None
    stacks: StackTable | None = None
    settings: tuple[Setting, ...] = ()
    slowdown: Estimate = UNKNOWN
    lines: FunctionLines | None = None
