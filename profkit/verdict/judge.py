"""From a case to a verdict: every rule is evaluated, and the finding that explains most of the lost time is named.

Causes can hold together (a regression under contention): all that hold are findings, and the verdict is the one
with the largest bucket. Two programs, and runs of which one did not finish, are not judged as if they had done
the same. Where no rule holds the answer is ``inconclusive``, with what would settle it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from profkit.identity.readable import readable_name
from profkit.measure import noise
from profkit.measure.comparability import CPU_MODEL, HOST, PYTHON
from profkit.measure.movement import is_wait
from profkit.verdict.advice import advise
from profkit.verdict.calibration import calibrated
from profkit.verdict.evidence import produce
from profkit.verdict.readings import READINGS, Case, worst_mover
from profkit.verdict.rule import Reading, Rule, doubted, evaluate
from profkit.verdict.rules import RULES, RULES_OF_ESTIMATES
from profkit.verdict.rules.code_change import ONE_FUNCTION
from profkit.verdict.rules.undecided import CALLS_UNKNOWN, CAPTURE_ITSELF
from profkit.verdict.thresholds import value
from profkit.verdict.types import NO_HARM, Advice, Checked, Evidence, Finding, Value, Verdict

__all__ = ["best_of", "judge", "lone_function", "rules_held"]

#: Two findings whose parts of the lost time differ by less are settled by the order of the rules.
ABOUT_EQUAL = 0.15
#: Below this confidence a finding is shown, but not named by the verdict.
TOO_LITTLE = 0.5
#: What two causes at once leave of the confidence in either.
TOGETHER = 0.9
#: What two targets that failed alike leave of it: how far they came is not known.
FAILED = 0.8

C = TypeVar("C")


def judge(case: Case) -> Verdict:
    """Say what makes the candidate differ.

    Parameters
    ----------
    case
        All that is known.

    Returns
    -------
    Verdict
        ``inconclusive`` with what would settle it where no rule holds.
    """
    estimated = not case.signals.exact or case.read("account.capture") is not None
    held, checks = rules_held((*RULES, *(RULES_OF_ESTIMATES if estimated else ())), case.read, READINGS)
    findings = tuple(_finding(rule, case) for rule in held if rule.cause != "inconclusive")
    undecided = {rule.id: _finding(rule, case) for rule in held if rule.cause == "inconclusive"}
    if held and held[0].id == "identical":
        return _named(findings[0], findings[:1], checks, {})
    if case.read("pair.unfinished"):
        return _inconclusive(case, "unfinished", findings, checks)
    residue = case.read("pair.residue")
    if case.signals.another_program or (isinstance(residue, float) and residue > value("programs.residue")):
        return _inconclusive(case, "another-program", (), checks)
    if case.signals.table.by_share:
        return _inconclusive(case, "sampled", (), checks)
    best = best_of(findings)
    reason = undecided.get(CAPTURE_ITSELF.id)
    if reason is not None and best is not None and best.cause == "no-change":
        evidence = (*best.evidence, *(one for one in reason.evidence if one not in best.evidence))
        best = replace(best, numbers={**best.numbers, **reason.numbers}, evidence=evidence)
    elif reason is None and best is None:
        reason = undecided.get(CALLS_UNKNOWN.id)
    if reason is not None and (best is None or best.cause != "no-change"):
        return _named(reason, (reason, *findings), checks, {})
    if best is None:
        return _inconclusive(case, "nothing-decides", findings, checks)
    return _named(best, findings, checks, _doubts(case, best.cause))


def _doubts(case: Case, cause: str) -> dict[str, float]:
    """Codes of what else differs between the sides, each with what it leaves of the confidence."""
    a, b = case.signals.baseline, case.signals.candidate
    doubts = {}
    if any(case.signals.exits):
        doubts["both-failed"] = FAILED
    if case.signals.python_differs:
        doubts["python-differs"] = PYTHON
    if a.cpu_model and b.cpu_model and a.cpu_model != b.cpu_model:
        # What it does to a program is this cause itself.
        doubts["cpu-model-differs"] = 1.0 if cause == "slower-machine" else CPU_MODEL
    elif a.host and b.host and a.host != b.host:
        doubts["host-differs"] = HOST
    return doubts


def rules_held(
    rules: Sequence[Rule], read: Callable[[str], Value], readings: Mapping[str, Reading]
) -> tuple[tuple[Rule, ...], tuple[Checked, ...]]:
    """Evaluate rules in their order; each may yield to those that were found to hold before it."""
    held: dict[str, Rule] = {}
    checks: list[Checked] = []
    for rule in rules:
        holds, found = evaluate(rule, read, readings, frozenset(held))
        checks += found
        if holds:
            held[rule.id] = rule
    return tuple(held.values()), tuple(checks)


def best_of(findings: Sequence[Finding]) -> Finding | None:
    """The finding that explains most; ``None`` where none has enough confidence."""
    sure = [f for f in findings if f.confidence >= TOO_LITTLE]
    causes = [f for f in sure if f.cause not in NO_HARM] or sure
    if not causes:
        return None
    best = causes[0]
    for finding in causes[1:]:
        known = not math.isnan(finding.severity) and not math.isnan(best.severity)
        # A large part of the loss with little confidence counts for little.
        if known and finding.severity * finding.confidence > best.severity * best.confidence + ABOUT_EQUAL:
            best = finding
    return best


def lone_function(case: Case) -> int:
    """Row of the function that alone got slower, where sources are not known; −1 without one.

    The account books its cost as code; it is needed before there is an account.
    """
    own = replace(ONE_FUNCTION, unless=())
    holds, _ = evaluate(own, case.read, READINGS, frozenset())
    return case.signals.movement.top_row if holds else -1


def _finding(rule: Rule, case: Case) -> Finding:
    assert case.account is not None
    seconds = case.account.seconds(rule.bucket) if rule.bucket else math.nan
    # Off the CPU is one loss, whatever was waited for.
    if rule.bucket in ("blocked", "loading"):
        seconds = sum(map(case.account.seconds, ("blocked", "loading", "imbalance")))
    strength = case.read(rule.strength) if rule.strength else None
    known_strength = float(strength) if isinstance(strength, (int, float)) else math.nan
    doubt = doubted(rule, case.read, READINGS)
    confidence, measured = calibrated(
        rule.id,
        rule.confidence if doubt is None else doubt,
        known_strength,
        counters=case.signals.counters,
        several=case.signals.repeats >= noise.MIN_RUNS_NOISE,
    )
    kind = case.read(rule.kind) if rule.kind else None
    subject = case.read(rule.subject) if rule.subject else None
    return Finding(
        rule=rule.id,
        cause=rule.cause,
        # The thresholds of a rule decide whether it holds; the confidence only says how reliable that is.
        confidence=max(confidence, min(rule.confidence if doubt is None else doubt, TOO_LITTLE)),
        calibrated=measured,
        severity=_severity(case, seconds) if rule.bucket else math.nan,
        bucket=rule.bucket,
        seconds=seconds,
        evidence=produce(rule.evidence, case),
        advice=advise(rule.advice, case, rule.bucket, seconds),
        kind=str(kind) if kind is not None else None,
        strength=known_strength,
        subject=str(subject) if subject else "",
        numbers={name: case.read(name) for name in rule.numbers},
    )


def _severity(case: Case, seconds: float) -> float:
    """Part of the lost time that a bucket holds: of what the program lost, or of itself if that is less."""
    assert case.account is not None
    added = case.account.program_s
    if math.isnan(seconds) or not added:
        return math.nan
    if seconds * added < 0:
        return 0.0
    return min(1.0, abs(seconds) / max(abs(added), abs(seconds)))


def _named(
    best: Finding, findings: Sequence[Finding], checks: tuple[Checked, ...], doubts: Mapping[str, float]
) -> Verdict:
    confidence: float | None = best.confidence if best.calibrated else None
    harmful = {f.cause for f in findings if f.confidence >= TOO_LITTLE and f.cause not in NO_HARM}
    if confidence is not None and len(harmful) > 1:
        confidence *= TOGETHER
    if confidence is not None:
        confidence *= math.prod(doubts.values())
    return Verdict(
        cause=best.cause,
        rule=best.rule,
        confidence=confidence,
        kind=best.kind,
        subject=best.subject,
        evidence=best.evidence,
        advice=best.advice,
        numbers=best.numbers,
        findings=(best, *(f for f in findings if f is not best)),
        checks=checks,
        doubts=tuple(doubts),
    )


def _inconclusive(
    case: Case, reason: str, findings: tuple[Finding, ...], checks: tuple[Checked, ...]
) -> Verdict:
    """Nothing decides: what is known, and what would."""
    s = case.signals
    mover = worst_mover(s)
    waited, helpers = case.read("main.wait"), case.read("helpers.wait")
    own = waited if isinstance(waited, float) else 0.0
    most = max(own, helpers if isinstance(helpers, float) else 0.0)
    numbers: dict[str, Value] = {
        "counters": s.counters,
        "reordered": s.reordered,
        "shifted": s.moved,
        "factor": math.exp(s.log_slowdown),
        "drifted": s.log_slowdown > math.log(value("time.drift")),
        "lost": s.lost_throughout,
        "residue": s.unmatched,
        "baseline-exit": s.exits[0],
        "candidate-exit": s.exits[1],
        "queued": most >= value("wait.much"),
        "helpers": most > own and own < value("wait.much"),
        "helpers.wait": helpers,
        "helpers.wait-before": case.read("helpers.wait-before"),
        "main.wait": waited,
        "main.wait-before": case.read("main.wait-before"),
    }
    shown = ("distance", "elsewhere") if reason == "sampled" else ("wall", "distance", "elsewhere")
    evidence: tuple[Evidence, ...] = produce(shown, case)
    advice: tuple[Advice, ...] = ()
    if reason == "nothing-decides":
        advice = advise(("same-settings", "capture-both", "more-runs"), case, "", math.nan)
    if reason == "unfinished":
        advice = advise(("run-to-end",), case, "", math.nan)
    named = mover >= 0 and not is_wait(s.table.name[mover], s.table.keys[mover].root)
    return Verdict(
        cause="inconclusive",
        rule=reason,
        subject=readable_name(s.table.name[mover]) if named else "",
        evidence=evidence,
        advice=advice,
        numbers=numbers,
        findings=findings,
        checks=checks,
    )
