"""Queueing for a CPU inside ranges, interpolated between the sampler's few readings a second.

Sums over many ranges are right in expectation; a single range shorter than the period is not resolved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.model import Process
from profkit.model.arrays import Floats, Ints, median
from profkit.model.ranges import PUSHED


@dataclass(frozen=True, slots=True, eq=False)
class RangeWaiting:
    """Queueing inside the ranges of one process, seconds, shape (n,); `wait_s` is NaN where not measured."""

    wait_s: Floats
    measured_s: Floats
    period_s: float


def range_waiting(process: Process) -> RangeWaiting | None:
    """Interpolate each thread's wait at the ends of its pushed ranges; others may end in another thread.

    ``None`` where the process has no ranges or was not sampled.
    """
    ranges, samples = process.ranges, process.samples
    if ranges is None or samples is None:
        return None
    n = len(ranges)
    wait, measured = np.full(n, np.nan), np.zeros(n)
    rows = np.flatnonzero(ranges.ended & (ranges.kind == PUSHED))
    order = rows[np.argsort(ranges.thread[rows], kind="stable")]
    threads, first = np.unique(ranges.thread[order], return_index=True)
    steps: list[Ints] = []
    for tid, part in zip(threads.tolist(), np.split(order, first)[1:], strict=True):
        low, high = np.searchsorted(samples.tid, [tid, tid + 1])
        if high - low < 2:
            continue
        time = samples.time_ns[low:high]
        waited = _rising(samples.wait_ns[low:high])
        steps.append(np.diff(time))
        begin, end = ranges.begin_ns[part], ranges.end_ns[part]
        inside = np.maximum(np.minimum(end, time[-1]) - np.maximum(begin, time[0]), 0)
        known = inside > 0
        # np.interp repeats the first and the last value outside, where waiting is unknown.
        between = np.interp(end, time, waited) - np.interp(begin, time, waited)
        wait[part[known]] = between[known] / 1e9
        measured[part[known]] = inside[known] / 1e9
    if not steps:
        return None
    return RangeWaiting(wait, measured, float(median(np.concatenate(steps))) / 1e9)


def _rising(counter: Ints) -> Ints:
    """Join the counters of successive threads with the same id: each began at 0."""
    step = np.diff(counter)
    step = np.where(step < 0, counter[1:], step)
    return np.concatenate([counter[:1], counter[0] + np.cumsum(step)])
