"""Bootstrap intervals over replicates, and an exact permutation test, with a fixed seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profkit.model.arrays import Floats, Rows, median

#: Coverage of the intervals.
LEVEL = 0.95
#: Least runs per side for an interval: a bootstrap of two values has only three medians.
MIN_RUNS_INTERVAL = 3
#: Bootstrap samples: the ends of a 95 % interval are then the 5th values from either end.
SAMPLES = 199
#: Most divisions of the runs that are enumerated.
MOST_WAYS = 20_000
SEED = 2010


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval of `LEVEL`, NaN with too few runs, and p-value, NaN if not tested."""

    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


#: An estimate that was not made.
UNKNOWN = Estimate(math.nan)


def estimate(baseline: Floats, candidate: Floats, statistic: Callable[[Floats, Floats], float]) -> Estimate:
    """Return a statistic of two sides, one row per run, with its percentile bootstrap interval.

    Efron, Annals of Statistics 7, 1979. With few runs it is too narrow, so nothing is decided by it.
    """
    value = statistic(baseline, candidate)
    n, m = len(baseline), len(candidate)
    if min(n, m) < MIN_RUNS_INTERVAL:
        return Estimate(value)
    random = np.random.default_rng(SEED)
    drawn = [
        statistic(baseline[random.integers(0, n, n)], candidate[random.integers(0, m, m)])
        for _ in range(SAMPLES)
    ]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))


def ratio_estimate(baseline: Floats, candidate: Floats) -> Estimate:
    """Return the ratio of the sides' median times with its interval and an exact permutation test."""

    def ratio(a: Floats, b: Floats) -> float:
        return float(median(b) / median(a))

    found = estimate(baseline, candidate, ratio)
    return Estimate(found.value, found.low, found.high, permutation_p(np.log(baseline), np.log(candidate)))


def permutation_p(baseline: Floats, candidate: Floats) -> float:
    """Return the two-sided exact permutation p-value of the difference of means; sides have shape (runs,).

    At least 0.1 with three runs a side and 0.008 with five; NaN with too few or too many runs. Fisher, "The
    Design of Experiments", 1935, section 21; Pitman, JRSS Supplement 4, 1937.
    """
    n, m = len(baseline), len(candidate)
    if min(n, m) < MIN_RUNS_INTERVAL or math.comb(n + m, n) > MOST_WAYS:
        return math.nan
    pooled = np.concatenate([baseline, candidate])
    chosen = np.array(list(itertools.combinations(range(n + m), n)))
    means = pooled[chosen].mean(axis=1)
    apart = np.abs(means - (pooled.sum() - n * means) / m)
    seen = abs(float(baseline.mean() - candidate.mean()))
    return float(np.mean(apart >= seen * (1 - 1e-9)))


def displacement(rank_a: Rows, rank_b: Rows, share: Floats) -> float:
    """Return how far functions moved in the order: Σ share · |ln(rank_a / rank_b)| / Σ share.

    Kumar and Vassilvitskii, "Generalized distances between rankings", WWW 2010, with log position weights.
    """
    whole = float(share.sum())
    if whole <= 0:
        return 0.0
    return float((share * np.abs(np.log(rank_a / rank_b))).sum()) / whole
