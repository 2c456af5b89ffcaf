"""How well counts and times of a profile are known, by its four columns `ESTIMATES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Floats, Ints, Rows
from profkit.model.profile import ESTIMATES, Profile

#: Half of the 95 % interval of a normal variable, in standard deviations.
NORMAL = 1.96
#: Upper 95 % bound of a Poisson count of 0 ("rule of three"; J. Hanley, A. Lippman-Hand, JAMA 249, 1983).
NONE_SEEN = 3.0
#: Samples added for the error of their number. Without them the interval of few is too narrow (of 3, it holds
#: the truth 8 times of 10); with them it holds it 95 times of 100 from the first sample on.
FEW_SAMPLES = 2.0
#: Distance of a lower limit, as a part of the estimate, from which the limit may be cut off: that of 15 independent
#: calls (1.96 / √15). Of fewer, errors are not symmetric.
CUT_OFF = 0.5

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]


def call_kind(low: float, high: float) -> Literal["exact", "estimated", "unknown"]:
    """Return how well a number of calls is known, from its interval."""
    if low != low:
        return "unknown"
    return "exact" if low == high else "estimated"


def time_kind(samples: int, error: float) -> Literal["exact", "sampled"]:
    """Return how well a self time is known, from its samples and the half width of its interval."""
    return "sampled" if samples or error else "exact"


def estimates_of(profile: Profile) -> Columns:
    """Return the columns `ESTIMATES` of a profile, made up from its counts where all is exact."""
    if profile.calls_low is None:
        return exact_estimates(profile.ncalls)
    return {name: getattr(profile, name) for name in ESTIMATES}


def exact_estimates(ncalls: Ints) -> Columns:
    """Return the columns `ESTIMATES` of exact counts and times."""
    calls, n = ncalls.astype(np.float64), len(ncalls)
    return dict(zip(ESTIMATES, (calls, calls, np.zeros(n, np.int64), np.zeros(n)), strict=True))


def stated(ncalls: Ints, columns: Columns) -> Mapping[str, Any]:
    """Return the columns `ESTIMATES` as fields of a profile: none where all is exact."""
    exact = exact_estimates(ncalls)
    return {} if all(np.array_equal(columns[name], exact[name]) for name in ESTIMATES) else columns


def known_calls(ncalls: Ints, low: Floats) -> Ints:
    """Return numbers of calls, with 0 for unknown ones (NaN in `low`)."""
    return np.where(np.isnan(low), 0, ncalls)


def summed_estimates(ncalls: Ints, columns: Columns, group: Rows, n: int) -> Columns:
    """Return the columns `ESTIMATES` of `n` sums; `group` is the sum of each row.

    Distances from an estimate to its limits add in quadrature, as independent errors. A sum is unknown if a
    term is.
    """
    calls, low, high = ncalls.astype(np.float64), columns["calls_low"], columns["calls_high"]
    samples = np.zeros(n, np.int64)
    np.add.at(samples, group, columns["samples"])

    def added(values: Floats) -> Floats:
        return np.bincount(group, values, n).astype(np.float64)

    def nearer(distance: Floats, error: Floats) -> Floats:
        """Return how much nearer a sum's limit is to it than the limits of its terms add up to."""
        return np.maximum(added(distance) - np.sqrt(added(error**2)), 0.0)

    # A rounded estimate may lie outside its own narrow interval.
    below, above = np.maximum(calls - low, 0.0), np.maximum(high - calls, 0.0)
    # The lower limit of few calls is cut off at those that were seen. Their error is greater.
    error_below = np.where(below > CUT_OFF * calls, np.maximum(below, above), below)
    of_low = added(low) + nearer(below, error_below)
    of_high = np.maximum(added(high) - nearer(above, above), of_low)
    error = np.sqrt(added(columns["tottime_error"] ** 2))
    return dict(zip(ESTIMATES, (of_low, of_high, samples, error), strict=True))
