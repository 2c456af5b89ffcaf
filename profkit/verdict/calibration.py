"""Confidence of the rules, written by ``python -m benchmarks.verdict confidences``.

Shares follow Laplace's rule of succession, so that a rule right in all of few cases is not certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from profkit.verdict.thresholds import value

#: By rule: ``(least strength, share that was right)``, ascending.
Steps: TypeAlias = "Mapping[str, tuple[tuple[float, float], ...]]"

#: Arm of one run without another side.
ALONE = "alone"


def arm_of(*, counters: bool, several: bool) -> str:
    """Return the key of `STEPS`: whether both sides have kernel counters, and repeats to know their noise."""
    return f"{'counters' if counters else 'plain'}, {'several' if several else 'one'}"


def confidence(
    rule: str, stated: float, doubt: float | None, strength: float, steps: Steps, left: float = 1.0
) -> tuple[float, bool]:
    """Return the confidence of a finding, and whether it may be shown.

    It is the table's share, at most `doubt`, times `left` (what other causes and differences leave). Rules
    that the table lacks use `stated`, as do those doubted below ``confidence.shown``; these are not shown,
    since `steps` come from undoubted cases.
    """
    found = steps.get(rule)
    most = stated if doubt is None else min(stated, doubt)
    if found is None or (doubt is not None and doubt < value("confidence.shown")):
        return most * left, False
    at = strength if math.isfinite(strength) else -math.inf
    share = [share for least, share in found if least <= at][-1]
    return (share if doubt is None else min(share, doubt)) * left, True


#: By arm and rule: ``(least strength, confidence)``, ascending.
STEPS: Mapping[str, Steps] = {
    "alone": {
        "loading": ((-math.inf, 0.923),),
        "off-cpu": ((-math.inf, 0.294), (0.6706, 0.692)),
        "run-queue-wait": ((-math.inf, 0.919), (0.4731, 0.997)),
        "throttling": ((-math.inf, 0.979),),
    },
    "counters, one": {
        "call-counts": ((-math.inf, 0.837),),
        "changed-source": ((-math.inf, 0.984),),
        "child-programs": ((-math.inf, 0.786),),
        "larger-input": ((-math.inf, 0.882), (0.5008, 0.970)),
        "less-time": ((-math.inf, 0.960),),
        "loading": ((-math.inf, 0.923),),
        "more-per-call": ((-math.inf, 0.917),),
        "more-to-do": ((-math.inf, 0.588), (0.3898, 0.824), (0.4595, 0.957), (0.613, 0.971)),
        "nothing-beyond": ((-math.inf, 0.471), (-0.1966, 0.969)),
        "off-cpu": ((-math.inf, 0.795),),
        "one-function": ((-math.inf, 0.941),),
        "own-locks": ((-math.inf, 0.889),),
        "run-queue-wait": ((-math.inf, 0.961),),
        "same-total": ((-math.inf, 0.955),),
        "slower-cpu": ((-math.inf, 0.923),),
        "throttling": ((-math.inf, 0.957),),
        "within-noise": (
            (-math.inf, 0.831),
            (-0.1874, 0.882),
            (-0.1755, 0.978),
            (-0.1064, 0.989),
            (-0.0622, 0.998),
        ),
    },
    "counters, several": {
        "call-counts": ((-math.inf, 0.938),),
        "changed-source": ((-math.inf, 0.979),),
        "larger-input": ((-math.inf, 0.947),),
        "less-time": ((-math.inf, 0.975),),
        "loading": ((-math.inf, 0.875),),
        "more-per-call": ((-math.inf, 0.750),),
        "more-to-do": ((-math.inf, 0.974),),
        "off-cpu": ((-math.inf, 0.786),),
        "one-function": ((-math.inf, 0.875),),
        "run-queue-wait": ((-math.inf, 0.989),),
        "same-total": ((-math.inf, 0.700),),
        "slower-cpu": ((-math.inf, 0.909),),
        "throttling": ((-math.inf, 0.944),),
        "within-noise": ((-math.inf, 0.706), (-0.1144, 0.992)),
    },
    "plain, one": {
        "call-counts": ((-math.inf, 0.982),),
        "calls-per-call": ((-math.inf, 0.970),),
        "changed-source": ((-math.inf, 0.929),),
        "less-time": ((-math.inf, 0.960),),
        "longer-loops": ((-math.inf, 0.857),),
        "one-function": ((-math.inf, 0.889),),
        "quota-lumps": ((-math.inf, 0.778),),
        "starved": ((-math.inf, 0.660), (0.8411, 0.938), (0.9814, 0.955)),
    },
    "plain, several": {
        "call-counts": ((-math.inf, 0.929),),
        "calls-per-call": ((-math.inf, 0.929),),
        "less-time": ((-math.inf, 0.964),),
        "one-function": ((-math.inf, 0.875),),
        "starved-repeats": ((-math.inf, 0.844),),
    },
}
