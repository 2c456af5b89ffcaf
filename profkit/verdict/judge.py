"""From facts to a verdict: the rules in their order, all findings, and the one that explains most.

Last step of the comparison. Causes can hold together (a regression under contention): every rule is asked,
and the verdict is the finding that explains the greatest part of the lost time. Where no rule holds the
answer is ``inconclusive``, with what would settle it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from profkit.measure import noise
from profkit.verdict.advice import capture_both, more_runs
from profkit.verdict.calibration import calibrated
from profkit.measure.signals import Facts
from profkit.verdict.rules_common import ANOTHER_PROGRAM, DRIFT, total_evidence, worst_mover
from profkit.verdict.rules_counters import blocked, contention, throttling
from profkit.verdict.rules_rankings import code_change, identical, starved, workload_change
from profkit.verdict.rules_speed import faster, longer_calls, unchanged
from profkit.verdict.types import Evidence, Finding, Verdict
from profkit.identity.readable import readable_name
from profkit.verdict.wording import number, percent, times

__all__ = ["RULES", "diagnose"]

Rule = Callable[[Facts], "Finding | None"]

#: In order of decision: what is asked first wins where two explain equally much.
RULES: tuple[Rule, ...] = (
    identical,
    workload_change,
    throttling,
    contention,
    blocked,
    code_change,
    starved,
    longer_calls,
    faster,
    unchanged,
)
#: Two findings whose parts of the lost time differ by less are settled by the order of `RULES`.
ABOUT_EQUAL = 0.15
#: Below this confidence a finding is shown but the verdict says that it is not enough.
TOO_LITTLE = 0.5
#: What two causes at once leave of the confidence in either.
TOGETHER = 0.9


def diagnose(facts: Facts) -> Verdict:
    """Say what makes the candidate differ.

    Parameters
    ----------
    facts
        All that is known.

    Returns
    -------
    Verdict
        ``inconclusive`` with what would settle it where no rule holds.
    """
    findings = tuple(_calibrated(finding, facts) for rule in RULES if (finding := rule(facts)) is not None)
    if findings and findings[0].rule == "identical":
        findings = findings[:1]
    sure = [f for f in findings if f.confidence >= TOO_LITTLE]
    if not sure:
        return _inconclusive(facts, findings)
    causes = [f for f in sure if f.cause not in ("no-change", "faster")] or sure
    best = causes[0]
    for finding in causes[1:]:
        known = not math.isnan(finding.severity) and not math.isnan(best.severity)
        # What explains much but is hardly believed explains little.
        if known and _weight(finding) > _weight(best) + ABOUT_EQUAL:
            best = finding
    confidence = best.confidence
    if len({f.cause for f in causes}) > 1:
        confidence *= TOGETHER
    ordered = (best, *(f for f in findings if f is not best))
    return Verdict(
        cause=best.cause,
        confidence=confidence,
        summary=best.summary,
        kind=best.kind,
        evidence=best.evidence,
        advice=best.advice,
        findings=ordered,
    )


def _calibrated(finding: Finding, facts: Facts) -> Finding:
    confidence = calibrated(
        finding.rule,
        finding.confidence,
        finding.strength,
        counters=facts.counters,
        several=facts.repeats >= noise.MIN_RUNS_NOISE,
    )
    # What a rule says stays said: its threshold decides that, and the confidence tells how much it is worth.
    return replace(finding, confidence=max(confidence, min(finding.confidence, TOO_LITTLE)))


def _weight(finding: Finding) -> float:
    return finding.severity * finding.confidence


def _inconclusive(facts: Facts, findings: tuple[Finding, ...]) -> Verdict:
    """Nothing decides: what is known, and what would."""
    slow = facts.log_slowdown
    mover = worst_mover(facts)
    if facts.reordered:
        what = "The order of functions moved beyond noise"
    elif facts.moved:
        what = "Time moved between functions beyond noise"
    elif mover >= 0:
        what = f"{readable_name(facts.table.name[mover])} moved beyond the noise"
    elif slow > DRIFT:
        what = f"Everything takes about the same factor more ({times(math.exp(slow))})"
    else:
        what = "Little moved"
    if facts.unmatched > ANOTHER_PROGRAM:
        what = "The sides are hardly the same program"
        why = f"{percent(facts.unmatched)} or more of either's time is in functions that the other does not have"
    elif facts.counters:
        why = "the candidate did not wait for CPUs, and neither calls nor sources say why"
    else:
        why = "without the kernel's counters contention, another machine and a larger input look alike"
    evidence = (
        total_evidence(facts),
        Evidence(
            "distance of the rankings",
            number(0.0),
            number(facts.rbo),
            f"noise reaches {number(facts.rbo_floor)}",
        ),
        Evidence(
            "time that sits in other functions",
            percent(0.0),
            percent(facts.total_variation),
            f"noise reaches {percent(noise.TV_P99)}",
        ),
    )
    joint = ":" if facts.unmatched > ANOTHER_PROGRAM else ", but"
    return replace(
        Verdict("inconclusive", 0.5, f"{what}{joint} {why}."),
        evidence=evidence,
        advice=capture_both(facts) + more_runs(facts),
        findings=findings,
    )
