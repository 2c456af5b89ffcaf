"""From signals to a case and a verdict: evaluate every rule, and name what explains most of the lost time.

Different programs and unfinished runs are not judged; without a rule that holds it is ``inconclusive``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from profkit.compare.result_types import DiffTable
from profkit.compare.signals import Signals
from profkit.identity.readable_names import is_anonymous
from profkit.model import PROJECT
from profkit.verdict.account import Account
from profkit.verdict.advice.producers import advise
from profkit.verdict.booking import account
from profkit.verdict.calibration import STEPS, Steps, arm_of, confidence
from profkit.verdict.evidence import produce
from profkit.verdict.machine_differences import models_differ
from profkit.verdict.readings import READINGS
from profkit.verdict.readings.cpu_queueing import spinning
from profkit.verdict.readings.function_times import periodic, worst_mover
from profkit.verdict.rule import Case, Judged, Rule, compared, doubted, evaluate
from profkit.verdict.rules import RULES, RULES_OF_ESTIMATES, gpu_waits
from profkit.verdict.rules.code_change import ONE_FUNCTION
from profkit.verdict.rules.undecided import CALLS_UNKNOWN, CAPTURE_ITSELF
from profkit.verdict.thresholds import value
from profkit.verdict.types import COUNTED, NO_HARM, Advice, Checked, Finding, Value, Verdict


def judge(case: Case) -> Verdict:
    """Return what makes the candidate differ, or ``inconclusive`` with what would settle it."""
    known = (case.read("account.capture"), case.read("account.gpu"))
    estimated = not case.signals.exact or known != (None, None)
    held, checks = rules_held((*RULES, *(RULES_OF_ESTIMATES if estimated else ())), case)
    findings = tuple(_finding(rule, case) for rule in held if rule.cause != "inconclusive")
    undecided = {rule.id: _finding(rule, case) for rule in held if rule.cause == "inconclusive"}
    if held and held[0].id == "identical":
        return _named(case, findings[0], findings[:1], checks)
    if case.read("pair.unfinished"):
        return _inconclusive(case, "unfinished", findings, checks)
    if _another_program(case.signals.table) or case.number("pair.residue") > value("programs.residue"):
        return _inconclusive(case, "another-program", (), checks)
    if case.signals.table.by_share:
        return _inconclusive(case, "sampled", (), checks)
    best = best_of(findings)
    reason = undecided.get(CAPTURE_ITSELF.id)
    if case.signals.exact and best is not None and best.cause in COUNTED:
        reason = None
    if reason is not None and best is not None and best.cause == "no-change":
        evidence = (*best.evidence, *(one for one in reason.evidence if one not in best.evidence))
        best = replace(best, numbers={**best.numbers, **reason.numbers}, evidence=evidence)
    elif reason is None and best is None:
        reason = undecided.get(gpu_waits.UNDECIDED.id) or undecided.get(CALLS_UNKNOWN.id)
    if reason is not None and (best is None or best.cause != "no-change"):
        return _named(case, reason, (reason, *findings), checks)
    if best is None:
        return _inconclusive(case, "nothing-decides", findings, checks)
    return _named(case, best, findings, checks, tuple(_doubts(case, best.cause)))


def _doubts(case: Case, cause: str) -> dict[str, float]:
    """Return codes of other differences of the sides, with the part of the confidence that each leaves."""
    a, b = case.before, case.now
    doubts = {}
    if any(case.signals.exits):
        doubts["both-failed"] = value("confidence.both-failed")
    if case.signals.python_differs:
        doubts["python-differs"] = value("confidence.python-differs")
    if models_differ(a, b):
        # For this cause, the other CPU is the explanation.
        doubts["cpu-model-differs"] = 1.0 if cause == "slower-machine" else value("confidence.cpu-differs")
    elif a.host and b.host and a.host != b.host:
        doubts["host-differs"] = value("confidence.host-differs")
    return doubts


def rules_held(rules: Sequence[Rule], case: Judged) -> tuple[tuple[Rule, ...], tuple[Checked, ...]]:
    """Return the rules that hold, evaluated in order: each may yield to earlier ones that hold."""
    held: dict[str, Rule] = {}
    checks: list[Checked] = []
    for rule in rules:
        holds, found = evaluate(rule, case, frozenset(held))
        checks += found
        if holds:
            held[rule.id] = rule
    return tuple(held.values()), (*checks, *compared(case))


def best_of(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that explains most; ``None`` where none has enough confidence."""
    sure = [f for f in findings if _trusted(f)]
    causes = [f for f in sure if f.cause not in NO_HARM] or sure
    if not causes:
        return None
    best = causes[0]
    for finding in causes[1:]:
        known = not math.isnan(finding.severity) and not math.isnan(best.severity)
        # A large part of the loss with little confidence counts for little.
        if known and _weight(finding) - _weight(best) > value("findings.about-equal"):
            best = finding
    return best


def _trusted(finding: Finding) -> bool:
    """Return whether its rule states enough to be named; the measured confidence does not count."""
    stated = finding.stated if finding.doubt is None else finding.doubt
    return stated >= value("confidence.named")


def _weight(finding: Finding) -> float:
    return finding.severity * finding.confidence


def case_of(signals: Signals) -> Case:
    """Return the case of a comparison: its signals, and the account made from them."""
    # Some readings need no account.
    known = Case(signals.baseline, signals.candidate, Account(0.0, 0.0, ()), READINGS, signals)
    lone, _ = evaluate(replace(ONE_FUNCTION, unless=()), known, frozenset())
    row = signals.movement.top_row if lone else -1
    return replace(known, account=account(signals, unknown_code=row, spun_s=spinning(known)))


def _another_program(table: DiffTable) -> bool:
    """Return whether the sides share hardly any function of their projects, by number and by time.

    Module bodies and comprehensions do not count. Where most functions are missing, one of equal name and
    different source (many a ``main``) counts as missing too.
    """
    project = table.in_roots(PROJECT)
    project[[row for row in np.flatnonzero(project).tolist() if is_anonymous(table.name[row])]] = False
    other_source = table.differs
    if not project.any():
        return False
    alone = table.one_sided
    for side, other in ((table.baseline, table.candidate), (table.candidate, table.baseline)):
        rows = project & side.present
        if not rows.any():
            return False
        lacking = rows & ~other.present
        if not (lacking & alone).any():
            return False  # samples may have missed them all
        if lacking.sum() > value("programs.residue") * rows.sum():
            lacking |= rows & other_source
        time = float(side.cumtime[rows].sum())
        by_time = float(side.cumtime[lacking].sum()) / time if time > 0 else 1.0
        if min(lacking.sum() / rows.sum(), by_time) < value("programs.another"):
            return False
    return True


def _lone_of_library(case: Case) -> bool:
    return (
        case.read("function.of-project") is False
        and case.number("function.part") >= value("one-function.part")
        and case.number("function.apart") >= value("one-function.apart")
    )


def _finding(rule: Rule, case: Case) -> Finding:
    seconds = case.account.seconds(rule.bucket) if rule.bucket else math.nan
    # All time off the CPU is one loss, whatever it waited for.
    if rule.bucket in ("blocked", "loading"):
        seconds = sum(map(case.account.seconds, ("blocked", "loading", "imbalance")))
    if rule.part:
        seconds = max(0.0, case.number(rule.part)) * case.account.program_s
    severity = _severity(case, seconds) if rule.bucket else math.nan
    return finding_of(rule, case, _steps(case), seconds, severity)


def finding_of(rule: Rule, case: Judged, steps: Steps, seconds: float, severity: float) -> Finding:
    """Return the finding of a rule that holds; `seconds` and `severity` are of its bucket."""
    strength = case.read(rule.strength) if rule.strength else None
    known_strength = float(strength) if isinstance(strength, (int, float)) else math.nan
    doubt = doubted(rule, case)
    sure, measured = confidence(rule.id, rule.confidence, doubt, known_strength, steps)
    kind = case.read(rule.kind) if rule.kind else None
    subject = case.read(rule.subject) if rule.subject else None
    return Finding(
        rule=rule.id,
        cause=rule.cause,
        confidence=sure,
        calibrated=measured,
        severity=severity,
        bucket=rule.bucket,
        seconds=seconds,
        evidence=produce(rule.evidence, case),
        advice=advise(rule.advice, case, rule.bucket, seconds),
        kind=str(kind) if kind is not None else None,
        strength=known_strength,
        subject=str(subject) if subject else "",
        numbers={name: case.read(name) for name in rule.numbers},
        stated=rule.confidence,
        doubt=doubt,
    )


def _steps(case: Case) -> Steps:
    several = case.signals.repeats >= value("repeats.least")
    return STEPS.get(arm_of(counters=case.signals.counters, several=several), {})


def _lowered(case: Case, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with the confidence that other findings and differences of the sides leave."""
    harmful = {f.cause for f in findings if _trusted(f) and f.cause not in NO_HARM}
    result = []
    for f in findings:
        left = math.prod(_doubts(case, f.cause).values())
        if len(harmful) > 1 and f.cause in harmful:
            left *= value("confidence.together")
        sure, _ = confidence(f.rule, f.stated, f.doubt, f.strength, _steps(case), left)
        result.append(replace(f, confidence=sure, left=left))
    return tuple(result)


def _severity(case: Case, seconds: float) -> float:
    """Return the part of the lost time that a bucket holds, 0 to 1; NaN where nothing was lost."""
    added = case.account.program_s
    if math.isnan(seconds) or not added:
        return math.nan
    if seconds * added < 0:
        return 0.0
    return min(1.0, abs(seconds) / max(abs(added), abs(seconds)))


def _named(
    case: Case,
    best: Finding,
    findings: Sequence[Finding],
    checks: tuple[Checked, ...],
    doubts: Sequence[str] = (),
) -> Verdict:
    said = _lowered(case, [best, *(f for f in findings if f.rule != best.rule)])
    return verdict_of(said, checks, tuple(doubts))


def verdict_of(
    findings: tuple[Finding, ...], checks: tuple[Checked, ...], doubts: tuple[str, ...] = ()
) -> Verdict:
    """Return the verdict that names the first of some findings."""
    best = findings[0]
    return Verdict(
        cause=best.cause,
        rule=best.rule,
        confidence=best.confidence if best.calibrated else None,
        kind=best.kind,
        subject=best.subject,
        evidence=best.evidence,
        advice=best.advice,
        numbers=best.numbers,
        findings=findings,
        checks=checks,
        doubts=doubts,
    )


def _inconclusive(
    case: Case, reason: str, findings: tuple[Finding, ...], checks: tuple[Checked, ...]
) -> Verdict:
    """Return what is known where nothing decides, and what would settle it."""
    s = case.signals
    own = s.candidate.wait_fraction or 0.0
    most = max(own, s.candidate.rest_wait_fraction or 0.0)
    numbers: dict[str, Value] = {
        "counters": s.counters,
        "reordered": s.ranking.reordered,
        "shifted": s.moved,
        "factor": math.exp(s.log_slowdown),
        "drifted": s.log_slowdown > math.log(value("time.drift")),
        "lost": s.lost_throughout,
        "residue": s.unmatched,
        "baseline-exit": s.exits[0],
        "candidate-exit": s.exits[1],
        "queued": most >= value("wait.much"),
        "helpers": most > own and own < value("wait.much"),
    }
    shown = ["helpers.wait", "helpers.wait-before", "main.wait", "main.wait-before"]
    if not s.counters and s.log_slowdown > math.log(value("time.slower")):
        if periodic(case):
            shown += ("lumps.periodic", "lumps.median", "lumps.count")
        if case.number("uncalled.part") >= value("part.most"):
            shown += ("uncalled.function", "uncalled.part")
        if case.number("account.work") >= value("part.most") and case.read("account.work-beyond"):
            shown += ("account.work", "work.most")
        if case.number("account.waits") >= value("part.most"):
            shown += ("account.waits", "waited.function")
        if _lone_of_library(case):
            shown += ("function.subject", "function.part", "function.apart")
    numbers |= {name: case.read(name) for name in shown}
    shares = ("distance", "elsewhere")
    advice: tuple[Advice, ...] = ()
    if reason == "nothing-decides":
        advice = advise(("same-settings", "capture-both", "more-runs"), case, "", math.nan)
    if reason == "unfinished":
        advice = advise(("run-to-end",), case, "", math.nan)
    return Verdict(
        cause="inconclusive",
        rule=reason,
        subject=s.table.shown(worst_mover(s)),
        evidence=produce(shares if reason == "sampled" else ("wall", *shares), case),
        advice=advice,
        numbers=numbers,
        findings=_lowered(case, findings),
        checks=checks,
    )
