"""Ask `diff` about every pair, with the counters and as two plain profiles, and keep what it said.

Runs in one process and calls the analysis as the command does. What is right is decided in `score`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.verdict.corpus import Sample, foreign_run, full_run
from benchmarks.verdict.pairs import Pair
from profkit.compare.pair import pair_of
from profkit.compare.result_types import DiffTable
from profkit.compare.signals import signals_of
from profkit.compare.starvation_signs import starvation
from profkit.compare.starvation_weights import Weights
from profkit.model import Run, RunSet
from profkit.verdict.account import CAPTURE, Account
from profkit.verdict.judge import case_of
from profkit.verdict.judge import judge as judge_case
from profkit.verdict.readings import READINGS
from profkit.verdict.rule import Case
from profkit.verdict.thresholds import value
from profkit.verdict.types import Verdict

#: What the comparison may see: everything, or what a plain profiler would have written.
ARMS: dict[str, Callable[[Sample], Run]] = {"counters": full_run, "plain": foreign_run}
#: Part of the lost time in one bucket from which the account names the cause: `inconclusive` then contradicts it.
TOLD = 0.8
#: Slow-down from which a loss should be attributed.
NOTICED = 1.15
#: Rows of the table that are written with the facts.
FACT_ROWS = 12


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict beside the truth.

    Attributes
    ----------
    arm
        One of `ARMS`, or ``alone`` for what is said of one run by itself.
    programs
        All programs whose runs are in the pair: more than `workload` where one is compared with another.
    confidence
        As users see it; NaN where none is shown.
    rule, strength, stated, doubt, left
        Of the finding that became the verdict; empty and NaN where there was none or it has none.
    rest
        Part of a loss of `NOTICED` or more that the account does not attribute (polling); NaN without such a loss.
    told
        The bucket of the account that holds `TOLD` of the lost time, and more than its noise; empty without one.
    outcome
        ``right``, ``inconclusive`` or ``wrong``.
    """

    arm: str
    runs: int
    workload: str
    programs: tuple[str, ...]
    condition: str
    form: str
    label: str
    contended: bool
    causes: tuple[str, ...]
    kinds: tuple[str, ...]
    effect: float
    cause: str
    kind: str | None
    confidence: float
    rule: str
    strength: float
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]
    told: str = ""
    rest: float = math.nan
    stated: float = math.nan
    doubt: float | None = None
    left: float = 1.0

    @property
    def outcome(self) -> str:
        """Whether the verdict is right; ``inconclusive`` is neither, unless it is all that could be said."""
        if self.cause in self.causes:
            return "right"
        return "inconclusive" if self.cause == "inconclusive" else "wrong"


def read_judgements(path: Path) -> Iterator[Judgement]:
    """Read what ``report --json`` wrote: a verdict a line, numbers that are not known as null."""
    names = {f.name for f in fields(Judgement)}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = {name: value for name, value in json.loads(line).items() if name in names}
        lists = {name: tuple(found) for name, found in record.items() if isinstance(found, list)}
        measured = ("confidence", "strength", "stated", "rest")
        unknown = {n: math.nan for n in measured if record.get(n, math.nan) is None}
        yield Judgement(**{**record, **lists, **unknown})


def judge(
    pairs: Iterable[Pair],
    arms: Iterable[str] = tuple(ARMS),
    weights: Mapping[str, Weights] | None = None,
    noises: Mapping[str, Mapping[str, float]] | None = None,
) -> Iterator[Judgement]:
    """Compare every pair in every arm, with the weights and the noise of buckets given for its program, if any.

    A plain profiler counts every call: pairs with a run that was sampled are not judged as plain.
    """
    for pair in pairs:
        for arm in arms:
            if arm == "plain" and was_sampled(pair):
                continue
            case, verdict = compared(pair, arm)
            if weights is not None and arm == "plain" and pair.workload in weights:
                starved = starvation(case.signals.signs, weights[pair.workload])
                case = replace(case, signals=replace(case.signals, starved=starved))
            if noises is not None and pair.workload in noises:
                case = replace(case, account=_with_noise(case.account, noises[pair.workload]))
            if weights is not None or noises is not None:
                verdict = judge_case(case)
            yield _judgement(pair, arm, case, verdict)


def was_sampled(pair: Pair) -> bool:
    """Return whether a run of the pair was sampled, so that no plain profile can be made of it."""
    return any(map(_sampled, (*pair.baseline, *pair.candidate)))


@cache
def _sampled(sample: Sample) -> bool:
    return any(tier.kind == "sampled" for process in full_run(sample).processes for tier in process.tiers)


def compared(pair: Pair, arm: str) -> tuple[Case, Verdict]:
    """Run the comparison: what the verdict is made from, and the verdict."""
    case = _case_of(pair, arm)
    return case, judge_case(case)


@cache
def _case_of(pair: Pair, arm: str) -> Case:
    """Case of a pair; learning and judging ask for it twice."""
    sides = {"baseline": pair.baseline, "candidate": pair.candidate}
    runs = (RunSet(label, tuple(map(ARMS[arm], samples))) for label, samples in sides.items())
    return case_of(signals_of(pair_of(*runs)))


def _with_noise(account: Account, noise: Mapping[str, float]) -> Account:
    """The account with another noise of its buckets, as parts of the baseline's wall."""
    if account.basis != "other-programs":
        return account
    buckets = []
    for bucket in account.buckets:
        wider = 0.0
        if bucket.name in noise:
            wider = (noise[bucket.name] - value(f"noise.{bucket.name}")) * account.baseline_s
        buckets.append(replace(bucket, low=bucket.low - wider, high=bucket.high + wider))
    return replace(account, buckets=tuple(buckets))


def _told(case: Case) -> str:
    """The bucket that holds most of a loss that is beyond what clean repeats drift."""
    account, over = case.account, case.read("time.over-drift")
    if not isinstance(over, float) or over < 1 or account.program_s <= 0:
        return ""
    names = [b.name for b in account.buckets if b.low > 0 and b.seconds >= TOLD * account.program_s]
    return names[0] if len(names) == 1 and names[0] not in ("rest", CAPTURE) else ""


def _rest(case: Case) -> float:
    account = case.account
    if not account.candidate_s >= NOTICED * account.baseline_s or not account.program_s > 0:
        return math.nan
    return abs(account.seconds("rest")) / account.program_s


def _judgement(pair: Pair, arm: str, case: Case, verdict: Verdict) -> Judgement:
    first = verdict.findings[0] if verdict.findings and verdict.cause != "inconclusive" else None
    return Judgement(
        arm=arm,
        runs=pair.runs,
        workload=pair.workload,
        programs=tuple(sorted(pair.programs)),
        condition=pair.condition,
        form=pair.form,
        label=pair.truth.label,
        contended=pair.truth.contended,
        causes=tuple(sorted(pair.truth.causes)),
        kinds=tuple(sorted(pair.truth.kinds)),
        effect=round(pair.truth.effect, 4),
        cause=verdict.cause,
        kind=verdict.kind,
        confidence=math.nan if verdict.confidence is None else verdict.confidence,
        rule=first.rule if first else "",
        strength=float(getattr(first, "strength", math.nan)),
        baseline=tuple(s.repeat for s in pair.baseline),
        candidate=tuple(s.repeat for s in pair.candidate),
        told="" if pair.form == "another" else _told(case),
        rest=math.nan if pair.form == "another" else _rest(case),
        stated=first.stated if first else math.nan,
        doubt=first.doubt if first else None,
        left=first.left if first else 1.0,
    )


def fact_lines(pairs: Iterable[Pair], arms: Iterable[str] = tuple(ARMS)) -> Iterator[dict[str, Any]]:
    """Return one record per pair and arm: the truth, every number that the rules see, and the verdict."""
    for pair in pairs:
        for arm in arms:
            case, verdict = compared(pair, arm)
            judged = _judgement(pair, arm, case, verdict)
            record = asdict(judged)
            record["outcome"] = judged.outcome
            record["findings"] = [
                {
                    "rule": f.rule,
                    "cause": f.cause,
                    "kind": f.kind,
                    "confidence": f.confidence,
                    "severity": f.severity,
                }
                for f in verdict.findings
            ]
            record["measured"] = {
                side: asdict(samples[0].measured) if len(samples) == 1 else None
                for side, samples in (("baseline", pair.baseline), ("candidate", pair.candidate))
            }
            record["facts"] = _plain(case.signals)
            record["readings"] = {name: _plain(case.read(name)) for name in READINGS}
            record["account"] = _plain(case.account)
            yield finite(record)


def _plain(value: Any) -> Any:
    """Numbers, texts and nested dataclasses as JSON takes them; of a table, its first rows."""
    if isinstance(value, DiffTable):
        return [_row(value, i) for i in range(min(len(value), FACT_ROWS))]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value[:FACT_ROWS]]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _row(table: DiffTable, i: int) -> dict[str, Any]:
    a, b = table.baseline, table.candidate
    return {
        "name": table.name[i],
        "root": table.keys[i].root,
        "path": table.keys[i].path,
        "match": table.match[i],
        "same_source": table.same_source[i],
        "ncalls": [int(a.ncalls[i]), int(b.ncalls[i])],
        "tottime": [float(a.tottime[i]), float(b.tottime[i])],
        "cumtime": [float(a.cumtime[i]), float(b.cumtime[i])],
        "rank": [int(a.rank[i]), int(b.rank[i])],
        "wait": [None if s.wait is None else float(s.wait[i]) for s in (a, b)],
        "anomalous": bool(table.anomalous[i]),
    }


def finite(value: Any) -> Any:
    """Return the same with ``None`` for numbers that JSON has no name for."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return round(value, 6) if isinstance(value, float) else value
