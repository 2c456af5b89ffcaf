"""Signs of starvation in two plain profiles: how a busy machine changes self times, as numbers.

A starved program loses a scheduler's slices (milliseconds): short functions lose a whole lump or nothing, and
their median stays. Slower hardware, larger inputs and changed code move them together or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.compare.pair import Pair
from profkit.compare.sampled_calls import CALLS_CHANGED
from profkit.compare.starvation_weights import ONE_RUN, Weights
from profkit.identity.lookup_columns import Keys, Looked, rows_in
from profkit.measure import noise
from profkit.measure.function_orders import MAD_SCALE, rbo_distance, shares
from profkit.measure.waits_by_name import is_native, is_wait
from profkit.model import BUILTIN, STDLIB
from profkit.model.arrays import Bools, Floats, median, quantile

#: Self time, in seconds, of functions that show a lump: below it the clock's noise, above it a lump is too
#: small.
SMALL = (1e-4, 2e-2)
#: Least lump: seconds, and part of the function's usual time.
LUMP_S = 1e-3
LUMP_PART = 0.5
#: Relative distance from their median within which lumps are alike.
LIKE = 0.25
#: Least number of functions that show a distribution.
FEWEST = 5
#: Share of self time from which a function is large.
LARGE = 0.02
#: Share of self time on either side from which a function's scatter over repeats counts.
SCATTER_SHARE = 1e-3
#: Bound on logarithms of ratios; anything beyond adds nothing.
MOST_LOG = 3.0
#: Number of functions in the rank-biased overlap.
DEPTH = 50


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """Functions of both sides: self time (s) and calls, shape (runs, n); totals include other functions."""

    time_a: Floats
    time_b: Floats
    calls_a: Floats
    calls_b: Floats
    native: Bools
    waits: Bools
    total_a: Floats
    total_b: Floats


@dataclass(frozen=True, slots=True)
class Starvation:
    """Probability that only the candidate was denied CPU; at most 1.5 % of other pairs are called so."""

    probability: float
    threshold: float

    @property
    def holds(self) -> bool:
        return self.probability >= self.threshold


@dataclass(frozen=True, slots=True)
class Lumps:
    """Time slices that small functions lost; `alike` is the part within `LIKE` of the median."""

    count: int
    median_s: float = math.nan
    alike: float = math.nan


def matched(pair: Pair) -> Matched:
    """Return the functions that both sides have."""
    joined, found = pair.joined, pair.alignment
    a, b = (side.replicates for side in pair.sides)
    rows_a, rows_b = found.baseline, found.candidate
    times_a, times_b = a.tottime[:, rows_a], b.tottime[:, rows_b]
    some = np.maximum(times_a.max(axis=0, initial=0.0), times_b.max(axis=0, initial=0.0)) >= SMALL[0]
    rows_a, rows_b = rows_a[some], rows_b[some]
    columns = joined.baseline
    names = Looked(columns.name[rows_a], joined.strings)
    keys = Keys(columns.file[rows_a], joined.files, names)
    asked = np.flatnonzero(rows_in(keys, STDLIB) | names.where(is_native)).tolist()
    waits = np.zeros(len(names), np.bool_)
    waits[[row for row in asked if is_wait(names[row], keys[row].root)]] = True
    return Matched(
        time_a=times_a[:, some],
        time_b=times_b[:, some],
        calls_a=a.ncalls[:, rows_a].astype(np.float64),
        calls_b=b.ncalls[:, rows_b].astype(np.float64),
        native=rows_in(keys, BUILTIN),
        waits=waits,
        total_a=a.tottime.sum(axis=1),
        total_b=b.tottime.sum(axis=1),
    )


def signs(both: Matched) -> Mapping[str, float]:
    """Return the signs by name, averaged over pairs of runs; 0 where there are too few functions."""
    found = [_of_pair(both, i, j) for i, j in _pairs(both)]
    average = np.mean([list(of_pair.values()) for of_pair in found], axis=0)
    return dict(zip(found[0], average.tolist(), strict=True))


def starvation(signs: Mapping[str, float], weights: Weights = ONE_RUN) -> Starvation:
    """Return the probability that the signs show starvation."""
    columns = zip(*(weights.signs[name] for name in signs), strict=True)
    centre, scale, weight = (np.array(column) for column in columns)
    score = float((np.array(list(signs.values())) - centre) / scale @ weight) + weights.intercept
    return Starvation(1.0 / (1.0 + math.exp(-min(50.0, max(-50.0, score)))), weights.threshold)


def lumps_of(both: Matched) -> Lumps:
    """Return the lumps that hit small functions."""
    found = np.concatenate([_lumps(*_ratios(both, i, j)) for i, j in _pairs(both)])
    if len(found) < 2:
        return Lumps(len(found))
    middle = float(median(found))
    return Lumps(len(found), middle, float(np.mean(np.abs(found / middle - 1.0) <= LIKE)))


def noisier(both: Matched) -> float:
    """Return the mean of ln(s_b / s_a): how much more the candidate's repeats scatter than the baseline's.

    s is a function's standard deviation of ln self time per call; NaN with too few runs or functions.
    """
    if min(len(both.total_a), len(both.total_b)) < noise.MIN_RUNS_NOISE:
        return float("nan")
    share = np.maximum(
        (both.time_a / np.maximum(both.total_a, 1e-12)[:, None]).mean(axis=0),
        (both.time_b / np.maximum(both.total_b, 1e-12)[:, None]).mean(axis=0),
    )
    everywhere = (both.time_a > 0).all(axis=0) & (both.time_b > 0).all(axis=0)
    usable = everywhere & ~both.waits & (share >= SCATTER_SHARE)
    if np.count_nonzero(usable) < FEWEST:
        return float("nan")
    # A median of deviations would miss a lump that hits one run of five.
    before, after = (
        _deviation(times[:, usable] / np.maximum(calls[:, usable], 1.0))
        for times, calls in ((both.time_a, both.calls_a), (both.time_b, both.calls_b))
    )
    return float(np.mean(np.log(after / before)))


def _deviation(per_call: Floats) -> Floats:
    """Return the standard deviation over runs of ln time per call, at least `noise.MIN_SCATTER`."""
    logs = np.log(per_call)
    logs = logs - logs.mean(axis=0)
    logs = logs - median(logs, axis=1, keepdims=True)
    deviation: Floats = np.maximum(logs.std(axis=0, ddof=1), noise.MIN_SCATTER)
    return deviation


def _pairs(both: Matched) -> Sequence[tuple[int, int]]:
    n, m = len(both.total_a), len(both.total_b)
    return [(i % n, i % m) for i in range(max(n, m))]


def _ratios(both: Matched, i: int, j: int) -> tuple[Floats, Floats, Floats, Bools]:
    """Return self times of a pair of runs, ln of the change per call, and where that is defined."""
    a, b = both.time_a[i], both.time_b[j]
    calls_a, calls_b = np.maximum(both.calls_a[i], 1.0), np.maximum(both.calls_b[j], 1.0)
    same = (np.abs(np.log(calls_b / calls_a)) < np.log1p(CALLS_CHANGED)) & (a > 0) & (b > 0) & ~both.waits
    scaled = b * calls_a / calls_b
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(same, np.log(scaled / a), 0.0)
    return a, scaled, np.clip(r, -MOST_LOG, MOST_LOG), same


def _lumps(a: Floats, b: Floats, r: Floats, same: Bools) -> Floats:
    """Return the seconds that small functions hit by a lump lost beyond the common loss."""
    small = same & (a >= SMALL[0]) & (a < SMALL[1])
    if np.count_nonzero(small) < FEWEST:
        return np.zeros(0)
    usual = a[small] * np.exp(median(r[small]))
    excess = b[small] - usual
    lumps: Floats = excess[(excess > LUMP_S) & (excess > LUMP_PART * usual)]
    return lumps


def _hit(a: Floats, b: Floats, r: Floats, same: Bools) -> tuple[int, float, float]:
    """Return how many small functions lost a lump, their part, and ln(1 + lumps over all their time)."""
    small = same & (a >= SMALL[0]) & (a < SMALL[1])
    lumps = _lumps(a, b, r, same)
    lost = float(lumps.sum()) / max(float(a[small].sum()), SMALL[0])
    return len(lumps), len(lumps) / max(1, int(small.sum())), float(np.log1p(lost))


def _of_pair(both: Matched, i: int, j: int) -> dict[str, float]:
    a, b, r, same = _ratios(both, i, j)
    python, native = ~both.native, both.native
    busy = ~both.waits
    share_a, share_b = (
        both.time_a[i] / max(both.total_a[i], 1e-12),
        both.time_b[j] / max(both.total_b[j], 1e-12),
    )
    heavy = np.maximum(share_a, share_b) >= noise.MIN_SHARE
    busy_a, busy_b = (shares(np.where(busy, t, 0.0)) for t in (both.time_a[i], both.time_b[j]))
    order_a, order_b = (np.argsort(-t, kind="stable")[:DEPTH] for t in (both.time_a[i], both.time_b[j]))
    usable = same & heavy
    gain = np.maximum(both.time_b[j] - both.time_a[i], 0.0)[heavy & busy]
    excess = np.where(same, np.maximum(b - a, 0.0), 0.0)
    held = excess[usable]
    calls = np.abs(np.log(np.maximum(both.calls_b[j], 1.0) / np.maximum(both.calls_a[i], 1.0)))
    weight = np.where(busy, share_a + share_b, 0.0)
    small_python = python & same & (a >= SMALL[0])
    gap = 0.0
    if np.count_nonzero(small_python) >= FEWEST:
        gap = np.log(b[small_python].sum() / a[small_python].sum()) - median(r[small_python])
    of_python, of_all = (_hit(a, b, r, which) for which in (same & python, same))
    large = same & (share_a >= LARGE)
    return {
        "shares_apart": 0.5 * np.abs(share_b - share_a)[heavy].sum(),
        "busy_shares_apart": 0.5 * np.abs(busy_b - busy_a)[heavy].sum(),
        "rankings_apart": rbo_distance(order_a, order_b, depth=DEPTH),
        "slower": _log_ratio(both.time_a[i][busy].sum(), both.time_b[j][busy].sum()),
        "spread": MAD_SCALE * _quantile(np.abs(r[usable] - _quantile(r[usable], 0.5)), 0.5),
        "quartiles": _quantile(r[usable], 0.75) - _quantile(r[usable], 0.25),
        "python_median": _quantile(r[usable & python], 0.5),
        "python_upper": _quantile(r[usable & python], 0.75),
        "native_median": _quantile(r[usable & native], 0.5),
        "native_upper": _quantile(r[usable & native], 0.75),
        "python_hit": of_python[1],
        "python_excess": of_python[2],
        "all_hit": of_all[1],
        "all_excess": of_all[2],
        "hits": np.log1p(of_all[0]),
        "python_gap": np.clip(gap, -MOST_LOG, MOST_LOG),
        "greatest_gain": gain.max(initial=0.0) / max(gain.sum(), 1e-12),
        # ln of the effective number of functions that share the excess (inverse Simpson index).
        "gaining": np.log(max(1.0, held.sum() ** 2 / max((held**2).sum(), 1e-24))),
        "python_gain": excess[python].sum() / max(excess.sum(), 1e-12),
        "range_of_large": np.ptp(r[large]) if np.count_nonzero(large) > 1 else 0.0,
        "calls_changed": weight[calls > np.log1p(CALLS_CHANGED)].sum() / max(weight.sum(), 1e-12),
    }


def _log_ratio(before: float, after: float) -> float:
    if before <= 0 or after <= 0:
        return 0.0
    return float(np.clip(np.log(after / before), -MOST_LOG, MOST_LOG))


def _quantile(values: Floats, q: float) -> float:
    return quantile(values, q) if len(values) else 0.0
