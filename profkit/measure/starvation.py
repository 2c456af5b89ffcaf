"""How likely two plain profiles are to show starvation: a logistic model over the numbers of `signs`.

Used where the kernel's counters are missing. The weights are in `weights`, learnt on labelled runs; what the
probability is good for on programs that they were not learnt on is in ``docs/verdict.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.measure.weights import ONE_RUN, Weights

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Starvation:
    """What the model returns.

    Attributes
    ----------
    probability
        That the candidate was denied CPU where the baseline was not, 0 to 1.
    threshold
        From where on it holds: chosen so that at most 15 in a thousand other pairs pass.
    """

    probability: float
    threshold: float

    @property
    def holds(self) -> bool:
        """Whether the probability is beyond the threshold."""
        return self.probability >= self.threshold


def starvation(signs: Floats, weights: Weights = ONE_RUN) -> Starvation:
    """Weigh the signs.

    Parameters
    ----------
    signs
        float64 array, shape (len(SIGNS),).
    weights
        Learnt on labelled pairs.
    """
    values = (signs - np.array(weights.centre)) / np.array(weights.scale)
    score = float(values @ np.array(weights.weight)) + weights.intercept
    return Starvation(1.0 / (1.0 + math.exp(-min(50.0, max(-50.0, score)))), weights.threshold)
