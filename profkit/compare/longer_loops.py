"""Functions that call others more often although they are called as often as before: their loops got longer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from profkit.compare.call_table import CallTable
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import CALLS_CHANGED, CallRatios
from profkit.model.arrays import Bools

#: Calls made on either side from which their number shows the length of a loop.
LOOP_CALLS = 100
#: Calls per call of the function from which they come from a loop.
LOOP_PER_CALL = 2


@dataclass(frozen=True, slots=True)
class LongerLoops:
    """Table rows of functions whose loops got longer, most added calls first, and the number of shorter ones.

    `made` has the calls that `rows` made, of the baseline and the candidate; `factor` is the median over `rows`
    of their ratio, NaN without rows.
    """

    rows: tuple[int, ...]
    made: tuple[tuple[float, ...], tuple[float, ...]]
    shorter: int
    factor: float


def longer_loops(table: DiffTable, calls: CallTable | None, ratios: CallRatios, waits: Bools) -> LongerLoops:
    """Find them among functions whose calls are known exactly; `waits`, shape (n,), wait by design."""
    if calls is None:
        return LongerLoops((), ((), ()), 0, math.nan)
    n, as_often = len(table), table.baseline.ncalls
    steady = ratios.exact & ~waits & (as_often > 0) & (as_often == table.candidate.ncalls)
    counted = steady[calls.caller] & (ratios.exact & ~waits)[calls.callee]
    before, after = (
        np.bincount(calls.caller[counted], side.ncalls[counted], n).astype(np.float64)
        for side in (calls.baseline, calls.candidate)
    )
    loops = np.minimum(before, after) >= np.maximum(LOOP_CALLS, LOOP_PER_CALL * as_often)
    factor = np.divide(after, before, out=np.ones(n), where=loops)
    rows = np.flatnonzero(factor > 1 + CALLS_CHANGED)
    rows = rows[np.argsort(before[rows] - after[rows], kind="stable")]
    return LongerLoops(
        tuple(rows.tolist()),
        (tuple(before[rows].tolist()), tuple(after[rows].tolist())),
        int((factor < 1 / (1 + CALLS_CHANGED)).sum()),
        float(np.median(factor[rows])) if len(rows) else math.nan,
    )
