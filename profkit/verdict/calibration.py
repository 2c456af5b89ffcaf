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
    "alone": {
        "loading": ((-math.inf, 0.917),),
        "off-cpu": ((-math.inf, 0.947),),
        "run-queue-wait": ((-math.inf, 0.996),),
        "throttling": ((-math.inf, 0.963),),
    },
    "counters, one": {
        "call-counts": ((-math.inf, 0.989),),
        "changed-source": ((-math.inf, 0.992),),
        "larger-input": (
            (-math.inf, 0.882),
            (0.5008, 0.970),
        ),
        "less-time": ((-math.inf, 0.980),),
        "loading": ((-math.inf, 0.941),),
        "more-per-call": ((-math.inf, 0.917),),
        "nothing-beyond": ((-math.inf, 0.840),),
        "off-cpu": ((-math.inf, 0.973),),
        "run-queue-wait": ((-math.inf, 0.990),),
        "same-total": ((-math.inf, 0.987),),
        "slower-cpu": ((-math.inf, 0.958),),
        "throttling": ((-math.inf, 0.964),),
        "within-noise": (
            (-math.inf, 0.824),
            (-0.1465, 0.998),
        ),
    },
    "counters, several": {
        "call-counts": ((-math.inf, 0.974),),
        "changed-source": ((-math.inf, 0.978),),
        "larger-input": ((-math.inf, 0.947),),
        "less-time": ((-math.inf, 0.989),),
        "loading": ((-math.inf, 0.875),),
        "more-per-call": ((-math.inf, 0.750),),
        "off-cpu": ((-math.inf, 0.938),),
        "run-queue-wait": ((-math.inf, 0.987),),
        "same-total": ((-math.inf, 0.885),),
        "slower-cpu": ((-math.inf, 0.909),),
        "throttling": ((-math.inf, 0.917),),
        "within-noise": ((-math.inf, 0.989),),
    },
    "plain, one": {
        "call-counts": ((-math.inf, 0.921),),
        "calls-per-call": ((-math.inf, 0.970),),
        "less-time": ((-math.inf, 0.917),),
        "starved": (
            (-math.inf, 0.702),
            (0.7567, 0.706),
            (0.8288, 0.906),
            (0.9574, 0.976),
        ),
        "within-noise": (
            (-math.inf, 0.353),
            (-0.158, 0.647),
            (-0.1429, 0.765),
            (-0.1289, 0.882),
            (-0.117, 0.936),
            (-0.09729, 0.998),
        ),
    },
    "plain, several": {
        "call-counts": ((-math.inf, 0.935),),
        "calls-per-call": ((-math.inf, 0.929),),
        "less-time": ((-math.inf, 0.989),),
        "starved-repeats": (
            (-math.inf, 0.588),
            (1.093, 0.824),
            (1.587, 0.977),
        ),
        "within-noise": (
            (-math.inf, 0.765),
            (-0.07347, 0.988),
        ),
    },
}
