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
        "call-counts": ((-math.inf, 0.963),),
        "changed-below": ((-math.inf, 0.955),),
        "changed-source": ((-math.inf, 0.966),),
        "larger-input": ((-math.inf, 0.947),),
        "less-time": ((-math.inf, 0.991),),
        "off-cpu": ((-math.inf, 0.940),),
        "one-function": ((-math.inf, 0.938),),
        "run-queue-wait": ((-math.inf, 0.988),),
        "slower-cpu": ((-math.inf, 0.909),),
        "throttling": ((-math.inf, 0.966),),
        "within-noise": ((-math.inf, 0.987),),
    },
    "counters, several": {
        "call-counts": ((-math.inf, 0.971),),
        "changed-below": ((-math.inf, 0.917),),
        "changed-source": ((-math.inf, 0.917),),
        "larger-input": ((-math.inf, 0.857),),
        "less-time": ((-math.inf, 0.984),),
        "off-cpu": ((-math.inf, 0.950),),
        "one-function": ((-math.inf, 0.875),),
        "run-queue-wait": ((-math.inf, 0.985),),
        "slower-cpu": ((-math.inf, 0.833),),
        "throttling": ((-math.inf, 0.929),),
        "within-noise": ((-math.inf, 0.946),),
    },
    "plain, one": {
        "call-counts": ((-math.inf, 0.821),),
        "less-time": ((-math.inf, 0.988),),
        "one-function": ((-math.inf, 0.742),),
        "starved": (
            (-math.inf, 0.625),
            (0.791, 0.688),
            (0.9581, 0.985),
        ),
        "within-noise": ((-math.inf, 0.973),),
    },
    "plain, several": {
        "call-counts": ((-math.inf, 0.848),),
        "less-time": ((-math.inf, 0.982),),
        "one-function": ((-math.inf, 0.706),),
        "starved-repeats": (
            (-math.inf, 0.647),
            (0.9664, 0.824),
            (0.9932, 0.944),
        ),
        "within-noise": ((-math.inf, 0.873),),
    },
}
