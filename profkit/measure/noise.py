"""Differences between clean repeats of one program: floors, scatter of replicates, exact rank-sum tests.

Floors are pooled over seven programs on a 2-core machine (439 runs, 10 clean ones per program).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from profkit.measure.function_orders import MAD_SCALE
from profkit.model.arrays import Floats, median

#: Rank-biased overlap distance (top 50, p = 0.9) between two clean runs, 95th percentile over all programs.
RBO_P95 = 0.14
#: The same, 99th percentile.
RBO_P99 = 0.15
#: Total variation of self-time shares between two clean runs, 95th percentile.
TV_P95 = 0.08
#: The same, 99th percentile.
TV_P99 = 0.09
#: Total variation below which a reordering only swaps functions of nearly equal time: half of `TV_P95`, about
#: what two clean runs show (medians of four programs: 0.02–0.05).
NEARLY_EQUAL = 0.04
#: Ratio of total times of two clean runs on a shared machine, 95th percentile.
TOTAL_RATIO_P95 = 1.36
#: Scaled MAD of per-call log ratios between two clean runs, 95th percentile.
R_SPREAD_P95 = 0.11
#: Greatest |ln(rank_a / rank_b)| · share_b of any function between two clean runs, 99th percentile of 360
#: ordered pairs (four programs, ten runs each, on two cores).
CLIMB_P99 = 0.12
#: Share of self time below which, on both sides, a function's ratios are noise.
MIN_SHARE = 0.005
#: Seconds below which a function's change is ignored whatever its factor: one context switch on an idle Linux
#: machine takes a scheduling quantum of 1–4 ms.
MIN_SECONDS = 1e-3
#: Share of self time from which a function moved if it left its own noise, and the common factor by more than
#: `TOTAL_RATIO_P95`. None did in 48 clean comparisons of five runs a side (four programs); from a share of
#: 0.01 on, 4 of 48 had one.
OWN_NOISE_SHARE = 0.02
#: Least scatter of ln time that replicates can show: clock and rounding.
MIN_SCATTER = 0.005
#: Least scatter assumed for a function, even if a few repeats agree better: the lower end of the medians of
#: clean programs (0.025–0.05).
CLEAN_SCATTER = 0.025
#: Runs a side from which its own scatter is used: two show no spread.
MIN_RUNS_NOISE = 3
#: Least runs a side for a rank-sum test: 3 a side cannot go below p = 0.10.
MIN_RUNS_TEST = 4
#: A loss needs this factor between medians, this many standard errors, and this p-value of the rank-sum test
#: unless all candidate runs are slower. Of 392 pairs of five runs a side without a change, none reached them
#: (benchmarks/verdict).
LEAST_LOSS, ERRORS_OF_LOSS, P_OF_LOSS = 1.05, 3.0, 0.01
#: Standard error of a median over that of a mean, for a normal distribution.
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


def log_scatter(times: Floats) -> Floats:
    """Return the scaled MAD of ln time over runs (shape (runs, n)) without each run's common factor."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(times)
    whole = np.isfinite(logs).all(axis=0)
    result = np.full(times.shape[1], np.nan)
    if not whole.any():
        return result
    logs = logs[:, whole]
    heavy = times[:, whole].mean(axis=0)
    used = heavy >= MIN_SHARE * heavy.sum()
    centred = logs - median(logs, axis=0)
    factor = median(centred[:, used], axis=1, keepdims=True) if used.any() else 0.0
    centred = centred - factor
    spread = MAD_SCALE * median(np.abs(centred - median(centred, axis=0)), axis=0)
    result[whole] = np.maximum(spread, MIN_SCATTER)
    return result


@lru_cache(maxsize=64)
def _rank_sum_counts(n: int, m: int) -> tuple[float, ...]:
    """Return the ways to reach each U with n and m distinct observations (Mann and Whitney 1947)."""
    ways = np.zeros((n + 1, n * m + 1))
    ways[0, 0] = 1.0
    for value in range(1, n + m + 1):
        # Ranks are chosen one by one: the k-th chosen rank adds (rank − k) to U.
        for chosen in range(min(value, n), 0, -1):
            add = value - chosen
            if add <= m:
                ways[chosen, add:] += ways[chosen - 1, : n * m + 1 - add]
    return tuple(ways[n].tolist())


def rank_sum_p(baseline: Floats, candidate: Floats) -> Floats:
    """Return two-sided Mann–Whitney p-values of each column, exact where no observations are equal.

    With ties: normal, corrected for ties and continuity (Lehmann, "Nonparametrics", 1975).
    """
    n, m = len(baseline), len(candidate)
    greater = (candidate[:, None, :] > baseline[None, :, :]).sum(axis=(0, 1))
    equal = (candidate[:, None, :] == baseline[None, :, :]).sum(axis=(0, 1))
    u = greater + 0.5 * equal
    counts = np.array(_rank_sum_counts(n, m))
    cumulative = np.cumsum(counts) / counts.sum()
    extreme = np.minimum(u, n * m - u)
    exact: Floats = np.minimum(1.0, 2.0 * cumulative[np.floor(extreme).astype(np.int64)])

    pooled = np.sort(np.concatenate([baseline, candidate]), axis=0)
    tied = (np.diff(pooled, axis=0) == 0).any(axis=0)
    if not tied.any():
        return exact
    approximate: Floats = exact.copy()
    for column in np.flatnonzero(tied).tolist():
        sizes = np.unique(pooled[:, column], return_counts=True)[1].astype(np.float64)
        total = n + m
        variance = n * m / 12 * (total + 1 - float((sizes**3 - sizes).sum()) / (total * (total - 1)))
        if variance <= 0:
            approximate[column] = 1.0
            continue
        z = max(0.0, abs(float(u[column]) - n * m / 2) - 0.5) / math.sqrt(variance)
        approximate[column] = min(1.0, math.erfc(z / math.sqrt(2)))
    return approximate


def lost_throughout(baseline: Floats, candidate: Floats) -> bool:
    """Return whether a candidate's runs took longer than noise; false below `MIN_RUNS_NOISE` a side."""
    n, m = len(baseline), len(candidate)
    if min(n, m) < MIN_RUNS_NOISE:
        return False
    a, b = np.log(baseline), np.log(candidate)
    added = float(median(b) - median(a))
    # Smallest candidate over largest baseline: a single slow candidate run does not hide a loss that all have.
    apart = float(b.min() - a.max())
    if apart >= max(math.log(LEAST_LOSS), float(np.ptp(a))):
        return True
    error = _MEDIAN_ERROR * math.hypot(a.std(ddof=1) / math.sqrt(n), b.std(ddof=1) / math.sqrt(m))
    if added < math.log(LEAST_LOSS) or added < ERRORS_OF_LOSS * error:
        return False
    return apart > 0 or float(rank_sum_p(a[:, None], b[:, None])[0]) <= P_OF_LOSS


def adjusted(p_values: Floats) -> Floats:
    """Adjust p-values for the number of tests (Benjamini and Hochberg 1995); NaN entries are not tests."""
    result: Floats = p_values.copy()
    tested = np.flatnonzero(np.isfinite(p_values))
    if not len(tested):
        return result
    order = tested[np.argsort(p_values[tested])]
    scaled: Floats = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    result[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return result
