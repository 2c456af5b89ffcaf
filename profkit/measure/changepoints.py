"""Lasting changes in a series of repeated measurements: E-divisive with permutation tests.

Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data", JASA
109, 2014, as Daly and others apply it to benchmarks (ICPE 2020). It assumes only that the noise is
exchangeable. Changes too small to matter are dropped, as in Fleming and others ("Hunter", ICPE 2023).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.model.arrays import Floats, Ints, median

#: Least number of values on either side of a change: fewer may be a briefly busy machine.
LEAST_RUNS = 4
#: Largest p-value of a change: one of 50 series without changes shows one. For series of 40 points, that is
#: one false change in 2 000 points.
SIGNIFICANCE = 0.02
#: Permutations for a p-value, whose least value is then 1 in 400.
PERMUTATIONS = 399
#: Relative change below which nothing is reported: machines vary that much.
LEAST_CHANGE = 0.02
SEED = 2014


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A lasting change at the first value that differs, with the medians of the adjacent parts."""

    at: int
    before: float
    after: float
    p_value: float

    @property
    def ratio(self) -> float:
        """The median after over the median before."""
        return self.after / self.before


def divergence(values: Floats) -> tuple[int, float]:
    """Return where the second part of the best division begins, and the statistic Q.

    Equation (7) of Matteson and James with α = 1; the series needs at least ``2 * LEAST_RUNS`` values.
    """
    return _best(np.abs(values[:, None] - values[None, :]))


def _best(distances: Floats) -> tuple[int, float]:
    n, least = len(distances), LEAST_RUNS
    # A running sum of each value's distances to earlier values gives the distances within the first t.
    before = np.tril(distances).sum(axis=1)
    within_first = np.cumsum(before)
    whole = float(within_first[-1])
    to_all = distances.sum(axis=1)
    first = np.arange(least, n - least + 1)  # number of values in the first part
    inside = within_first[first - 1]
    crossing = np.cumsum(to_all)[first - 1] - 2 * inside
    second = n - first
    behind = whole - inside - crossing
    energy = (
        2 * crossing / (first * second)
        - 2 * inside / (first * np.maximum(first - 1, 1))
        - 2 * behind / (second * np.maximum(second - 1, 1))
    )
    scaled = energy * first * second / n
    best = int(np.argmax(scaled))
    return int(first[best]), float(scaled[best])


def shifts(logs: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the greatest lasting shift of each series: where, how much, how far beyond noise.

    `logs` has shape (series, values). The place is the best division of means; the size is the difference of
    medians. The noise is its standard error from the mean absolute deviation: one of 2 000 series of 10 to
    200 values without a shift exceeds 6.5. The median deviation would be nearly 0 in some short series. It
    tests nothing, but handles ten thousand series quickly.
    """
    n = logs.shape[1]
    first = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
    centred = logs - np.median(logs, axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)
    before = sums[:, first - 1]
    gains = np.abs((sums[:, -1:] - before) / (n - first) - before / first) * np.sqrt(first * (n - first) / n)
    at = first[np.argmax(gains, axis=1)]
    is_first = np.arange(n) < at[:, None]
    medians = [
        np.nanmedian(np.where(inside, logs, np.nan), axis=1, keepdims=True)
        for inside in (is_first, ~is_first)
    ]
    left = np.abs(logs - np.where(is_first, *medians))
    size = (medians[1] - medians[0])[:, 0]
    # √(π/2) makes the mean absolute deviation estimate the standard deviation of normal data.
    scatter = np.maximum(np.sqrt(np.pi / 2) * left.sum(axis=1) / (n - 2), 1e-9)
    return at, size, np.abs(size) * np.sqrt(at * (n - at) / n) / scatter


def change_points(values: Sequence[float], *, least_change: float = LEAST_CHANGE) -> tuple[ChangePoint, ...]:
    """Return the lasting changes of a series of positive values, in order of time; the seed is fixed.

    Values are compared as logarithms, since noise of run times is a factor.
    """
    logs = np.log(np.asarray(values, np.float64))
    random = np.random.default_rng(SEED)
    found: dict[int, float] = {}
    parts = [(0, len(logs))]
    while parts:
        begin, end = parts.pop()
        if end - begin < 2 * LEAST_RUNS:
            continue
        distances = np.abs(logs[begin:end, None] - logs[None, begin:end])
        at, statistic = _best(distances)
        p_value = _permuted(distances, statistic, random)
        if p_value <= SIGNIFICANCE:
            found[begin + at] = p_value
            parts += [(begin, begin + at), (begin + at, end)]
    kept = _great_enough(logs, sorted(found), np.log1p(least_change))
    if not kept:
        return ()
    edges = [0, *kept, len(logs)]
    medians = [float(np.exp(median(logs[a:b]))) for a, b in itertools.pairwise(edges)]
    return tuple(ChangePoint(at, medians[i], medians[i + 1], found[at]) for i, at in enumerate(kept))


def _permuted(distances: Floats, statistic: float, random: np.random.Generator) -> float:
    """Return a division's p-value; stop once it cannot be significant (Besag, Clifford, Biometrika 1991)."""
    most = int(SIGNIFICANCE * (PERMUTATIONS + 1)) - 1
    greater = 0
    for drawn in range(1, PERMUTATIONS + 1):
        order = random.permutation(len(distances))
        if _best(distances[np.ix_(order, order)])[1] >= statistic:
            greater += 1
            if greater > most:
                return (greater + 1) / (drawn + 1)
    return (greater + 1) / (PERMUTATIONS + 1)


def _great_enough(logs: Floats, places: list[int], least: float) -> list[int]:
    """Merge parts whose medians differ too little, the smallest change first."""
    kept = list(places)
    while kept:
        edges = [0, *kept, len(logs)]
        medians = [float(median(logs[a:b])) for a, b in itertools.pairwise(edges)]
        sizes = [abs(b - a) for a, b in itertools.pairwise(medians)]
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[smallest] >= least:
            break
        del kept[smallest]
    return kept
