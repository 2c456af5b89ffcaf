"""The gate's decision: its risks under noise, what it does not depend on, and what it says when noise hides all."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from profkit.measure.sequential import LEAST_PAIRS, MOST_PAIRS, Decision, decide


def decided(values: np.ndarray, least: float = 0.05) -> Decision:
    """Take pairs until it is decided."""
    for n in range(1, len(values) + 1):
        found = decide(values[:n].tolist(), least)
        if found.outcome:
            return found
    raise AssertionError("the last look decides")


def outcomes(slowdown: float, spread: float, trials: int, tails: float = 0.0) -> Counter[str]:
    random = np.random.default_rng(11)
    noise = spread * random.standard_normal((trials, MOST_PAIRS))
    if tails:
        hit = random.random(noise.shape) < tails
        noise = noise + hit * random.choice((-0.3, 0.3), noise.shape)
    return Counter(decided(row).outcome for row in math.log1p(slowdown) + noise)


@pytest.mark.parametrize("spread", [0.001, 0.02, 0.04, 0.2])
@pytest.mark.parametrize("tails", [0.0, 0.03])
def test_what_is_not_slower_is_hardly_ever_called_slower(spread: float, tails: float) -> None:
    assert outcomes(0.0, spread, 1500, tails)["slower"] <= 15


@pytest.mark.parametrize(("spread", "tails"), [(0.001, 0.0), (0.02, 0.0), (0.03, 0.0), (0.02, 0.015)])
def test_a_slow_down_of_the_size_that_is_looked_for_is_found(spread: float, tails: float) -> None:
    assert outcomes(0.05, spread, 1000, tails)["slower"] >= 900


def test_less_than_half_of_it_is_not_called_slower_however_sure_it_is() -> None:
    assert outcomes(0.02, 0.001, 300) == {"no-slower": 300}


def test_noise_that_hides_the_slow_down_is_said() -> None:
    found = outcomes(0.05, 0.3, 500)
    assert found["undecided"] > 400
    assert found["slower"] <= 30


def test_the_ratio_and_its_interval() -> None:
    values = math.log(1.2) + 0.01 * np.random.default_rng(2).standard_normal(LEAST_PAIRS)
    found = decide(values.tolist(), 0.05)
    assert found.low < 1.2 < found.high
    assert found.ratio == pytest.approx(1.2, rel=0.02)
    early = decide([math.log(1.2)], 0.05)
    assert (early.outcome, early.ratio) == ("", pytest.approx(1.2))
    assert math.isnan(early.low)
