"""The learned weights of `starvation`, written by ``python -m benchmarks.verdict report --learn``.

Runs that a quota or a stop signal interrupted in lumps were left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model: ``1 / (1 + exp(−(intercept + Σ weight · (value − centre) / scale)))``.

    `signs` holds centre, scale and weight of each sign.
    """

    signs: Mapping[str, tuple[float, float, float]]
    intercept: float
    threshold: float


ONE_RUN = Weights(
    signs={
        "shares_apart": (0.113678, 0.136757, -0.174739),
        "busy_shares_apart": (0.110746, 0.134289, -0.648657),
        "rankings_apart": (0.133364, 0.118962, 0.332295),
        "slower": (0.103124, 0.716231, 0.695365),
        "spread": (0.21702, 0.279201, 0.06263),
        "quartiles": (0.304796, 0.373963, -0.0955589),
        "python_median": (0.0485008, 0.606728, -0.19183),
        "python_upper": (0.246449, 0.725776, 0.53776),
        "native_median": (0.0516975, 0.557105, -1.01274),
        "native_upper": (0.183696, 0.587095, 0.637121),
        "python_hit": (0.0274367, 0.0551045, -0.335651),
        "python_excess": (0.208401, 0.63981, -0.384795),
        "all_hit": (0.0309618, 0.058605, 1.0031),
        "all_excess": (0.202036, 0.546647, 0.726289),
        "hits": (0.984678, 1.06968, 0.365801),
        "python_gap": (0.0376921, 0.573993, 0.736378),
        "greatest_gain": (0.474825, 0.328063, 0.16963),
        "gaining": (0.816056, 0.8024, 0.335424),
        "python_gain": (0.583493, 0.345335, -0.306838),
        "range_of_large": (0.761613, 0.841025, -0.407684),
        "calls_changed": (0.0821033, 0.247619, -0.826537),
    },
    intercept=-2.65242,
    threshold=0.3169,
)
