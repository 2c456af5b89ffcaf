"""Confidence of the rules: how often each was right on labelled runs of programs that it was not learnt on.

Written by ``python -m benchmarks.verdict report --learn``, not by hand. Shares are taken with Laplace's rule of
succession, so that what was right in all of few cases is not certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["calibrated"]

#: Confidence that a rule states itself below which it knows a reason for doubt that the labelled runs do not show.
DOUBTED = 0.7


def calibrated(
    rule: str, confidence: float, strength: float, *, counters: bool, several: bool, alone: bool = False
) -> tuple[float, bool]:
    """Return the confidence of a finding, and whether it was measured.

    Parameters
    ----------
    rule, confidence, strength
        Of the finding, as the rule states them.
    counters
        Whether both sides have the kernel's counters.
    several
        Whether there are repeats on both sides, enough for their noise.
    alone
        Whether it is of one run without another side.

    Returns
    -------
    confidence : float
        From the table; the rule's own where the table lacks it, or where it is below `DOUBTED`.
    measured : bool
        Whether it is from the table.
    """
    arm = "alone" if alone else f"{'counters' if counters else 'plain'}, {'several' if several else 'one'}"
    steps = STEPS.get(arm, {}).get(rule)
    if steps is None or confidence < DOUBTED:
        return confidence, False
    at = strength if math.isfinite(strength) else -math.inf
    return [share for least, share in steps if least <= at][-1], True


#: By arm and rule: ``(strength from which it holds, confidence)``, rising.
STEPS: Mapping[str, Mapping[str, tuple[tuple[float, float], ...]]] = {
    "counters, one": {
        "call-counts": ((-math.inf, 0.968),),
        "changed-below": ((-math.inf, 0.976),),
        "changed-source": ((-math.inf, 0.976),),
        "larger-input": ((-math.inf, 0.957),),
        "less-time": ((-math.inf, 0.996),),
        "off-cpu": ((-math.inf, 0.889),),
        "one-factor": ((-math.inf, 0.833),),
        "one-function": ((-math.inf, 0.938),),
        "run-queue-wait": ((-math.inf, 0.987),),
        "same-total": ((-math.inf, 0.993),),
        "slower-cpu": ((-math.inf, 0.967),),
        "throttling": ((-math.inf, 0.977),),
        "within-noise": (
            (-math.inf, 0.935),
            (-0.2166, 0.952),
            (-0.162, 0.997),
        ),
    },
    "counters, several": {
        "call-counts": ((-math.inf, 0.976),),
        "changed-below": ((-math.inf, 0.944),),
        "changed-source": ((-math.inf, 0.944),),
        "larger-input": ((-math.inf, 0.923),),
        "less-time": ((-math.inf, 0.990),),
        "off-cpu": ((-math.inf, 0.880),),
        "one-function": ((-math.inf, 0.875),),
        "run-queue-wait": ((-math.inf, 0.989),),
        "same-total": ((-math.inf, 0.913),),
        "slower-cpu": ((-math.inf, 0.900),),
        "throttling": ((-math.inf, 0.950),),
        "within-noise": (
            (-math.inf, 0.882),
            (-0.1618, 0.989),
        ),
    },
    "plain, one": {
        "call-counts": ((-math.inf, 0.776),),
        "less-time": ((-math.inf, 0.966),),
        "one-function": ((-math.inf, 0.833),),
        "starved": (
            (-math.inf, 0.471),
            (0.4701, 0.594),
            (0.7353, 0.647),
            (0.8466, 0.719),
            (0.9345, 0.882),
            (0.9724, 0.989),
        ),
        "within-noise": (
            (-math.inf, 0.924),
            (-0.1535, 0.938),
            (-0.1273, 0.997),
        ),
    },
    "plain, several": {
        "call-counts": ((-math.inf, 0.771),),
        "less-time": ((-math.inf, 0.990),),
        "one-function": ((-math.inf, 0.750),),
        "starved-repeats": (
            (-math.inf, 0.765),
            (0.7454, 0.857),
            (1.969, 0.941),
        ),
        "within-noise": (
            (-math.inf, 0.824),
            (-0.1591, 0.989),
        ),
    },
}
