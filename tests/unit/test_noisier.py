"""How much more one side's repeats scatter: known ratios, common factors, and too little to tell."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.compare.starvation_signs import Matched, noisier

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
