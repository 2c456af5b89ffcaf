"""Confidence of the rules: how often each was right on labelled runs of programs that it was not learnt on.

Written by ``python -m benchmarks.verdict learn``, not by hand. Shares are taken with Laplace's rule of succession, so
that what was right in all of few cases is not certain.
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
STEPS: Mapping[str, Mapping[str, tuple[tuple[float, float], ...]]] = {}
