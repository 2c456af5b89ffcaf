"""The gate's runs: in turn, repeated where the neighbours of a pair were not alike; and their stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from profkit.capture.stopwatch import Reading, Stopwatch
from profkit.study.gate import BASELINE, CANDIDATE, MOST_REPEATED, Gated, contaminated, gate, seconds_of


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
