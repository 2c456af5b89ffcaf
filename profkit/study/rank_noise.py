"""How far a process is from the others, and from where that is more than the noise of balanced processes."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from profkit.measure.function_orders import MAD_SCALE
from profkit.model.arrays import Floats

#: Chance (1) of a false straggler in one component of a balanced job with normal noise.
ALPHA = 0.01
#: Standard deviations of balanced processes, as parts (1) of the usual value: CPU time, self time without
#: counters, queueing, time off the CPU. Measured on balanced MPI jobs on a busy machine (docs/ranks.md).
RUN_NOISE, PLAIN_NOISE, QUEUE_NOISE, BLOCKED_NOISE = 0.02, 0.10, 0.35, 0.50
#: Least standard deviations: of a function, as a part of all CPU time; of queueing and blocking, of the pace.
LEAST_RUN, LEAST_OFF = 0.002, 0.01
#: Degrees of freedom of the measured noise, which is weighted against the scatter of the others.
PRIOR_FREEDOM = 8.0
#: Efficiency of the median absolute deviation: it is worth this part of `n` values (Rousseeuw and Croux
#: 1993).
MAD_EFFICIENCY = 0.37
#: Processes from which their scatter is meaningful.
LEAST_SCATTER = 4


def others_median(values: Floats) -> Floats:
    """Return for each row the median of the other rows, column by column; `values` has at least two rows."""
    n = len(values)
    ordered = np.sort(values, axis=0)
    place = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    low, high = (n - 2) // 2, (n - 1) // 2

    def at(index: int) -> Floats:
        # Without the value itself, those above it move down by one.
        below, above = ordered[index], ordered[min(index + 1, n - 1)]
        result: Floats = np.where(place > index, below, above)
        return result

    return (at(low) + at(high)) / 2


def threshold(n: int, tests: int = 1) -> float:
    """Return from how many standard deviations an excess is beyond the noise among `n` processes.

    One-sided quantile of Student's t at 1 − `ALPHA` / (n × tests), by Wallace's approximation (Annals of
    Mathematical Statistics 30, 1959). √(1 + v / (n − 1)) covers the noise of the others' median: v is 1 for
    two, π/2 for many.
    """
    freedom = PRIOR_FREEDOM + (MAD_EFFICIENCY * n if n >= LEAST_SCATTER else 0.0)
    z = NormalDist().inv_cdf(1 - ALPHA / (n * max(tests, 1)))
    scaled = z * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(scaled * scaled / freedom)) * math.sqrt(
        1 + (1 if n < 4 else math.pi / 2) / (n - 1)
    )


def _scale(values: Floats, prior: Floats) -> Floats:
    """Return the standard deviation of each value, from its column's scatter and the measured noise.

    Mean of both variances, weighted by degrees of freedom; scatter is the median absolute deviation (Smyth,
    Statistical Applications in Genetics and Molecular Biology 3, 2004).
    """
    n = len(values)
    if n < LEAST_SCATTER:
        return prior
    spread = MAD_SCALE * np.median(np.abs(values - np.median(values, axis=0)), axis=0)
    own = MAD_EFFICIENCY * n
    variance: Floats = (PRIOR_FREEDOM * prior**2 + own * spread**2) / (PRIOR_FREEDOM + own)
    return np.sqrt(variance)


def outliers(values: Floats, relative: float | Floats, least: float) -> tuple[Floats, Floats]:
    """Return the excess of each value over the others' median, and the same in standard deviations."""
    # Noise is relative to the others' median: of two processes, a common median contains half of the outlier.
    others = others_median(values)
    prior = np.sqrt((relative * others) ** 2 + least**2)
    excess = values - others
    return excess, excess / np.maximum(_scale(values, prior), 1e-12)
