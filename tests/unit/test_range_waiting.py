"""Waiting inside ranges, interpolated from cumulative readings of their threads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from profkit.measure.range_stats import compare_ranges, range_rows
from profkit.measure.range_waiting import range_waiting, waiting_of
from profkit.model import Process
from profkit.model.ranges import STARTED, Ranges
from profkit.model.series import ThreadSamples
from tests.unit.test_ranges import ranges_of

#: Thread of `ranges_of`.
TID = 1


def samples_of(*rows: tuple[int, float, float]) -> ThreadSamples:
    """Build samples from (thread, seconds, seconds waited since it began)."""
    tid, time, wait = (np.array(column) for column in zip(*rows, strict=True))
    time_ns = (time * 1e9).astype(np.int64)
    return ThreadSamples(
        tid.astype(np.int64), time_ns, time_ns // 2, (wait * 1e9).astype(np.int64)
    ).validate()


#: Waits 0.5 of every second between second 1 and second 3, nothing before and after.
STEADY = samples_of((TID, 0.0, 2.0), (TID, 1.0, 2.0), (TID, 2.0, 2.5), (TID, 3.0, 3.0), (TID, 4.0, 3.0))


def waits(ranges: Ranges, samples: ThreadSamples) -> list[float]:
    waited = range_waiting(ranges, samples)
    return [round(value, 9) for value in waited.wait_s.tolist()]


def test_between_readings_waiting_is_spread_evenly() -> None:
    ranges = ranges_of([("a", 0.0, 0.9, -1), ("a", 1.2, 1.4, -1), ("b", 0.5, 3.5, -1), ("c", 1.9, 2.1, 2)])
    assert waits(ranges, STEADY) == [0.0, 0.1, 1.0, 0.1]


def test_ranges_short_of_the_period_are_right_in_sum() -> None:
    edges = np.linspace(1.0, 3.0, 2001)
    ranges = ranges_of([("step", float(a), float(b), -1) for a, b in pairwise(edges)])
    (row,) = range_rows([ranges], [range_waiting(ranges, STEADY)])
    assert row.wait_s == pytest.approx(1.0)
    assert row.wait_share == pytest.approx(0.5)


def test_a_thread_that_was_not_read_and_a_range_that_has_no_thread() -> None:
    ranges = ranges_of([("a", 1.0, 2.0, -1), ("open", 1.0, None, -1)])
    assert range_waiting(ranges, samples_of((TID + 1, 0.0, 0.0), (TID + 1, 4.0, 1.0))) is None
    assert range_waiting(ranges, samples_of((TID, 1.0, 0.0))) is None, "one reading tells no difference"
    assert np.isnan(waits(ranges, STEADY)[1])
    started = ranges_of([("a", 1.0, 2.0, -1)], kind=STARTED)
    assert range_waiting(started, STEADY) is None


def test_several_processes_of_which_one_was_sampled() -> None:
    ranges = ranges_of([("a", 1.0, 3.0, -1)])
    processes = [Process(), Process(ranges=ranges, samples=STEADY), Process(ranges=ranges)]
    found = waiting_of(processes)
    assert [waited is None for waited in found] == [False, True]
    (row,) = range_rows([ranges, ranges], found)
    assert (row.total_s, row.wait_s, row.wait_share) == (4.0, 1.0, 0.5)


def test_both_sides_of_a_comparison() -> None:
    ranges = ranges_of([("a", 1.0, 3.0, -1)])
    calm = replace(STEADY, wait_ns=np.zeros(len(STEADY), np.int64))
    (change,) = compare_ranges(
        [[ranges]], [[ranges]], ([[range_waiting(ranges, calm)]], [[range_waiting(ranges, STEADY)]])
    )
    assert (change.baseline.wait_share, change.candidate.wait_share) == (0.0, 0.5)
