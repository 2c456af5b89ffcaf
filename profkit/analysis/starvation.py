"""How likely two plain profiles are to show starvation: a logistic model over the numbers of `signs`.

Used where the kernel's counters are missing. The weights are in `weights`, learnt on labelled runs; what the
probability is good for on programs that they were not learnt on is in ``docs/verdict.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.analysis import noise
from profkit.analysis.signs import SIGNS
from profkit.analysis.weights import ONE_RUN, SEVERAL_RUNS, Weights

__all__ = ["INPUTS", "Starvation", "inputs", "starvation"]

Floats = npt.NDArray[np.float64]

#: What the model of several runs a side reads.
INPUTS = (*SIGNS, "noisier")
#: Bound of the logarithm of the ratio of scatters.
MOST_NOISIER = 3.0


@dataclass(frozen=True, slots=True)
class Starvation:
    """What the model says.

    Attributes
    ----------
    probability
        That the candidate was denied CPU where the baseline was not, 0 to 1.
    threshold
        From where on it is said: chosen so that at most one in a hundred other pairs passes.
    """

    probability: float
    threshold: float

    @property
    def holds(self) -> bool:
        """Whether it is said."""
        return self.probability >= self.threshold


def inputs(signs: Floats, noise_log_ratio: float, runs: int) -> Floats:
    """Return what the model for so many runs a side reads."""
    if runs < noise.MIN_RUNS_NOISE:
        return signs
    noisier = 0.0 if math.isnan(noise_log_ratio) else noise_log_ratio
    return np.append(signs, np.clip(noisier, -MOST_NOISIER, MOST_NOISIER))


def starvation(
    signs: Floats,
    noise_log_ratio: float,
    runs: int,
    one: Weights = ONE_RUN,
    several: Weights = SEVERAL_RUNS,
) -> Starvation:
    """Weigh the signs.

    Parameters
    ----------
    signs
        float64 array, shape (len(SIGNS),).
    noise_log_ratio
        ln of candidate's scatter over baseline's, over replicates; NaN below `noise.MIN_RUNS_NOISE` runs a side.
    runs
        Of the side with fewer.
    one, several
        Weights for fewer runs a side than `noise.MIN_RUNS_NOISE`, and for as many or more.
    """
    weights = one if runs < noise.MIN_RUNS_NOISE else several
    values = (inputs(signs, noise_log_ratio, runs) - np.array(weights.centre)) / np.array(weights.scale)
    score = float(values @ np.array(weights.weight)) + weights.intercept
    return Starvation(1.0 / (1.0 + math.exp(-min(50.0, max(-50.0, score)))), weights.threshold)
