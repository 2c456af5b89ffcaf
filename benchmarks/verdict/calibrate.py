"""Confidence from counts: how often each rule was right at each strength, learnt on some programs, judged on another.

The table that `fit` returns is plain data: for each rule, rising strengths with the confidence from there on. Rules
whose findings carry no strength get one figure each. `held_out` gives every program's verdicts the confidences that
were learnt without that program. The rules' own thresholds are not learnt here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.verdict.judge import Judgement

__all__ = ["Table", "confidence_of", "fit", "held_out"]

#: Rule to steps ``(strength from which it holds, confidence)``, strengths rising.
Table = dict[str, list[tuple[float, float]]]

#: Verdicts that a step stands on at least; fewer are joined with their neighbour.
LEAST = 15
#: Added to the rights and to all when a share becomes a confidence (Laplace's rule of succession): what was always
#: right in 15 cases is not certain.
PRIOR_RIGHT, PRIOR_ALL = 1.0, 2.0


def fit(judged: Iterable[Judgement]) -> Table:
    """Return each rule's confidence by strength: shares of right verdicts, pooled until they rise with strength.

    Pool-adjacent-violators (Ayer et al. 1955), on groups of at least `LEAST` verdicts.
    """
    by_rule: dict[str, list[Judgement]] = defaultdict(list)
    for j in judged:
        if j.cause != "inconclusive" and j.rule:
            by_rule[j.rule].append(j)
    return {rule: _steps(found) for rule, found in sorted(by_rule.items())}


def _steps(judged: Sequence[Judgement]) -> list[tuple[float, float]]:
    known = sorted((j for j in judged if math.isfinite(j.strength)), key=lambda j: j.strength)
    if len(known) < len(judged):
        return [(-math.inf, _confidence(sum(j.outcome == "right" for j in judged), len(judged)))]
    groups: list[list[float]] = []  # [first strength, right, all]
    for i in range(0, len(known), LEAST):
        part = known[i : i + LEAST]
        groups.append([part[0].strength, sum(j.outcome == "right" for j in part), len(part)])
    if len(groups) > 1 and groups[-1][2] < LEAST:
        _join(groups, len(groups) - 2)
    i = 0
    while i < len(groups) - 1:
        if groups[i][1] / groups[i][2] < groups[i + 1][1] / groups[i + 1][2]:
            i += 1
            continue
        _join(groups, i)
        i = max(0, i - 1)
    steps = [(strength, _confidence(right, count)) for strength, right, count in groups]
    # What is weaker than anything seen is believed as little as the weakest.
    return [(-math.inf, steps[0][1]), *steps[1:]]


def _join(groups: list[list[float]], i: int) -> None:
    _, right, count = groups.pop(i + 1)
    groups[i][1] += right
    groups[i][2] += count


def _confidence(right: float, count: float) -> float:
    return (right + PRIOR_RIGHT) / (count + PRIOR_ALL)


def confidence_of(table: Table, rule: str, strength: float) -> float | None:
    """Return what the table says of a finding; ``None`` for a rule that it never saw."""
    steps = table.get(rule)
    if steps is None:
        return None
    at = strength if math.isfinite(strength) else -math.inf
    return [confidence for least, confidence in steps if least <= at][-1]


def held_out(judged: Sequence[Judgement]) -> list[Judgement]:
    """Return the verdicts with confidences that were learnt on all other programs, arm by arm and by runs a side."""
    result = []
    groups: dict[tuple[str, bool], list[Judgement]] = defaultdict(list)
    for j in judged:
        groups[j.arm, j.runs > 1].append(j)
    for group in groups.values():
        for workload in sorted({j.workload for j in group}):
            table = fit(j for j in group if workload not in j.programs)
            for j in group:
                if j.workload == workload:
                    learnt = confidence_of(table, j.rule, j.strength) if j.rule else None
                    result.append(j if learnt is None else replace(j, confidence=learnt))
    return result
