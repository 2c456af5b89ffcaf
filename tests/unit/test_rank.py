"""Formulas on rankings against values that can be derived by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from profkit.measure.function_orders import log_ratios, ranks, rbo_distance, shares, total_variation
from profkit.measure.noise import adjusted, log_scatter, rank_sum_p


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_rbo_of_equal_and_disjoint_rankings() -> None:
    assert rbo_distance(ids(4, 2, 9), ids(4, 2, 9)) == pytest.approx(0, abs=1e-12)
    assert rbo_distance(ids(1, 2, 3), ids(4, 5, 6)) == 1
    assert rbo_distance(ids(), ids()) == 0
    assert rbo_distance(ids(), ids(1)) == 1


def test_rbo_of_a_swap_by_hand() -> None:
    # Agreements at depths 1, 2, 3 are 1, 1/2, 1.
    p = 0.9
    similarity = (1 - p) / p * (p + p**2 / 2 + p**3) + p**3
    assert rbo_distance(ids(1, 2, 3), ids(1, 3, 2), p) == pytest.approx(1 - similarity)


def test_rbo_of_uneven_rankings_by_hand() -> None:
    # Equation (32) with s = 1, l = 2: X_1 = 1, X_2 = 1; the missing second place counts as agreeing by X_s / s.
    p = 0.9
    agreements = 1 / 1 * p + 1 / 2 * p**2 + 1 * (2 - 1) / (1 * 2) * p**2
    similarity = (1 - p) / p * agreements + ((1 - 1) / 2 + 1) * p**2
    assert similarity == pytest.approx(1)
    assert rbo_distance(ids(7), ids(7, 8), p) == pytest.approx(0, abs=1e-12)
    assert rbo_distance(ids(8), ids(7, 8), p) > 0.3


def test_ranks_are_distinct_and_ties_follow_the_tiebreak() -> None:
    assert ranks(np.array([1.0, 3.0, 3.0, 0.0])).tolist() == [3, 1, 2, 4]
    assert ranks(np.array([1.0, 3.0, 3.0, 0.0]), ids(0, 9, 5, 0)).tolist() == [3, 2, 1, 4]


def test_shares_and_total_variation() -> None:
    assert shares(np.array([1.0, 3.0])).tolist() == [0.25, 0.75]
    assert shares(np.zeros(2)).tolist() == [0, 0]
    assert total_variation(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1
    assert total_variation(np.array([0.5, 0.5]), np.array([0.75, 0.25])) == 0.25


def test_log_ratios_compare_time_per_call() -> None:
    found = log_ratios(np.array([1.0, 1.0, 0.0]), ids(10, 1, 1), np.array([4.0, 1.0, 1.0]), ids(20, 0, 1))
    assert found[0] == pytest.approx(np.log(2))
    assert np.isnan(found[1:]).all()


def test_rank_sum_p_is_exact_without_ties() -> None:
    # Three against three, completely apart: 2 of the 20 orders are as extreme.
    apart = np.arange(1.0, 7.0)[:, None]
    assert rank_sum_p(apart[:3], apart[3:])[0] == pytest.approx(0.1)
    # Every split of five distinct values into 2 and 3, counted.
    pool = np.array([1.0, 2.0, 3.0, 4.0, 5.0])

    def distance(chosen: tuple[int, ...]) -> float:
        """From the middle of Mann and Whitney's U."""
        rest = np.delete(pool, list(chosen))
        return abs(int((rest[:, None] > pool[list(chosen)]).sum()) - 3.0)

    splits = list(itertools.combinations(range(5), 2))
    hits = sum(distance(chosen) >= distance((0, 3)) for chosen in splits)
    found = rank_sum_p(pool[[0, 3], None], pool[[1, 2, 4], None])[0]
    assert found == pytest.approx(hits / len(splits))


def test_rank_sum_p_with_ties_is_finite_and_large_for_equal_columns() -> None:
    same = np.ones((5, 2))
    assert rank_sum_p(same, same).tolist() == [1, 1]
    apart = rank_sum_p(np.array([[1.0], [1.0], [1.0], [2.0]]), np.array([[3.0], [3.0], [4.0], [4.0]]))
    assert 0 < apart[0] < 0.05


def test_adjusted_p_values_by_hand() -> None:
    found = adjusted(np.array([0.01, np.nan, 0.04, 0.03]))
    assert found[[0, 2, 3]].tolist() == pytest.approx([0.03, 0.04, 0.04])
    assert np.isnan(found[1])


def test_scatter_leaves_out_the_common_factor_of_a_run() -> None:
    steady = np.outer([1.0, 1.3, 0.8, 1.1, 2.0], [1.0, 2.0, 3.0])
    assert log_scatter(steady) == pytest.approx(0.005)
    noisy = steady * np.array([[1, 1, 1.0], [1, 1, 1.5], [1, 1, 0.7], [1, 1, 1.2], [1, 1, 1]])
    found = log_scatter(noisy)
    assert found[2] > 0.1
    assert found[0] < 0.02
