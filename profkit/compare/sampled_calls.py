"""Changes of call counts where a side was sampled: their intervals, and what the side may have missed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from profkit.compare.result_types import DiffTable, SideTable
from profkit.model import Process
from profkit.model.arrays import Bools, Floats
from profkit.model.estimates import NONE_SEEN

#: Relative change beyond which calls count as changed.
CALLS_CHANGED = 0.1
#: Relative half-width of the 95 % interval of a call ratio up to which the estimate weighs times. 61 calls
#: counted in bursts have it (1.96 / √61). For a function with half of the CPU time, it misplaces an eighth of
#: all time between work and speed, as much as clean repeats differ (``noise.speed``).
HALF_WIDTH = 0.25


def unseen_seconds(processes: Sequence[Process]) -> float:
    """Return the most self time (upper 95 % limit, s) of a function without samples in a run; 0 if traced."""
    seconds, samples, longest = 0.0, 0, 0.0
    for process in processes:
        span = _sampled_span(process)
        longest = max(longest, span if span < math.inf else 0.0)
        for thread in process.threads if span > 0 else ():
            seconds += min(thread.profile.total, span)
            samples += int(thread.profile.samples.sum()) if thread.profile.samples is not None else 0
    # Without samples, all of the time may have been in one function.
    return seconds * min(1.0, NONE_SEEN / samples) if samples else max(seconds, longest)


def _sampled_span(process: Process) -> float:
    """Return the seconds for which a process was sampled; infinite where unknown."""
    if not process.tiers:
        estimated = any(thread.profile.calls_low is not None for thread in process.threads)
        return math.inf if estimated else 0.0
    begins = [tier.begin_s for tier in process.tiers]
    end = math.inf if process.wall_s is None else max(process.wall_s, begins[-1])
    spans = zip(process.tiers, pairwise((*begins, end)), strict=True)
    return sum(until - begin for tier, (begin, until) in spans if tier.kind == "sampled")


@dataclass(frozen=True, slots=True, eq=False)
class CallRatios:
    """Candidate calls over baseline calls with the 95 % interval, by table row, shape (n,); NaN if unknown.

    `known`: exact (also if a side lacks the function and cannot have missed it), or within `HALF_WIDTH`.
    `apart`: wider, but wholly beyond a change by `CALLS_CHANGED`.
    """

    value: Floats
    low: Floats
    high: Floats
    known: Bools
    exact: Bools
    apart: Bools

    @property
    def weighed(self) -> Bools:
        """Rows whose ratio, or a limit of it, can weigh times."""
        return self.known | self.apart

    @property
    def weight(self) -> Floats:
        """The ratio that weighs times: the estimate, or where `apart` the limit nearer to 1."""
        near = np.where(self.low > 1, self.low, self.high)
        return np.where(self.apart, near, self.value)

    @property
    def changed(self) -> Bools:
        """Rows whose calls differ for certain: the interval excludes 1, or one side has no calls."""
        beyond: Bools = (self.low > 1) | (self.high < 1)
        return self.weighed & (beyond | np.isnan(self.value))

    @property
    def doubt(self) -> Floats:
        """Distance from the estimate to the limit on the side of 1, relative to the estimate.

        It is 0 where exact and infinite where not `weighed`. The other limit may be far off, as the estimate of
        a side with few calls is, and does not make a change less certain.
        """
        with np.errstate(invalid="ignore"):
            part = np.where(self.value > 1, self.value - self.low, self.high - self.value) / self.value
        return np.where(self.exact, 0.0, np.where(self.weighed, part, np.inf))

    def taken(self, rows: npt.NDArray[np.intp]) -> CallRatios:
        return CallRatios(*(getattr(self, name)[rows] for name in CallRatios.__slots__))


def call_ratios(table: DiffTable) -> CallRatios:
    """Return how the calls of each function changed, and how well that is known."""
    a, b = table.baseline, table.candidate
    n = len(table)
    calls_a, calls_b = a.ncalls.astype(np.float64), b.ncalls.astype(np.float64)
    some = (calls_a > 0) & (calls_b > 0)
    value = np.full(n, np.nan)
    value[some] = calls_b[some] / calls_a[some]
    low_a, high_a = _limits(a)
    low_b, high_b = _limits(b)
    told = np.isfinite(low_a) & np.isfinite(low_b)
    exact = told & (low_a == high_a) & (low_b == high_b)
    value[~told] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        # Errors of both sides are independent, so their logarithms add in quadrature.
        down = np.hypot(np.log(calls_b / low_b), np.log(high_a / calls_a))
        up = np.hypot(np.log(high_b / calls_b), np.log(calls_a / low_a))
        low, high = value * np.exp(-down), value * np.exp(up)
        low, high = np.where(exact, value, low), np.where(exact, value, high)
        narrow = (high - low) <= 2 * HALF_WIDTH * value
    known = exact | (told & some & narrow)
    beyond = (low > 1 + CALLS_CHANGED) | (high < 1 / (1 + CALLS_CHANGED))
    return CallRatios(value, low, high, known, exact, told & some & beyond & ~known)


def _limits(side: SideTable) -> tuple[Floats, Floats]:
    low, high, *_ = side.estimates
    # A rounded estimate may lie outside its own narrow interval.
    return np.minimum(low, side.ncalls), np.maximum(high, side.ncalls)
