"""The learnt weights of `starvation`: written by ``python -m benchmarks.verdict report --learn``, not by hand.

Learnt on plain profiles of labelled runs, without those that a quota or a stop signal took in lumps.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ONE_RUN", "SEVERAL_RUNS", "Weights"]


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
        0.115757,  # shares_apart
        0.118521,  # busy_shares_apart
        0.149407,  # rankings_apart
        0.121741,  # slower
        0.316487,  # spread
        0.440838,  # quartiles
        0.0883931,  # python_median
        0.37117,  # python_upper
        0.062303,  # native_median
        0.257421,  # native_upper
        0.0255829,  # python_hit
        0.200382,  # python_excess
        0.0324716,  # all_hit
        0.209853,  # all_excess
        1.28041,  # hits
        0.091265,  # python_gap
        0.459667,  # greatest_gain
        1.0161,  # gaining
        0.550222,  # python_gain
        0.917668,  # range_of_large
        0.0572647,  # calls_changed
    ),
    scale=(
        0.128469,  # shares_apart
        0.12588,  # busy_shares_apart
        0.120405,  # rankings_apart
        0.691999,  # slower
        0.427334,  # spread
        0.602668,  # quartiles
        0.639035,  # python_median
        0.839279,  # python_upper
        0.502776,  # native_median
        0.590424,  # native_upper
        0.0492611,  # python_hit
        0.563604,  # python_excess
        0.0558379,  # all_hit
        0.491392,  # all_excess
        1.07268,  # hits
        0.579,  # python_gap
        0.290152,  # greatest_gain
        0.772439,  # gaining
        0.313518,  # python_gain
        0.949556,  # range_of_large
        0.206017,  # calls_changed
    ),
    weight=(
        -0.598005,  # shares_apart
        0.468367,  # busy_shares_apart
        0.677821,  # rankings_apart
        1.01758,  # slower
        -0.525505,  # spread
        0.0725744,  # quartiles
        0.170934,  # python_median
        0.200157,  # python_upper
        0.370334,  # native_median
        0.0618656,  # native_upper
        -0.0610041,  # python_hit
        0.34005,  # python_excess
        0.834011,  # all_hit
        0.845582,  # all_excess
        0.106655,  # hits
        0.937834,  # python_gap
        -0.124358,  # greatest_gain
        -0.208842,  # gaining
        -0.813725,  # python_gain
        -0.516801,  # range_of_large
        -0.948531,  # calls_changed
    ),
    intercept=-2.75872,
    threshold=0.5705,
)
SEVERAL_RUNS = Weights(
    centre=(
        0.134808,  # shares_apart
        0.13899,  # busy_shares_apart
        0.159208,  # rankings_apart
        0.152195,  # slower
        0.326776,  # spread
        0.467278,  # quartiles
        0.113861,  # python_median
        0.38187,  # python_upper
        0.0904095,  # native_median
        0.297007,  # native_upper
        0.0288032,  # python_hit
        0.236663,  # python_excess
        0.0363921,  # all_hit
        0.246033,  # all_excess
        1.2761,  # hits
        0.109928,  # python_gap
        0.463842,  # greatest_gain
        0.955037,  # gaining
        0.565024,  # python_gain
        0.966658,  # range_of_large
        0.0825849,  # calls_changed
        0.04795,  # noisier
    ),
    scale=(
        0.133661,  # shares_apart
        0.131259,  # busy_shares_apart
        0.11307,  # rankings_apart
        0.740665,  # slower
        0.332994,  # spread
        0.531136,  # quartiles
        0.591254,  # python_median
        0.766818,  # python_upper
        0.476635,  # native_median
        0.55786,  # native_upper
        0.0488973,  # python_hit
        0.619995,  # python_excess
        0.057001,  # all_hit
        0.535206,  # all_excess
        0.986884,  # hits
        0.602361,  # python_gap
        0.211422,  # greatest_gain
        0.631348,  # gaining
        0.283332,  # python_gain
        0.81233,  # range_of_large
        0.244179,  # calls_changed
        0.594509,  # noisier
    ),
    weight=(
        -0.534907,  # shares_apart
        0.251418,  # busy_shares_apart
        0.465974,  # rankings_apart
        0.439795,  # slower
        -0.481927,  # spread
        -0.348438,  # quartiles
        0.509689,  # python_median
        0.903765,  # python_upper
        0.228467,  # native_median
        0.350771,  # native_upper
        0.184711,  # python_hit
        0.333003,  # python_excess
        0.797554,  # all_hit
        0.550492,  # all_excess
        0.340271,  # hits
        0.362912,  # python_gap
        -0.103366,  # greatest_gain
        -0.141707,  # gaining
        -0.661813,  # python_gain
        -0.360914,  # range_of_large
        -0.757213,  # calls_changed
        0.0537401,  # noisier
    ),
    intercept=-1.96937,
    threshold=0.6845,
)
