"""The learnt weights of `starvation`: written by ``python -m benchmarks.verdict report --learn``, not by hand.

Learnt on plain profiles of labelled runs, without those that a quota or a stop signal took in lumps.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ONE_RUN", "Weights"]


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model: ``1 / (1 + exp(−(intercept + Σ weight · (value − centre) / scale)))``."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weight: tuple[float, ...]
    intercept: float
    threshold: float


ONE_RUN = Weights(
    centre=(
        0.103548,  # shares_apart
        0.107501,  # busy_shares_apart
        0.149792,  # rankings_apart
        0.173399,  # slower
        0.293152,  # spread
        0.409275,  # quartiles
        0.151281,  # python_median
        0.414382,  # python_upper
        0.137659,  # native_median
        0.334606,  # native_upper
        0.020917,  # python_hit
        0.15793,  # python_excess
        0.0262872,  # all_hit
        0.17694,  # all_excess
        1.23525,  # hits
        0.0570262,  # python_gap
        0.453593,  # greatest_gain
        1.00358,  # gaining
        0.535291,  # python_gain
        0.976139,  # range_of_large
        0.0370664,  # calls_changed
    ),
    scale=(
        0.111599,  # shares_apart
        0.111255,  # busy_shares_apart
        0.110999,  # rankings_apart
        0.568055,  # slower
        0.348336,  # spread
        0.469749,  # quartiles
        0.587726,  # python_median
        0.772979,  # python_upper
        0.463684,  # native_median
        0.533031,  # native_upper
        0.0413257,  # python_hit
        0.459338,  # python_excess
        0.0470725,  # all_hit
        0.409109,  # all_excess
        1.06924,  # hits
        0.452103,  # python_gap
        0.289153,  # greatest_gain
        0.762792,  # gaining
        0.300619,  # python_gain
        1.09434,  # range_of_large
        0.165447,  # calls_changed
    ),
    weight=(
        -0.232788,  # shares_apart
        0.176124,  # busy_shares_apart
        0.169718,  # rankings_apart
        0.188812,  # slower
        -0.149319,  # spread
        0.0436664,  # quartiles
        0.190752,  # python_median
        0.534001,  # python_upper
        0.60888,  # native_median
        -0.284215,  # native_upper
        -0.235656,  # python_hit
        0.0545262,  # python_excess
        1.49651,  # all_hit
        0.136271,  # all_excess
        0.148111,  # hits
        1.0075,  # python_gap
        0.115198,  # greatest_gain
        -0.39093,  # gaining
        -0.518373,  # python_gain
        -0.44406,  # range_of_large
        -0.553045,  # calls_changed
    ),
    intercept=-3.40223,
    threshold=0.374,
)
