"""Confidence from counts: how often each rule was right at each strength, learnt on some programs, judged on another.

The table that `fit` returns is plain data: for each rule, rising strengths with the confidence from there on. Rules
whose findings carry no strength get one figure each. Only verdicts that nothing lowers are learnt from: what the rule
doubts, other causes beside it and other differences lower the share later. `held_out` gives every program's verdicts
the confidences that users would have seen, learnt without that program. Thresholds of rules are not learnt here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.verdict.judge import Judgement
from profkit.verdict.calibration import ALONE, arm_of, confidence

#: Rule to steps ``(strength from which it holds, confidence)``, strengths rising.
Table = dict[str, tuple[tuple[float, float], ...]]

#: Verdicts that a step stands on at least; fewer are joined with their neighbour.
LEAST = 15
#: Verdicts of a rule that its share stands on at least: of fewer there is no share, and no confidence is shown.
FEWEST = 5
#: Added to the rights and to all when a share becomes a confidence (Laplace's rule of succession): what was always
#: right in 15 cases is not certain.
PRIOR_RIGHT, PRIOR_ALL = 1.0, 2.0


def fit(judged: Iterable[Judgement]) -> Table:
    """Return each rule's confidence by strength: shares of right verdicts, pooled until they rise with strength.

    Pool-adjacent-violators (Ayer et al. 1955), on groups of at least `LEAST` verdicts.
    """
    by_rule: dict[str, list[Judgement]] = defaultdict(list)
    for j in judged:
        if j.cause != "inconclusive" and j.rule and j.doubt is None and j.left == 1.0:
            by_rule[j.rule].append(j)
    return {rule: _steps(found) for rule, found in sorted(by_rule.items()) if len(found) >= FEWEST}


def tables(judged: Iterable[Judgement]) -> dict[str, Table]:
    """Return what is learnt of each arm, by the keys of `profkit.verdict.calibration.STEPS`."""
    return {arm: fit(of) for arm, of in sorted(_by_arm(judged).items())}


def _by_arm(judged: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    groups: dict[str, list[Judgement]] = defaultdict(list)
    for j in judged:
        arm = ALONE if j.arm == ALONE else arm_of(counters=j.arm == "counters", several=j.runs > 1)
        groups[arm].append(j)
    return groups


def _steps(judged: Sequence[Judgement]) -> tuple[tuple[float, float], ...]:
    known = sorted((j for j in judged if math.isfinite(j.strength)), key=lambda j: j.strength)
    if len(known) < len(judged):
        return ((-math.inf, _confidence(sum(j.outcome == "right" for j in judged), len(judged))),)
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
    return ((-math.inf, steps[0][1]), *steps[1:])


def _join(groups: list[list[float]], i: int) -> None:
    _, right, count = groups.pop(i + 1)
    groups[i][1] += right
    groups[i][2] += count


def _confidence(right: float, count: float) -> float:
    return (right + PRIOR_RIGHT) / (count + PRIOR_ALL)


def held_out(judged: Sequence[Judgement]) -> list[Judgement]:
    """Return the verdicts with the confidences that users would see, had it been learnt on all other programs."""
    result = []
    for group in _by_arm(judged).values():
        for workload in sorted({j.workload for j in group}):
            table = fit(j for j in group if workload not in j.programs)
            for j in group:
                if j.workload == workload:
                    sure, shown = confidence(j.rule, j.stated, j.doubt, j.strength, table, j.left)
                    result.append(replace(j, confidence=sure if shown else math.nan))
    return result
