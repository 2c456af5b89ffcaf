"""Waiting for a GPU, and who else used it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from profkit.measure.composition import Composition
from profkit.verdict.account import GPU
from profkit.verdict.readings.known_values import grown, growth_of
from profkit.verdict.readings.lost_time import most_in, separate
from profkit.verdict.rule import Reading, more
from profkit.verdict.thresholds import value


def waited_s(parts: Sequence[Composition]) -> float:
    """Return the mean seconds that a side's runs waited for a GPU."""
    return float(np.mean([0.0 if c.on_gpu is None else c.on_gpu.sum() for c in parts]))


ON_THE_GPU: Mapping[str, Reading] = {
    "account.gpu": Reading(
        "share", "part of the lost time: functions that wait for a GPU", lambda c: separate(c, GPU)
    ),
    "gpu.waited": Reading(
        "s", "seconds in functions that wait for a GPU", lambda c: waited_s(c.signals.walls.candidate.parts)
    ),
    "gpu.waited-before": Reading(
        "s", "gpu.waited of the baseline", lambda c: waited_s(c.signals.walls.baseline.parts)
    ),
    "gpu.beyond": grown("waiting for a GPU grew beyond its noise", GPU),
    "gpu.function": Reading(
        "text", "the function whose waiting for a GPU grew most", lambda c: most_in(c.account, GPU)
    ),
    "gpu.others": Reading("share", "GPU use by other programs", lambda c: c.now.gpu_others_share),
    "gpu.others-growth": growth_of(
        "share", "growth of gpu.others, if both sides know it", lambda side: side.gpu_others_share
    ),
    "gpu.shared": Reading(
        "bool",
        "other programs used the GPU more than during the baseline",
        lambda c: c.number("gpu.others-growth") >= value("gpu.others"),
        (more("gpu.others-growth", "gpu.others"),),
    ),
    "kind.gpu": Reading("text", "the kind of contention for a GPU", lambda c: "shared-gpu"),
}
