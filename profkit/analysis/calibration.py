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


def calibrated(rule: str, confidence: float, strength: float, *, counters: bool, several: bool) -> float:
    """Return the confidence of a finding.

    Parameters
    ----------
    rule, confidence, strength
        Of the finding, as the rule states them.
    counters
        Whether both sides have the kernel's counters.
    several
        Whether there are repeats on both sides, enough for their noise.

    Returns
    -------
    float
        From the table; the rule's own where the table lacks it, or where it is below `DOUBTED`.
    """
    steps = STEPS.get(f"{'counters' if counters else 'plain'}, {'several' if several else 'one'}", {}).get(
        rule
    )
    if steps is None or confidence < DOUBTED:
        return confidence
    at = strength if math.isfinite(strength) else -math.inf
    return [share for least, share in steps if least <= at][-1]


#: By arm and rule: ``(strength from which it holds, confidence)``, rising.
STEPS: Mapping[str, Mapping[str, tuple[tuple[float, float], ...]]] = {
    "counters, one": {
        "call-counts": ((-math.inf, 0.962),),
        "changed-below": ((-math.inf, 0.969),),
        "changed-source": ((-math.inf, 0.974),),
        "larger-input": ((-math.inf, 0.955),),
        "less-time": ((-math.inf, 0.996),),
        "off-cpu": ((-math.inf, 0.881),),
        "one-factor": ((-math.inf, 0.833),),
        "one-function": ((-math.inf, 0.938),),
        "run-queue-wait": ((-math.inf, 0.984),),
        "same-total": ((-math.inf, 0.989),),
        "slower-cpu": ((-math.inf, 0.962),),
        "throttling": ((-math.inf, 0.974),),
        "within-noise": (
            (-math.inf, 0.936),
            (-0.2285, 0.952),
            (-0.162, 0.997),
        ),
    },
    "counters, several": {
        "call-counts": ((-math.inf, 0.971),),
        "changed-below": ((-math.inf, 0.929),),
        "changed-source": ((-math.inf, 0.944),),
        "larger-input": ((-math.inf, 0.917),),
        "less-time": ((-math.inf, 0.989),),
        "off-cpu": ((-math.inf, 0.957),),
        "one-function": ((-math.inf, 0.875),),
        "run-queue-wait": ((-math.inf, 0.987),),
        "same-total": ((-math.inf, 0.938),),
        "slower-cpu": ((-math.inf, 0.900),),
        "throttling": ((-math.inf, 0.944),),
        "within-noise": (
            (-math.inf, 0.882),
            (-0.143, 0.986),
        ),
    },
    "plain, one": {
        "call-counts": ((-math.inf, 0.742),),
        "less-time": ((-math.inf, 0.968),),
        "one-function": ((-math.inf, 0.828),),
        "starved": (
            (-math.inf, 0.532),
            (0.8166, 0.812),
            (0.9298, 0.882),
            (0.9699, 0.984),
        ),
        "within-noise": (
            (-math.inf, 0.882),
            (-0.258, 0.935),
            (-0.1273, 0.996),
        ),
    },
    "plain, several": {
        "call-counts": ((-math.inf, 0.738),),
        "less-time": ((-math.inf, 0.989),),
        "one-function": ((-math.inf, 0.750),),
        "starved-repeats": (
            (-math.inf, 0.765),
            (0.8381, 0.839),
            (1.813, 0.889),
        ),
        "within-noise": (
            (-math.inf, 0.824),
            (-0.143, 0.986),
        ),
    },
}
