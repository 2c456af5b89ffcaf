"""A group sequential test: whether a candidate is slower, decided while pairs of timings arrive.

Each look divides the mean log ratio by its standard error, and stops beyond what chance does to *any* look
(Pocock, Biometrika 64, 1977; risk spent as by Kim and DeMets, Biometrika 74, 1987, with ρ = 4). Mean and
error are trimmed (Tukey and McLaughlin, Sankhyā A 25, 1963), since a hypervisor may take half of a run.
Boundaries depend only on the number of pairs, and are simulated with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from profkit.model.arrays import Floats, median

#: Pairs before the first look, and at the last.
LEAST_PAIRS, MOST_PAIRS = 5, 10
#: Risk over all looks of calling a program slower that is not, for normal noise.
ALPHA = 0.009
#: Risk before the last look of clearing a program that is slower by the wanted amount.
BETA = 0.02
#: Pairs left out at either end of the mean.
TRIMMED = 1
#: Exponent by which risks are spent over the looks: little at first, when few pairs give a poor mean.
SPENT = 4
DRAWS = 200_000
SEED = 1977


@dataclass(frozen=True, slots=True)
class Decision:
    """What the pairs show: ``slower``, ``no-slower``, ``undecided``, or empty if more pairs are needed.

    `ratio` is candidate over baseline with its 95 % interval, NaN before `LEAST_PAIRS`.
    """

    outcome: str
    pairs: int
    ratio: float
    low: float
    high: float


def decide(log_ratios: Sequence[float], least: float) -> Decision:
    """Decide from log ratios of pairs whether a candidate is slower by `least` (0.05 for 5 %).

    It is slower if a ratio of 1 is excluded and `least` is nearer; in between, either outcome may result.
    """
    n = len(log_ratios)
    values = np.array(log_ratios[:MOST_PAIRS], np.float64)
    if n < LEAST_PAIRS:
        ratio = float(np.exp(median(values))) if n else math.nan
        return Decision("", n, ratio, math.nan, math.nan)
    mean, error = (float(found[0]) for found in _trimmed(values[None, :]))
    fail, clear, width = _boundaries()
    look = len(values) - LEAST_PAIRS
    wanted = math.log1p(least)
    outcome = ""
    if mean >= wanted / 2:
        if mean >= fail[look] * error:
            outcome = "slower"
    elif wanted - mean >= clear[look] * error:
        outcome = "no-slower"
    if not outcome and len(values) == MOST_PAIRS:
        outcome = "undecided"
    half = width[look] * error
    return Decision(outcome, n, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _trimmed(values: Floats) -> tuple[Floats, Floats]:
    """Return the trimmed mean of each row and its standard error, from the winsorised variance."""
    n = values.shape[1]
    ordered = np.sort(values, axis=1)
    kept = n - 2 * TRIMMED
    mean = ordered[:, TRIMMED : n - TRIMMED].mean(axis=1)
    ordered[:, :TRIMMED] = ordered[:, TRIMMED : TRIMMED + 1]
    ordered[:, n - TRIMMED :] = ordered[:, n - TRIMMED - 1 : n - TRIMMED]
    deviation = ordered.std(axis=1, ddof=1)
    return mean, deviation * math.sqrt(n) / kept


@lru_cache(maxsize=1)
def _boundaries() -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return for each look the standard errors from the mean: to fail, to clear, and of a 95 % interval."""
    random = np.random.default_rng(SEED)
    drawn = random.standard_normal((DRAWS, MOST_PAIRS))
    trimmed = (_trimmed(drawn[:, :n]) for n in range(LEAST_PAIRS, MOST_PAIRS + 1))
    statistics = [mean / error for mean, error in trimmed]
    found = []
    for risk in (ALPHA, BETA):
        left = np.ones(DRAWS, np.bool_)
        bounds = []
        for look, values in enumerate(statistics, 1):
            # By the end of each look, as many draws have crossed as its part of the risk.
            crossed = round(DRAWS * risk * (look / len(statistics)) ** SPENT) - int((~left).sum())
            bound = float(np.sort(values[left])[-max(1, crossed)])
            bounds.append(bound)
            left &= values < bound
        found.append(tuple(bounds))
    widths = tuple(float(np.quantile(np.abs(values), 0.95)) for values in statistics)
    return found[0], found[1], widths
