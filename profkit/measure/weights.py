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
        0.100359,  # shares_apart
        0.105801,  # busy_shares_apart
        0.153651,  # rankings_apart
        0.169707,  # slower
        0.315638,  # spread
        0.440602,  # quartiles
        0.151749,  # python_median
        0.431226,  # python_upper
        0.138982,  # native_median
        0.348918,  # native_upper
        0.0213466,  # python_hit
        0.157218,  # python_excess
        0.0267601,  # all_hit
        0.179282,  # all_excess
        1.29281,  # hits
        0.0546191,  # python_gap
        0.449672,  # greatest_gain
        1.01319,  # gaining
        0.537516,  # python_gain
        1.01781,  # range_of_large
        0.0377586,  # calls_changed
    ),
    scale=(
        0.105667,  # shares_apart
        0.105796,  # busy_shares_apart
        0.11363,  # rankings_apart
        0.554499,  # slower
        0.377401,  # spread
        0.515342,  # quartiles
        0.608255,  # python_median
        0.796474,  # python_upper
        0.491242,  # native_median
        0.569639,  # native_upper
        0.0419446,  # python_hit
        0.43519,  # python_excess
        0.0472588,  # all_hit
        0.39477,  # all_excess
        1.09774,  # hits
        0.441009,  # python_gap
        0.284925,  # greatest_gain
        0.754628,  # gaining
        0.297483,  # python_gain
        1.14808,  # range_of_large
        0.16873,  # calls_changed
    ),
    weight=(
        -0.227522,  # shares_apart
        0.102854,  # busy_shares_apart
        0.19362,  # rankings_apart
        0.190784,  # slower
        -0.175912,  # spread
        0.0575895,  # quartiles
        0.354603,  # python_median
        0.389257,  # python_upper
        0.553048,  # native_median
        -0.204066,  # native_upper
        -0.29571,  # python_hit
        0.182722,  # python_excess
        1.53865,  # all_hit
        0.115821,  # all_excess
        0.189184,  # hits
        1.09928,  # python_gap
        0.0948846,  # greatest_gain
        -0.380122,  # gaining
        -0.571873,  # python_gain
        -0.309025,  # range_of_large
        -0.557244,  # calls_changed
    ),
    intercept=-3.52945,
    threshold=0.4023,
)
