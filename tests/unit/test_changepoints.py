"""Where a series changed for good: the statistic by its definition, steps that are found, and noise that is not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from profkit.measure.changepoints import LEAST_RUNS, change_points, divergence


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
