"""Statistics of rankings, intervals, changes, medians and scatter, against values that can be derived by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from profkit.compare.starvation_signs import Matched, noisier
from profkit.measure.changepoints import LEAST_RUNS, change_points, divergence
from profkit.measure.function_orders import ranks, rbo_distance
from profkit.measure.intervals import displacement, permutation_p, ratio_estimate
from profkit.measure.noise import adjusted, log_scatter, rank_sum_p
from profkit.model.arrays import median


def ids(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


#: Agreements at depths 1, 2, 3 are 1, 1/2, 1.
P = 0.9
SWAPPED = (1 - P) / P * (P + P**2 / 2 + P**3) + P**3


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (ids(4, 2, 9), ids(4, 2, 9), 0),
        (ids(1, 2, 3), ids(4, 5, 6), 1),
        (ids(), ids(), 0),
        (ids(), ids(1), 1),
        (ids(1, 2, 3), ids(1, 3, 2), 1 - SWAPPED),
        # Equation (32) with s = 1, l = 2: the missing second place counts as agreeing by X_s / s = 1.
        (ids(7), ids(7, 8), 0),
        # X_1 = 0, X_2 = 1, and the missing second place agrees by 0.
        (ids(8), ids(7, 8), 1 - ((1 - P) / P * P**2 / 2 + P**2 / 2)),
    ],
    ids=["equal", "disjoint", "empty", "one empty", "a swap", "a beginning", "an end"],
)
def test_rbo_of_two_rankings_by_hand(a: np.ndarray, b: np.ndarray, distance: float) -> None:
    assert rbo_distance(a, b, P) == pytest.approx(distance, abs=1e-12)


def test_ranks_are_distinct_and_ties_follow_the_tiebreak() -> None:
    assert ranks(np.array([1.0, 3.0, 3.0, 0.0])).tolist() == [3, 1, 2, 4]
    assert ranks(np.array([1.0, 3.0, 3.0, 0.0]), ids(0, 9, 5, 0)).tolist() == [3, 2, 1, 4]


def test_rank_sum_p_is_exact_without_ties() -> None:
    # Three against three, completely apart: 2 of the 20 orders are as extreme.
    apart = np.arange(1.0, 7.0)[:, None]
    assert rank_sum_p(apart[:3], apart[3:])[0] == pytest.approx(0.1)
    # The splits of five values into 2 and 3 have a U of 0, 1, 2, 2, 3, 3, 4, 4, 5 or 6; this one has 4.
    mixed = rank_sum_p(np.array([[1.0], [4.0]]), np.array([[2.0], [3.0], [5.0]]))
    assert mixed[0] == pytest.approx(8 / 10)


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


# Intervals and tests: known answers, exact small cases, and what too few runs must not claim


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


def test_displacement() -> None:
    ranks = np.array([1, 2, 3])
    share = np.array([0.5, 0.3, 0.2])
    assert displacement(ranks, ranks, share) == 0.0
    swapped = displacement(ranks, np.array([2, 1, 3]), share)
    assert swapped == pytest.approx(0.8 * math.log(2))
    assert displacement(np.array([10]), np.array([20]), np.array([0.1])) == pytest.approx(math.log(2))
    assert displacement(np.array([], np.int64), np.array([], np.int64), np.array([])) == 0.0


# Where a series changed for good: the statistic by its definition, steps that are found, and noise that is not


def energy(first: np.ndarray, second: np.ndarray) -> float:
    """Q of Matteson and James (2014), equations (5) and (7) with α = 1, written as sums over pairs."""
    n, m = len(first), len(second)
    between = sum(abs(a - b) for a in first for b in second)
    within = [sum(abs(a - b) for a, b in itertools.combinations(part, 2)) for part in (first, second)]
    distance = 2 * between / (n * m) - 2 * within[0] / (n * (n - 1)) - 2 * within[1] / (m * (m - 1))
    return float(distance * n * m / (n + m))


def test_the_statistic_is_that_of_its_authors() -> None:
    random = np.random.default_rng(3)
    for n in (8, 13, 40):
        values = random.standard_normal(n)
        at, statistic = divergence(values)
        known = {t: energy(values[:t], values[t:]) for t in range(LEAST_RUNS, n - LEAST_RUNS + 1)}
        assert statistic == pytest.approx(max(known.values()))
        assert at == max(known, key=known.__getitem__)


@pytest.mark.parametrize("ratio", [0.95, 1.05, 1.5])
def test_a_step_is_found_where_it_is(ratio: float) -> None:
    noise = np.exp(0.01 * np.random.default_rng(5).standard_normal(40))
    values = 2.0 * noise * np.where(np.arange(40) < 25, 1.0, ratio)
    (found,) = change_points(values.tolist())
    assert abs(found.at - 25) <= 1
    assert found.ratio == pytest.approx(ratio, rel=0.01)
    assert (found.before, found.p_value < 0.01) == (pytest.approx(2.0, rel=0.01), True)


def test_noise_has_hardly_a_change() -> None:
    """At most one in a thousand points, for noise with and without heavy tails."""
    random = np.random.default_rng(7)
    for draw in (random.standard_normal, lambda n: random.standard_t(2, n)):
        false = sum(len(change_points(np.exp(0.03 * draw(40)).tolist())) for _ in range(150))
        assert false <= 6


def test_a_moment_in_which_the_machine_was_busy_is_no_change() -> None:
    values = np.exp(0.01 * np.random.default_rng(8).standard_normal(60))
    values[30 : 30 + LEAST_RUNS - 2] *= 2
    assert change_points(values.tolist()) == ()


def test_a_change_that_is_too_small_to_matter_is_left_out() -> None:
    noise = np.exp(0.001 * np.random.default_rng(9).standard_normal(60))
    values = (noise * np.where(np.arange(60) < 30, 1.0, 1.01)).tolist()
    assert change_points(values) == ()
    assert len(change_points(values, least_change=0.005)) == 1


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 7, [2.0] * 50])
def test_what_is_too_short_or_all_the_same_has_no_change(values: list[float]) -> None:
    assert change_points(values) == ()


# `profkit.model.arrays` against NumPy


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (5, 7), (30, 11), (65, 3), (64, 2)])
def test_middles_of_tables_are_those_of_numpy(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).lognormal(size=shape)
    for axis in (0, 1):
        assert np.array_equal(median(values, axis), np.median(values, axis=axis))
        kept = median(values, axis, keepdims=True)
        assert np.array_equal(kept, np.median(values, axis=axis, keepdims=True))
    values[0, 0] = np.nan
    assert np.array_equal(median(values, 0), np.median(values, axis=0), equal_nan=True)


# How much more one side's repeats scatter: known ratios, common factors, and too little to tell

FUNCTIONS = 40


def repeats(scatter: float, runs: int = 5, seed: int = 1, factor: float = 1.0) -> np.ndarray:
    """Seconds of every function: equal parts of a run, whose clock drifts from run to run."""
    random = np.random.default_rng(seed)
    drift = np.exp(random.normal(0, 0.2, (runs, 1)))
    return factor * drift * 0.1 * np.exp(random.normal(0, scatter, (runs, FUNCTIONS)))


def both(a: np.ndarray, b: np.ndarray, waits: int = 0) -> Matched:
    n = a.shape[1]
    native, calls = np.zeros(n, np.bool_), (np.ones_like(a), np.ones_like(b))
    return Matched(a, b, *calls, native, np.arange(n) < waits, a.sum(axis=1), b.sum(axis=1))


@pytest.mark.parametrize("factor", [1.0, 3.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_a_ratio_of_scatters_is_found_whatever_the_common_factors(ratio: float, factor: float) -> None:
    found = noisier(both(repeats(0.03), repeats(0.03 * ratio, seed=2, factor=factor)))
    assert found == pytest.approx(np.log(ratio), abs=0.25)


def test_one_lump_in_one_run_is_seen() -> None:
    calm, hit = repeats(0.03), repeats(0.03, seed=2)
    hit[np.arange(FUNCTIONS) % 5, np.arange(FUNCTIONS)] *= 1.4
    assert noisier(both(calm, hit)) > 0.8


def test_waiting_does_not_count() -> None:
    calm, hit = repeats(0.03), repeats(0.03, seed=2)
    hit[:, :10] *= np.random.default_rng(3).lognormal(0, 1.0, (5, 10))
    assert noisier(both(calm, hit, waits=10)) < 0.3


def test_too_few_runs_or_functions_tell_nothing() -> None:
    assert np.isnan(noisier(both(repeats(0.03, runs=2), repeats(0.1, runs=5))))
    assert np.isnan(noisier(both(repeats(0.03)[:, :4], repeats(0.1)[:, :4])))
