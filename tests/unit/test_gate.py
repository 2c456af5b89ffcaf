"""The gate: runs in turn, repeated where neighbours were not alike; their stopwatch; and the decision."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from pytest_profkit.gate import BASELINE, CANDIDATE, MOST_REPEATED, Gated, contaminated, gate, seconds_of
from pytest_profkit.sequential import LEAST_PAIRS, MOST_PAIRS, Decision, decide
from pytest_profkit.stopwatch import Reading, Stopwatch


def reading(own: float, *, queue: float = 0.0, others: float = 0.0, helpers: float = 0.0) -> Reading:
    return Reading(own + queue, own, queue, helpers, others)


def gated(
    candidate: float, others: Callable[[str, int], float] = lambda side, number: 0.0
) -> tuple[Gated, list[str]]:
    """Gate a candidate that takes so many times as long; what `others` take makes a run slower by a tenth of it.

    Returns what was found, and the sides in the order of their runs.
    """
    order: list[str] = []

    def run(side: str, number: int) -> Sequence[Reading]:
        order.append(side)
        busy = others(side, number)
        own = (candidate if side == CANDIDATE else 1.0) * (1 + 0.1 * busy) * (1 + 1e-4 * (number % 3))
        return [reading(own, others=busy)]

    return gate(run, 0.05), order


def test_sides_take_turns_and_change_who_begins() -> None:
    found, order = gated(1.1)
    assert (found.decision.outcome, found.repeated) == ("slower", 0)
    assert order[:4] == [BASELINE, CANDIDATE, CANDIDATE, BASELINE]
    assert order.count(BASELINE) == order.count(CANDIDATE) == found.decision.pairs


def test_a_pair_that_only_one_side_shared_with_others_is_repeated_and_not_blamed() -> None:
    found, order = gated(1.0, lambda side, number: 1.0 if side == CANDIDATE and number < 4 else 0.0)
    assert (found.decision.outcome, found.repeated) == ("no-slower", 4)
    assert len(order) == 2 * (found.decision.pairs + 4)


def test_neighbours_that_stay_are_alike_for_both_sides() -> None:
    found, _ = gated(1.06, lambda side, number: 1.5)
    assert (found.decision.outcome, found.repeated) == ("slower", 0)


def test_a_gate_ends_where_no_pair_is_alike() -> None:
    found, _ = gated(1.0, lambda side, number: float(side == BASELINE))
    assert found.repeated == MOST_REPEATED


def test_helping_threads_that_queue_make_a_pair_contaminated() -> None:
    clean, hindered = [reading(1.0)], [reading(1.0, helpers=0.5)]
    assert not contaminated(clean, clean)
    assert contaminated(clean, hindered)
    assert contaminated(hindered, clean)


def test_seconds_are_those_of_the_least_disturbed_call_that_did_its_work() -> None:
    assert seconds_of([reading(1.0, queue=5.0)]) == pytest.approx(1.0)
    assert seconds_of([reading(1.3), reading(1.0), reading(1.1)]) == pytest.approx(1.0)
    assert seconds_of([reading(1.3), reading(0.01), reading(0.01)]) == pytest.approx(1.3)


def test_a_stopwatch_reads_what_its_thread_did() -> None:
    watch = Stopwatch()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    time.sleep(0.05)
    found = watch.stop()
    assert found.cpu_s >= 0.05
    # Asleep is the program's own time, queueing is not.
    assert found.wall_s >= found.own_s >= 0.1 - 0.005
    assert found.own_s == pytest.approx(found.wall_s - found.queue_s)


# The gate's decision: its risks under noise, what it does not depend on, and what it says when noise hides all


def decided(values: np.ndarray, least: float = 0.05) -> Decision:
    """Take pairs until it is decided."""
    for n in range(1, len(values) + 1):
        found = decide(values[:n].tolist(), least)
        if found.outcome:
            return found
    raise AssertionError("the last look decides")


def outcomes(slowdown: float, spread: float, trials: int, tails: float = 0.0) -> Counter[str]:
    random = np.random.default_rng(11)
    noise = spread * random.standard_normal((trials, MOST_PAIRS))
    if tails:
        hit = random.random(noise.shape) < tails
        noise = noise + hit * random.choice((-0.3, 0.3), noise.shape)
    return Counter(decided(row).outcome for row in math.log1p(slowdown) + noise)


@pytest.mark.parametrize("spread", [0.001, 0.02, 0.04, 0.2])
@pytest.mark.parametrize("tails", [0.0, 0.03])
def test_what_is_not_slower_is_hardly_ever_called_slower(spread: float, tails: float) -> None:
    assert outcomes(0.0, spread, 1500, tails)["slower"] <= 15


@pytest.mark.parametrize(("spread", "tails"), [(0.001, 0.0), (0.02, 0.0), (0.03, 0.0), (0.02, 0.015)])
def test_a_slow_down_of_the_size_that_is_looked_for_is_found(spread: float, tails: float) -> None:
    assert outcomes(0.05, spread, 1000, tails)["slower"] >= 900


def test_less_than_half_of_it_is_not_called_slower_however_sure_it_is() -> None:
    assert outcomes(0.02, 0.001, 300) == {"no-slower": 300}


def test_noise_that_hides_the_slow_down_is_said() -> None:
    found = outcomes(0.05, 0.3, 500)
    assert found["undecided"] > 400
    assert found["slower"] <= 30


def test_the_ratio_and_its_interval() -> None:
    values = math.log(1.2) + 0.01 * np.random.default_rng(2).standard_normal(LEAST_PAIRS)
    found = decide(values.tolist(), 0.05)
    assert found.low < 1.2 < found.high
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    early = decide([math.log(1.2)], 0.05)
    assert (early.outcome, early.ratio) == ("", pytest.approx(1.2))
    assert math.isnan(early.low)
