"""The learned weights of `starvation`, written by ``python -m benchmarks.verdict report --learn``.

Runs that a quota or a stop signal interrupted in lumps were left out.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        0.0890519,  # shares_apart
        0.101306,  # busy_shares_apart
        0.153129,  # rankings_apart
        0.151566,  # slower
        0.473748,  # spread
        0.675845,  # quartiles
        0.156395,  # python_median
        0.575525,  # python_upper
        0.124909,  # native_median
        0.383379,  # native_upper
        0.022589,  # python_hit
        0.154179,  # python_excess
        0.0316222,  # all_hit
        0.176967,  # all_excess
        1.47986,  # hits
        0.0293112,  # python_gap
        0.465322,  # greatest_gain
        1.087,  # gaining
        0.529891,  # python_gain
        0.863259,  # range_of_large
        0.0384867,  # calls_changed
    ),
    scale=(
        0.0942086,  # shares_apart
        0.0988954,  # busy_shares_apart
        0.105084,  # rankings_apart
        0.428193,  # slower
        0.71355,  # spread
        0.97996,  # quartiles
        0.810145,  # python_median
        0.944832,  # python_upper
        0.500664,  # native_median
        0.605694,  # native_upper
        0.0351584,  # python_hit
        0.243536,  # python_excess
        0.0400482,  # all_hit
        0.245751,  # all_excess
        0.984109,  # hits
        0.363085,  # python_gap
        0.271901,  # greatest_gain
        0.733966,  # gaining
        0.2615,  # python_gain
        1.09566,  # range_of_large
        0.155514,  # calls_changed
    ),
    weight=(
        -0.183297,  # shares_apart
        -0.586309,  # busy_shares_apart
        0.75759,  # rankings_apart
        -0.171708,  # slower
        -0.225194,  # spread
        -0.215623,  # quartiles
        0.13897,  # python_median
        0.364532,  # python_upper
        0.21563,  # native_median
        0.281263,  # native_upper
        0.270727,  # python_hit
        -0.449353,  # python_excess
        0.430072,  # all_hit
        0.80772,  # all_excess
        -0.524027,  # hits
        1.09876,  # python_gap
        -0.175511,  # greatest_gain
        -0.00120288,  # gaining
        -0.286311,  # python_gain
        -0.0324503,  # range_of_large
        -0.459318,  # calls_changed
    ),
    intercept=-3.28272,
    threshold=0.4815,
)
