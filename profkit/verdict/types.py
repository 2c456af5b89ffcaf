"""What the verdict package returns, as data: evidence, advice, findings, verdicts, the whole comparison."""

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
    """One measured fact of both sides.

    `signal` and `reading` are keys of `profkit.report.wording.SIGNALS` and `READINGS`; `reading` is empty
    where the numbers suffice. `unit` is one of `UNITS`, ``text`` for names such as a CPU's. `threshold` is
    what the candidate's value was compared with, in that unit. `subject` is a function, range or variable,
    empty for the whole program. `whole` is the total that each side's value is part of (cores available,
    seconds of active time), ``None`` where there is none. `numbers` are further values for the reading. A run
    alone has no baseline.
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

    `argv` is a command, empty where the advice is an edit or a setting; `files` are run files, its last
    words. `cures` is the bucket that it empties, empty for advice that only measures more.
    `predicted_gain_s`: seconds of the candidate's wall to win back, NaN if not known. `where` and `line`
    locate the function to edit (``None`` and 0: not known).
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

    `part` is ``requires``, ``unless``, ``conditions``, ``alternatives``, ``doubts``, or ``reading`` for what
    a reading compares by itself; `rule` then names the reading. Of ``alternatives``, `choice` is the set and
    `group` the group in it, from 1: all conditions of a group and one group of each set must hold. Of
    ``doubts``, `choice` is the doubt. Else 0. `value` and `threshold` are ``None`` where not known. `margin`
    is how far the value is beyond the threshold, in its unit: negative where the condition did not hold, NaN
    without numbers.
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

    `cause` is one of `CAUSES`; `bucket` is what it explains of the account, empty for a finding without loss.
    `severity` is the part of the lost time that it explains, 0 to 1, and `seconds` are the bucket's; NaN: not
    known.

    `confidence` (0 to 1) is how often the rule was right on labelled runs, less what is doubted; it only
    orders findings where `calibrated` is false. `strength` is the value that it was looked up by, NaN without
    one. It is made from the table, `stated` (by the rule), `doubt` (what the greatest doubt leaves, ``None``
    without one) and `left` (what everything else leaves). `kind` of ``contention``:
    ``self-oversubscription``, ``external-load`` or ``cpu-quota``. `subject` is a function or range, empty for
    the whole program; `numbers` are readings for its sentence.
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

    `cause` is ``inconclusive`` where no finding decides; `rule` then is the reason: ``another-program``,
    ``unfinished``, ``sampled``, ``nothing-decides`` or one of `profkit.verdict.rules.undecided`. `confidence`
    is 0 to 1, ``None`` where nothing is claimed or it was not calibrated. `findings` begin with the named
    one, unless inconclusive. `checks` are all conditions of all rules, in their order. `doubts` are codes of
    notices on other differences of the sides: each lowered the confidence, and a report states them before
    the cause.
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
    of the function that the verdict names, ``None`` where not known.
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
