"""Results of the verdict package, as data: evidence, advice, findings, verdicts, the whole comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from profkit.compare.call_table import CallTable
from profkit.compare.result_types import Comparability, DiffTable, Ranking, Residue, SideSummary
from profkit.compare.setting_differences import Setting
from profkit.compare.stack_table import StackTable
from profkit.measure.import_table import Imports
from profkit.measure.intervals import UNKNOWN, Estimate
from profkit.measure.iterations import IterationModel
from profkit.measure.line_times import FunctionLines
from profkit.measure.range_stats import RangeChange
from profkit.model import FunctionKey, Notice
from profkit.verdict.account import Account

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
    "garbage-collection",
    "start-up",
    "thread-settings",
    "environment",
    "faster",
    "inconclusive",
)
#: Causes that do not make a candidate slower.
NO_HARM = frozenset(("no-change", "faster", "inconclusive"))
#: Causes that counted calls or the source show, whatever capture added to the walls.
COUNTED = frozenset(("code-change", "workload-change"))

#: Units of values: seconds, a part of 1, a factor, CPU cores, a count, bytes, a distance of rankings, text,
#: and a boolean.
UNITS = ("s", "share", "factor", "cores", "count", "bytes", "distance", "text", "bool")


class Bounded(float):
    """An estimated value with its 95 % interval."""

    __slots__ = ("high", "low")
    low: float
    high: float

    def __new__(cls, value: float, low: float, high: float) -> Bounded:
        found = super().__new__(cls, value)
        found.low, found.high = low, high
        return found


#: One measured value; ``None`` if unknown.
Value: TypeAlias = "float | str | bool | None"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured fact of both sides; a run alone has no baseline.

    `signal` is what was measured, a key of `profkit.report.wording.SIGNALS`; `unit` is one of `UNITS`.
    `threshold` is what the candidate's value was compared with. `reading`, a key of
    `profkit.report.wording.READINGS`, interprets the numbers; empty where they suffice. `subject` is a
    function, NVTX range or variable, empty for the whole program. `whole` is the total that each side's value
    is part of, or ``None``.
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

    `argv` is the command to run, with `files` as its last words; empty for an edit or a machine setting.
    `cures` is the bucket that it empties, empty where it only measures more. `predicted_gain_s` is how many
    seconds shorter the candidate's wall should be at most, NaN if unknown, and `least_gain_s` at least, 0 if
    that may be noise. `where` and `line` are the function to edit and its first line, ``None`` and 0 if unknown.
    """

    kind: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    cures: str = ""
    predicted_gain_s: float = math.nan
    least_gain_s: float = 0.0
    subject: str = ""
    numbers: Mapping[str, Value] = field(default_factory=dict)
    where: FunctionKey | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """One condition of a rule, as it was evaluated.

    `rule` is the rule, or the reading that compares by itself where `part` is ``reading``; other parts are
    ``requires``, ``unless``, ``conditions``, ``alternatives`` and ``doubts``. `choice` and `group` number the
    sets and groups of ``alternatives`` from 1, and `choice` the ``doubts``; otherwise 0. `value` and
    `threshold` are ``None`` if unknown. `margin` is the value beyond the threshold in its unit, negative
    where it did not hold, NaN without numbers.
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

    `bucket` and `seconds` are what it explains of the account, empty and NaN without a loss; `severity` is
    its part of the lost time, 0 to 1, NaN if unknown. `confidence` is the share of right verdicts of its rule
    on labelled runs, reduced by doubts, 0 to 1; it only orders findings unless `calibrated`. `strength` is
    the value by which it was looked up, NaN without one. `kind` of ``contention`` is
    ``self-oversubscription``, ``external-load``, ``cpu-quota``, ``shared-hardware``, ``shared-gpu`` or ``None``,
    that of ``blocked`` is ``short-memory`` or ``None``. `subject` is a function or range, empty for the whole
    program. `stated` (by the rule), `doubt` (what its greatest doubt leaves, ``None`` without one) and `left`
    (what everything else leaves) determine the confidence together with the table.
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

    `cause` is ``inconclusive`` where no finding decides; `rule` is then the reason: ``another-program``,
    ``unfinished``, ``sampled``, ``nothing-decides`` or one of `profkit.verdict.rules.undecided`. `confidence`
    is 0 to 1, ``None`` where nothing is claimed or it was not calibrated. `findings` begin with the named
    one, unless inconclusive. `checks` are the conditions of all rules, in order. `doubts` are codes of
    notices on other differences of the sides; each lowered the confidence, and is shown before the cause.
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
    """The whole result of ``profkit diff`` before layout; `calls` and `stacks` only where requested.

    `slowdown` is the candidate's wall over the baseline's (self time where a wall is unknown).
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
