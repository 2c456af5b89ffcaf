"""What the verdict package returns, as data: evidence, advice, findings, verdicts, the whole comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from profkit.compare.call_table import CallTable
from profkit.compare.result_types import Comparability, DiffTable, Ranking, Residue, SideSummary
from profkit.compare.setting_differences import Setting
from profkit.compare.stack_table import StackTable
from profkit.measure.import_table import Imports
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.measure.line_times import FunctionLines
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
    """An estimated value, with its 95 % interval."""

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
    """One measured fact of both sides; a run alone has no baseline.

    `signal`: what was measured, a key of `profkit.report.wording.SIGNALS`.
    `unit`: one of `UNITS`; ``text`` for names, such as a CPU's.
    `threshold`: what the candidate's value was compared with, in the same unit.
    `reading`: what they say, a key of `profkit.report.wording.READINGS`; empty where the numbers suffice.
    `subject`: a function, NVTX range or variable; empty for the whole program.
    `whole`: the total that each side's value is part of (CPUs available, active time), or ``None``.
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
    """One thing to do next; `kind` is a key of `profkit.report.wording.ADVICE`.

    `argv`: the command to run, empty for an edit or a machine setting; `files` follow as its last words.
    `cures`: the bucket of the account that it empties; empty where it only measures more.
    `predicted_gain_s`: seconds of the candidate's wall that it should win back, NaN where not known.
    `where`, `line`: the function to edit and where it begins; ``None`` and 0 where not known.
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

    `rule`: of the rule; where `part` is ``reading``, the reading that compares by itself.
    `part`: ``requires``, ``unless``, ``conditions``, ``alternatives``, ``doubts`` or ``reading``.
    `choice`, `group`: of ``alternatives``, set and group from 1; of each set one group must hold.
    Of ``doubts``, `choice` is the number of the doubt. Both are 0 elsewhere.
    `value`, `threshold`: ``None`` where not known.
    `margin`: value beyond threshold, in its unit; negative where it did not hold, NaN without numbers.
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
    """One cause that holds, with its evidence; `cause` is one of `CAUSES`.

    `bucket`, `seconds`: what it explains of the account; empty and NaN for a finding of no loss.
    `severity`: part of the lost time that it explains, 0 to 1; NaN where that cannot be known.
    `confidence`: share of right verdicts of its rule on labelled runs, less what is doubted, 0 to 1.
    It only orders findings where `calibrated` is false.
    `strength`: the value by which the confidence was looked up; NaN where the rule has none.
    `kind`: of ``contention``, ``self-oversubscription``, ``external-load``, ``cpu-quota`` or ``None``.
    `subject`: a function or range; empty for the whole program.
    `stated`, `doubt`, `left`: what the rule states, what its greatest doubt leaves (``None`` without one),
    and what everything else leaves: the confidence is made from these and the table.
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

    `cause`: ``inconclusive`` where no finding decides.
    `rule`: of the finding; of ``inconclusive`` the reason: ``another-program``, ``unfinished``, ``sampled``,
    ``nothing-decides`` or one of `profkit.verdict.rules.undecided`.
    `confidence`: 0 to 1; ``None`` where nothing is claimed or it was not calibrated.
    `findings`: all that hold, first the one that the verdict names, unless it is inconclusive.
    `checks`: every condition of every rule, in the order of the rules.
    `doubts`: codes of notices on other differences of the sides; each lowered the confidence, and comes
    before the cause.
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
    """One run's account, what it lacked (``None``: nothing), and lines of the function with most of it."""

    account: Account
    verdict: Verdict | None
    checks: tuple[Checked, ...] = ()
    lines: FunctionLines | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Diff:
    """The whole result of ``profkit diff``, before layout; `calls` and `stacks` only where requested.

    `slowdown` is the candidate's wall over the baseline's (self time where a wall is not known). `lines` are
    of the function that the verdict names, ``None`` where not known; so is what a side imported.
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
    imports: tuple[Imports | None, Imports | None] = (None, None)
    lines: FunctionLines | None = None
