"""The learnt weights of `starvation`: written by ``python -m benchmarks.verdict learn``, not by hand.

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
        0.126016,  # shares_apart
        0.127728,  # busy_shares_apart
        0.13028,  # rankings_apart
        0.208011,  # slower
        0.15675,  # spread
        0.223644,  # quartiles
        0.105171,  # python_median
        0.283703,  # python_upper
        0.102718,  # native_median
        0.211282,  # native_upper
        0.0334663,  # python_hit
        0.300536,  # python_excess
        0.0370701,  # all_hit
        0.279193,  # all_excess
        0.758281,  # hits
        0.115687,  # python_gap
        0.456622,  # greatest_gain
        0.962504,  # gaining
        0.562874,  # python_gain
        0.848061,  # range_of_large
        0.0892886,  # calls_changed
    ),
    scale=(
        0.15842,  # shares_apart
        0.162622,  # busy_shares_apart
        0.130892,  # rankings_apart
        0.83966,  # slower
        0.140654,  # spread
        0.201149,  # quartiles
        0.471391,  # python_median
        0.687145,  # python_upper
        0.446553,  # native_median
        0.475565,  # native_upper
        0.0680288,  # python_hit
        0.877464,  # python_excess
        0.0712428,  # all_hit
        0.73713,  # all_excess
        0.989622,  # hits
        0.684522,  # python_gap
        0.303205,  # greatest_gain
        0.826985,  # gaining
        0.376195,  # python_gain
        0.790756,  # range_of_large
        0.272971,  # calls_changed
    ),
    weight=(
        0.739237,  # shares_apart
        0.777885,  # busy_shares_apart
        0.0611586,  # rankings_apart
        0.816007,  # slower
        -0.298556,  # spread
        -0.414511,  # quartiles
        0.385193,  # python_median
        -0.0550334,  # python_upper
        0.539771,  # native_median
        0.782856,  # native_upper
        0.347349,  # python_hit
        -0.063657,  # python_excess
        0.767013,  # all_hit
        0.479293,  # all_excess
        0.867315,  # hits
        0.14455,  # python_gap
        0.0437118,  # greatest_gain
        0.234992,  # gaining
        -1.00881,  # python_gain
        0.385652,  # range_of_large
        -0.172963,  # calls_changed
    ),
    intercept=-2.84118,
    threshold=0.7796,
)
SEVERAL_RUNS = Weights(
    centre=(
        0.160836,  # shares_apart
        0.163951,  # busy_shares_apart
        0.162427,  # rankings_apart
        0.218155,  # slower
        0.183521,  # spread
        0.264872,  # quartiles
        0.106974,  # python_median
        0.320103,  # python_upper
        0.102792,  # native_median
        0.225148,  # native_upper
        0.0381293,  # python_hit
        0.369385,  # python_excess
        0.0425695,  # all_hit
        0.341059,  # all_excess
        0.844718,  # hits
        0.134253,  # python_gap
        0.45099,  # greatest_gain
        0.863539,  # gaining
        0.583527,  # python_gain
        1.06196,  # range_of_large
        0.123472,  # calls_changed
        0.0738508,  # noisier
    ),
    scale=(
        0.164789,  # shares_apart
        0.16916,  # busy_shares_apart
        0.134561,  # rankings_apart
        0.960094,  # slower
        0.143108,  # spread
        0.201951,  # quartiles
        0.524465,  # python_median
        0.757421,  # python_upper
        0.510705,  # native_median
        0.527747,  # native_upper
        0.0681001,  # python_hit
        0.96789,  # python_excess
        0.0730173,  # all_hit
        0.806338,  # all_excess
        0.999961,  # hits
        0.742449,  # python_gap
        0.254378,  # greatest_gain
        0.701929,  # gaining
        0.339064,  # python_gain
        0.812186,  # range_of_large
        0.31463,  # calls_changed
        0.651491,  # noisier
    ),
    weight=(
        0.303459,  # shares_apart
        0.310948,  # busy_shares_apart
        0.0511505,  # rankings_apart
        0.367262,  # slower
        -0.0561202,  # spread
        -0.174705,  # quartiles
        0.130092,  # python_median
        0.0867131,  # python_upper
        0.245497,  # native_median
        0.404252,  # native_upper
        0.53496,  # python_hit
        0.0793932,  # python_excess
        0.591039,  # all_hit
        0.334533,  # all_excess
        0.969913,  # hits
        0.0118185,  # python_gap
        0.134363,  # greatest_gain
        0.133608,  # gaining
        -0.662094,  # python_gain
        0.354852,  # range_of_large
        -0.143274,  # calls_changed
        0.654729,  # noisier
    ),
    intercept=-1.76912,
    threshold=0.6559,
)
