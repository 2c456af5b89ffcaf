"""How sure a figure is: bootstrap intervals over replicates, an exact permutation test, and what one run cannot show.

Plain formulas on arrays, each with its source. The random draws have a fixed seed: the same runs
give the same interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

#: Coverage that intervals are made for.
LEVEL = 0.95
#: Runs a side below which there is no interval: a bootstrap of two values knows three medians.
MIN_RUNS_INTERVAL = 3
#: Bootstrap samples: the ends of a 95 % interval are then the 5th values from either side.
SAMPLES = 199
#: Ways to divide the runs up to which all are tried.
MOST_WAYS = 20_000
SEED = 2010


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the interval that its replicates allow.

    Attributes
    ----------
    value
        The figure.
    low, high
        Ends of the interval of `LEVEL`; NaN where there are too few runs for one.
    p_value
        Of no difference, where that was tested; NaN otherwise.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


#: Not estimated.
UNKNOWN = Estimate(math.nan)


def estimate(baseline: Floats, candidate: Floats, statistic: Callable[[Floats, Floats], float]) -> Estimate:
    """Return a statistic of two sides with its percentile bootstrap interval.

    Parameters
    ----------
    baseline : float64 array, shape (n_a, …)
        One row per run.
    candidate : float64 array, shape (n_b, …)
        One row per run.
    statistic
        Takes rows of both sides.

    Notes
    -----
    Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979: runs of each side are
    drawn again with replacement, the statistic is computed for each draw, and its quantiles are the interval.
    With so few runs it is narrow rather than wide: it is an aid to the eye, and decides nothing.
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
    """Return the ratio of the sides' medians with its interval and an exact permutation test.

    Parameters
    ----------
    baseline, candidate : float64 array, shape (runs,)
        Positive times.
    """

    def ratio(a: Floats, b: Floats) -> float:
        return float(np.median(b) / np.median(a))

    found = estimate(baseline, candidate, ratio)
    return Estimate(found.value, found.low, found.high, permutation_p(np.log(baseline), np.log(candidate)))


def permutation_p(baseline: Floats, candidate: Floats) -> float:
    """Two-sided exact permutation test of the difference of means.

    Parameters
    ----------
    baseline, candidate
        float64 arrays, shape (runs,).

    Returns
    -------
    float
        Part of all ways to divide the runs into two sides of these sizes whose means are at least as far apart;
        NaN below `MIN_RUNS_INTERVAL` runs a side, and where there are more than `MOST_WAYS` ways.

    Notes
    -----
    Fisher, "The Design of Experiments", 1935, section 21; Pitman, JRSS Supplement 4, 1937. With three runs a side it
    cannot be below 0.1, with five not below 0.008.
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


def displacement(rank_a: Ints, rank_b: Ints, share: Floats) -> float:
    """How far functions moved in the order, weighted by the time they hold.

    Parameters
    ----------
    rank_a, rank_b : integer array, shape (n,)
        Ranks of functions that both sides have, 1 for the first.
    share : float64 array, shape (n,)
        The greater share of either side.

    Returns
    -------
    float
        Σ share · |ln(rank_a / rank_b)| / Σ share, 0 where the order stayed. From #1 to #2 counts as much as from #10
        to #20, as ranks of lists with heavy heads should (Kumar and Vassilvitskii, "Generalized distances between
        rankings", WWW 2010, with element weights and log position weights).
    """
    whole = float(share.sum())
    if whole <= 0:
        return 0.0
    return float((share * np.abs(np.log(rank_a / rank_b))).sum()) / whole
