"""Orders of functions and distances between them: ranks, shares, rank-biased overlap, per-call ratios."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Floats, Ints, Rows, median

#: Makes the median absolute deviation estimate the standard deviation of normal data: 1 / Φ⁻¹(3/4).
MAD_SCALE = 1.4826


def ranks(values: Floats, tiebreak: Rows | None = None) -> Ints:
    """Return unique ranks, 1 for the greatest value; of equal values the lowest `tiebreak` comes first."""
    order = ascending(-values, np.arange(len(values)) if tiebreak is None else tiebreak)
    result = np.empty(len(values), np.int64)
    result[order] = np.arange(1, len(values) + 1)
    return result


def ascending(values: Floats, tiebreak: Rows) -> npt.NDArray[np.intp]:
    """Return ``numpy.lexsort((tiebreak, values))``, in half the time where all values differ."""
    order = np.argsort(values)
    ordered = values[order]
    return order if (ordered[1:] > ordered[:-1]).all() else np.lexsort((tiebreak, values))


def shares(values: Floats) -> Floats:
    """Return parts of the sum; all 0 where the sum is 0."""
    total = float(values.sum())
    return values / total if total > 0 else np.zeros(len(values))


def rbo_distance(order_a: Rows, order_b: Rows, p: float = 0.9, depth: int = 50) -> float:
    """Return the rank-biased overlap distance ``1 − RBO_EXT`` of two rankings: 0 alike, 1 disjoint.

    Rankings have no duplicates, most important first. `p` = 0.9 puts 86 % of the weight on the first ten.
    Webber, Moffat and Zobel, ACM TOIS 28(4), 2010, equation (32), which allows uneven lengths.
    """
    short, long = sorted((order_a[:depth], order_b[:depth]), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return 0.0 if n == 0 else 1.0
    _, at_short, at_long = np.intersect1d(short, long, return_indices=True)
    seen_from = np.maximum(at_short, at_long)
    overlap = np.cumsum(np.bincount(seen_from, minlength=n)).astype(np.float64)
    d = np.arange(1, n + 1, dtype=np.float64)
    weight = p**d
    at_s, at_n = float(overlap[s - 1]), float(overlap[n - 1])
    beyond = d > s
    total = float((overlap / d * weight).sum())
    total += float((at_s * (d[beyond] - s) / (s * d[beyond]) * weight[beyond]).sum())
    similarity = (1 - p) / p * total + ((at_n - at_s) / n + at_s / s) * p**n
    return float(min(1.0, max(0.0, 1.0 - similarity)))


def total_variation(share_a: Floats, share_b: Floats) -> float:
    """Return half the sum of absolute differences of shares: the part of the time that moved, 0 to 1."""
    return 0.5 * float(np.abs(share_b - share_a).sum())


def log_ratios(time_a: Floats, calls_a: Ints, time_b: Floats, calls_b: Ints) -> Floats:
    """Return ln of the change of self time per call; NaN where a side has no time or call."""
    known = (time_a > 0) & (time_b > 0) & (calls_a > 0) & (calls_b > 0)
    result = np.full(len(time_a), np.nan)
    result[known] = np.log(time_b[known] / calls_b[known]) - np.log(time_a[known] / calls_a[known])
    return result


def location_and_spread(values: Floats) -> tuple[float, float]:
    """Return median and scaled MAD of the finite values, or NaN (Rousseeuw and Croux, JASA 88, 1993)."""
    values = values[np.isfinite(values)]
    if not len(values):
        return float("nan"), float("nan")
    centre = float(median(values))
    return centre, MAD_SCALE * float(median(np.abs(values - centre)))
