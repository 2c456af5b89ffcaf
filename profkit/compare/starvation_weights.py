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
        "shares_apart": (0.0890519, 0.0942086, -0.183297),
        "busy_shares_apart": (0.101306, 0.0988954, -0.586309),
        "rankings_apart": (0.153129, 0.105084, 0.75759),
        "slower": (0.151566, 0.428193, -0.171708),
        "spread": (0.473748, 0.71355, -0.225194),
        "quartiles": (0.675845, 0.97996, -0.215623),
        "python_median": (0.156395, 0.810145, 0.13897),
        "python_upper": (0.575525, 0.944832, 0.364532),
        "native_median": (0.124909, 0.500664, 0.21563),
        "native_upper": (0.383379, 0.605694, 0.281263),
        "python_hit": (0.022589, 0.0351584, 0.270727),
        "python_excess": (0.154179, 0.243536, -0.449353),
        "all_hit": (0.0316222, 0.0400482, 0.430072),
        "all_excess": (0.176967, 0.245751, 0.80772),
        "hits": (1.47986, 0.984109, -0.524027),
        "python_gap": (0.0293112, 0.363085, 1.09876),
        "greatest_gain": (0.465322, 0.271901, -0.175511),
        "gaining": (1.087, 0.733966, -0.00120288),
        "python_gain": (0.529891, 0.2615, -0.286311),
        "range_of_large": (0.863259, 1.09566, -0.0324503),
        "calls_changed": (0.0384867, 0.155514, -0.459318),
    },
    intercept=-3.28272,
    threshold=0.4815,
)
