"""Intervals and tests: known answers, exact small cases, and what too few runs must not claim."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from profkit.measure.intervals import displacement, estimate, permutation_p, ratio_estimate


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 2 / 20),
        ([1.0, 2.0, 6.0], [3.0, 4.0, 5.0], 14 / 20),
        (range(5), range(10, 15), 2 / math.comb(10, 5)),
    ],
    ids=["three apart", "three mixed", "five apart"],
)
def test_a_p_value_is_the_part_of_all_permutations(a: Sequence[float], b: Sequence[float], p: float) -> None:
    assert permutation_p(np.array(a, np.float64), np.array(b, np.float64)) == pytest.approx(p)


@pytest.mark.parametrize("runs", [1, 2])
def test_too_few_runs_have_neither_interval_nor_test(runs: int) -> None:
    found = ratio_estimate(np.full(runs, 2.0), np.full(runs, 3.0))
    assert found.value == pytest.approx(1.5)
    assert np.isnan([found.low, found.high, found.p_value]).all()


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        a, b = np.exp(random.normal(0, 0.1, 10)), 1.5 * np.exp(random.normal(0, 0.1, 10))
        found = ratio_estimate(a, b)
        assert found.low <= found.value <= found.high
        covered += found.low <= 1.5 <= found.high
    # Percentile intervals of medians of ten are not exact: between 85 and 100 %.
    assert 170 <= covered <= 200


def test_the_same_runs_give_the_same_interval() -> None:
    random = np.random.default_rng(2)
    a, b = random.normal(5, 1, (5, 3)), random.normal(6, 1, (5, 3))

    def gap(x: np.ndarray, y: np.ndarray) -> float:
        return float(y.mean() - x.mean())

    assert estimate(a, b, gap) == estimate(a, b, gap)


def test_displacement() -> None:
    ranks = np.array([1, 2, 3])
    share = np.array([0.5, 0.3, 0.2])
    assert displacement(ranks, ranks, share) == 0.0
    swapped = displacement(ranks, np.array([2, 1, 3]), share)
    assert swapped == pytest.approx(0.8 * math.log(2))
    assert displacement(np.array([10]), np.array([20]), np.array([0.1])) == pytest.approx(math.log(2))
    assert displacement(np.array([], np.int64), np.array([], np.int64), np.array([])) == 0.0
