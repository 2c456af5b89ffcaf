"""What a side that was sampled can say of calls: how they changed, with intervals, and what it may have missed.

Where both sides are exact, every ratio is known and its interval is the ratio itself. Numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from profkit.model import Process

if TYPE_CHECKING:
    from profkit.measure.tables import DiffTable, SideTable

__all__ = ["HALF_WIDTH", "UNSEEN", "CallRatios", "call_ratios", "unseen_seconds"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: What a row of a `DiffTable` has for `match` that one side lacks, and may have missed.
UNSEEN = "unseen"
#: Upper limit of the 95 % interval of a Poisson count of which nothing was seen: the rule of three (Hanley and
#: Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983).
NONE_SEEN = 3.0
#: Relative half-width of the 95 % interval of a ratio of calls up to which its estimate is used as a weight. A side
#: that counted 61 calls in bursts has it (1.96 / √61). Of a function with half of a program's CPU time, an eighth of
#: all is then in the wrong one of work and speed, which is what clean repeats differ by (``noise.speed``).
HALF_WIDTH = 0.25


def unseen_seconds(processes: Sequence[Process]) -> float:
    """Return the most self time that a function may have taken in some processes without being in their profiles.

    Parameters
    ----------
    processes
        Those of one run that are compared.

    Returns
    -------
    float
        Upper limit of the 95 % interval, seconds: `NONE_SEEN` over the number of samples, of the time that was
        sampled; 0 where every call was traced.
    """
    seconds, samples = 0.0, 0
    for process in processes:
        span = _sampled_span(process)
        for thread in process.threads if span > 0 else ():
            seconds += min(thread.profile.total, span)
            samples += int(thread.profile.samples.sum()) if thread.profile.samples is not None else 0
    return seconds * min(1.0, NONE_SEEN / samples) if samples else seconds


def _sampled_span(process: Process) -> float:
    """Seconds of a process in which it was sampled; infinite where that is not known of one that was."""
    ends = [tier.begin_s for tier in process.tiers[1:]]
    ends.append(np.inf if process.wall_s is None else max(process.wall_s, *ends, 0.0))
    spans = pairwise((process.tiers[0].begin_s, *ends)) if process.tiers else ()
    span = sum(
        end - begin for tier, (begin, end) in zip(process.tiers, spans, strict=True) if tier.kind == "sampled"
    )
    estimated = any(thread.profile.calls_low is not None for thread in process.threads)
    return float(span) if span > 0 or not estimated else np.inf


@dataclass(frozen=True, slots=True, eq=False)
class CallRatios:
    """Candidate's calls over the baseline's, row by row of a `DiffTable`.

    Attributes
    ----------
    value, low, high : float64 array, shape (n,)
        The estimate and its 95 % interval; NaN where a side has no calls, or their number is not known.
    known : bool array, shape (n,)
        How the calls changed is known well enough to weigh times with: exactly, or within `HALF_WIDTH`. A function
        that a side lacks has no calls there, unless the side may have missed it.
    exact : bool array, shape (n,)
        Both numbers are exact.
    """

    value: Floats
    low: Floats
    high: Floats
    known: Bools
    exact: Bools

    @property
    def changed(self) -> Bools:
        """Rows whose calls are shown to differ: the interval leaves out 1, or one side has none."""
        beyond: Bools = (self.low > 1) | (self.high < 1)
        return self.known & (beyond | np.isnan(self.value))

    @property
    def doubt(self) -> Floats:
        """Half the width of the interval over the estimate: 0 where exact, infinite where not known well enough."""
        with np.errstate(invalid="ignore"):
            part = 0.5 * (self.high - self.low) / self.value
        return np.where(self.exact, 0.0, np.where(self.known, part, np.inf))

    def taken(self, rows: npt.NDArray[np.intp]) -> CallRatios:
        """The same for some rows."""
        return CallRatios(*(getattr(self, name)[rows] for name in CallRatios.__slots__))


def call_ratios(table: DiffTable) -> CallRatios:
    """Say how the calls of each function changed, and how well that is known."""
    a, b = table.baseline, table.candidate
    n = len(table)
    calls_a, calls_b = a.ncalls.astype(np.float64), b.ncalls.astype(np.float64)
    some = (calls_a > 0) & (calls_b > 0)
    value = np.full(n, np.nan)
    value[some] = calls_b[some] / calls_a[some]
    if a.calls_low is None and b.calls_low is None:
        return CallRatios(value, value, value, np.ones(n, np.bool_), np.ones(n, np.bool_))
    low_a, high_a = _limits(a)
    low_b, high_b = _limits(b)
    told = np.isfinite(low_a) & np.isfinite(low_b)
    exact = told & (low_a == high_a) & (low_b == high_b)
    value[~told] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        # Errors of both sides are independent: their logarithms add up in quadrature.
        down = np.hypot(np.log(calls_b / low_b), np.log(high_a / calls_a))
        up = np.hypot(np.log(high_b / calls_b), np.log(calls_a / low_a))
        low, high = value * np.exp(-down), value * np.exp(up)
        low, high = np.where(exact, value, low), np.where(exact, value, high)
        narrow = (high - low) <= 2 * HALF_WIDTH * value
    known = exact | (told & some & narrow)
    return CallRatios(value, low, high, known, exact)


def _limits(side: SideTable) -> tuple[Floats, Floats]:
    calls = side.ncalls.astype(np.float64)
    if side.calls_low is None or side.calls_high is None:
        return calls, calls
    # An estimate that was rounded may lie outside of its own narrow interval.
    return np.minimum(side.calls_low, calls), np.maximum(side.calls_high, calls)
