"""Decide whether a candidate is slower than its baseline by a given factor, from alternating runs.

Pairs alternate between A B and B A. Times exclude queueing for CPUs (`pytest_profkit.stopwatch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_profkit.sequential import Decision, decide
from pytest_profkit.stopwatch import Reading

BASELINE, CANDIDATE = "baseline", "candidate"
#: Greatest difference, in CPUs, of what other programs used during the two runs of a pair. On a two-CPU
#: machine with changing neighbours, one pair in thirteen exceeds it, and its times scatter nearly twice as much.
UNLIKE_CORES = 0.3
#: Part of the wall that helping threads may queue: they are waited for, and that time cannot be subtracted.
HELPERS_QUEUED = 0.1
#: Most pairs that are repeated; later ones count as they are.
MOST_REPEATED = 10
#: A later call below this part (1) of the first one found the work already done.
FOUND_DONE = 0.6


@dataclass(frozen=True, slots=True)
class Gated:
    """The decision, the count of repeated pairs, and why the candidate is slower, where that was looked for."""

    decision: Decision
    repeated: int
    cause: str = ""
    summary: str = ""


def seconds_of(calls: Sequence[Reading]) -> float:
    """Return the shortest call's seconds without queueing, or the first's if later ones reuse its work."""
    first = calls[0].own_s
    least = min(call.own_s for call in calls)
    return max(first if least < FOUND_DONE * first else least, 1e-9)


def contaminated(baseline: Sequence[Reading], candidate: Sequence[Reading]) -> bool:
    """Return whether other programs' load differed between two runs, or made helping threads queue.

    Ignores the times, so that a repetition does not depend on which side is slower.
    """
    sides = (baseline, candidate)
    others = [sum(call.others_cores or 0.0 for call in calls) / len(calls) for calls in sides]
    helpers = max(
        sum(call.helpers_queue_s or 0.0 for call in calls) / max(sum(call.wall_s for call in calls), 1e-9)
        for calls in sides
    )
    return abs(others[0] - others[1]) > UNLIKE_CORES or helpers > HELPERS_QUEUED


def gate(run: Callable[[str, int], Sequence[Reading]], least: float) -> Gated:
    """Run both sides in turn until there is a decision; `least` is the slow-down to detect, 0.05 for 5 %.

    `run(side, pair_number)` runs `BASELINE` or `CANDIDATE` once and returns its calls.
    """
    ratios: list[float] = []
    repeated = number = 0
    while True:
        sides = (BASELINE, CANDIDATE) if number % 2 == 0 else (CANDIDATE, BASELINE)
        taken = {side: run(side, number) for side in sides}
        number += 1
        if repeated < MOST_REPEATED and contaminated(taken[BASELINE], taken[CANDIDATE]):
            repeated += 1
            continue
        ratios.append(math.log(seconds_of(taken[CANDIDATE]) / seconds_of(taken[BASELINE])))
        decision = decide(ratios, least)
        if decision.outcome:
            return Gated(decision, repeated)
