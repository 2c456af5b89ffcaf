"""Probability that two plain profiles show starvation: a logistic model over `signs`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from profkit.compare.starvation_weights import ONE_RUN, Weights
from profkit.model.arrays import Floats


@dataclass(frozen=True, slots=True)
class Starvation:
    """Probability that only the candidate was denied CPU; at most 1.5 % of other pairs reach `threshold`."""

    probability: float
    threshold: float

    @property
    def holds(self) -> bool:
        """Whether the probability reaches the threshold."""
        return self.probability >= self.threshold


def starvation(signs: Floats, weights: Weights = ONE_RUN) -> Starvation:
    """Return the probability for signs of shape (len(SIGNS),)."""
    values = (signs - np.array(weights.centre)) / np.array(weights.scale)
    score = float(values @ np.array(weights.weight)) + weights.intercept
    return Starvation(1.0 / (1.0 + math.exp(-min(50.0, max(-50.0, score)))), weights.threshold)
