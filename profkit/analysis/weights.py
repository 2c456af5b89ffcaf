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
        0.0869639,  # shares_apart
        0.0885953,  # busy_shares_apart
        0.130122,  # rankings_apart
        0.424345,  # slower
        0.264698,  # spread
        0.356809,  # quartiles
        0.403504,  # python_median
        0.642505,  # python_upper
        0.395251,  # native_median
        0.560481,  # native_upper
        0.0171952,  # python_hit
        0.126543,  # python_excess
        0.0226898,  # all_hit
        0.136675,  # all_excess
        1.14941,  # hits
        0.0418975,  # python_gap
        0.447047,  # greatest_gain
        1.06169,  # gaining
        0.534194,  # python_gain
        0.806525,  # range_of_large
        0.0300354,  # calls_changed
    ),
    scale=(
        0.101553,  # shares_apart
        0.0991042,  # busy_shares_apart
        0.10701,  # rankings_apart
        0.631623,  # slower
        0.357658,  # spread
        0.482367,  # quartiles
        0.616117,  # python_median
        0.780072,  # python_upper
        0.592957,  # native_median
        0.626737,  # native_upper
        0.038447,  # python_hit
        0.414072,  # python_excess
        0.0439035,  # all_hit
        0.36343,  # all_excess
        1.03443,  # hits
        0.424302,  # python_gap
        0.286368,  # greatest_gain
        0.770495,  # gaining
        0.296147,  # python_gain
        0.907492,  # range_of_large
        0.149642,  # calls_changed
    ),
    weight=(
        -0.396544,  # shares_apart
        0.76835,  # busy_shares_apart
        0.644355,  # rankings_apart
        0.238651,  # slower
        -0.242451,  # spread
        0.093824,  # quartiles
        -0.0427511,  # python_median
        -0.286952,  # python_upper
        -0.0128823,  # native_median
        -0.23784,  # native_upper
        -0.023284,  # python_hit
        0.371372,  # python_excess
        0.755681,  # all_hit
        1.48795,  # all_excess
        -0.183427,  # hits
        1.16173,  # python_gap
        0.202562,  # greatest_gain
        0.354837,  # gaining
        -0.928243,  # python_gain
        -0.56508,  # range_of_large
        -0.816497,  # calls_changed
    ),
    intercept=-3.92657,
    threshold=0.5917,
)
SEVERAL_RUNS = Weights(
    centre=(
        0.102851,  # shares_apart
        0.105831,  # busy_shares_apart
        0.136706,  # rankings_apart
        0.387376,  # slower
        0.271524,  # spread
        0.380267,  # quartiles
        0.361258,  # python_median
        0.574193,  # python_upper
        0.357854,  # native_median
        0.537511,  # native_upper
        0.0209171,  # python_hit
        0.163224,  # python_excess
        0.0269943,  # all_hit
        0.17268,  # all_excess
        1.14361,  # hits
        0.0653465,  # python_gap
        0.465375,  # greatest_gain
        0.986203,  # gaining
        0.547487,  # python_gain
        0.82689,  # range_of_large
        0.0520233,  # calls_changed
        0.0123863,  # noisier
    ),
    scale=(
        0.11421,  # shares_apart
        0.112891,  # busy_shares_apart
        0.0996745,  # rankings_apart
        0.674967,  # slower
        0.283207,  # spread
        0.447537,  # quartiles
        0.58549,  # python_median
        0.681417,  # python_upper
        0.537456,  # native_median
        0.571237,  # native_upper
        0.0406651,  # python_hit
        0.498827,  # python_excess
        0.0475038,  # all_hit
        0.433285,  # all_excess
        0.935609,  # hits
        0.478425,  # python_gap
        0.198155,  # greatest_gain
        0.556619,  # gaining
        0.252249,  # python_gain
        0.744533,  # range_of_large
        0.196433,  # calls_changed
        0.546413,  # noisier
    ),
    weight=(
        -0.40628,  # shares_apart
        0.418289,  # busy_shares_apart
        0.622209,  # rankings_apart
        -0.013216,  # slower
        -0.0782275,  # spread
        -0.0630252,  # quartiles
        0.00191264,  # python_median
        0.204753,  # python_upper
        -0.305739,  # native_median
        -0.171513,  # native_upper
        0.246152,  # python_hit
        0.534936,  # python_excess
        0.971347,  # all_hit
        0.894287,  # all_excess
        0.111846,  # hits
        1.02851,  # python_gap
        -0.00340448,  # greatest_gain
        0.0446247,  # gaining
        -0.84505,  # python_gain
        -0.536054,  # range_of_large
        -0.639591,  # calls_changed
        0.311863,  # noisier
    ),
    intercept=-2.86254,
    threshold=0.8148,
)
