"""A gate: is a candidate slower than its baseline by so much, decided from runs of both in turn.

Runs come in pairs, in turns of A B and B A, so that whatever the machine does, it does to both. What is compared is
the wall without queueing for CPUs (`capture.stopwatch`): other programs that take CPUs do not count. A pair whose
runs had neighbours that were not alike is repeated. `measure.sequential` says when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profkit.capture.stopwatch import Reading
from profkit.measure.sequential import Decision, decide

BASELINE, CANDIDATE = "baseline", "candidate"
#: CPUs by which what others took may differ between the runs of a pair. On a machine with two CPUs and neighbours
#: that come and go, one pair in thirteen differs by more, and the times of these scatter nearly twice as much.
UNLIKE_CORES = 0.3
#: Part of the wall for which helping threads may queue: they are waited for, and that time cannot be taken off.
HELPERS_QUEUED = 0.1
#: Pairs that are repeated before they count as they are.
MOST_REPEATED = 10
#: A later call that takes less than this part (1) of the first did not do its work again: it found it done.
FOUND_DONE = 0.6


@dataclass(frozen=True, slots=True)
class Gated:
    """What a gate found.

    Attributes
    ----------
    decision
        Of the pairs that count.
    log_ratios
        ln(candidate's time / baseline's) of each.
    repeated
        Pairs that did not count, since the neighbours of their runs were not alike.
    """

    decision: Decision
    log_ratios: tuple[float, ...]
    repeated: int


def seconds_of(calls: Sequence[Reading]) -> float:
    """Return what one run took: the least of its calls, without queueing for CPUs.

    Whatever disturbs a call makes it longer, so that the least is the least disturbed. Where later calls find the
    work done, as from a cache, the first call counts.
    """
    first = calls[0].own_s
    least = min(call.own_s for call in calls)
    return max(first if least < FOUND_DONE * first else least, 1e-9)


def contaminated(baseline: Sequence[Reading], candidate: Sequence[Reading]) -> bool:
    """Whether the neighbours of two runs were not alike, or took CPUs from helping threads.

    The times are not looked at: what is repeated does not depend on which side is slower.
    """
    sides = (baseline, candidate)
    others = [sum(call.others_cores or 0.0 for call in calls) / len(calls) for calls in sides]
    helpers = max(
        sum(call.helpers_queue_s or 0.0 for call in calls) / max(sum(call.wall_s for call in calls), 1e-9)
        for calls in sides
    )
    return abs(others[0] - others[1]) > UNLIKE_CORES or helpers > HELPERS_QUEUED


def gate(run: Callable[[str, int], Sequence[Reading]], least: float) -> Gated:
    """Run both sides in turn until it is decided.

    Parameters
    ----------
    run
        Runs a side (`BASELINE` or `CANDIDATE`) once, in the pair of a number, and returns its calls.
    least
        The slow-down (1) that is to be found: 0.05 for 5 %.
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
            return Gated(decision, tuple(ratios), repeated)
