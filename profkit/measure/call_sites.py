"""What other calls account for, site by site: who calls which function how often, and what that takes.

A site is one function called by another one. What a site took more is divided into other calls and another cost
per call by the logarithmic mean Divisia index (Ang, "The LMDI approach to decomposition analysis", Energy Policy 33,
2005):

    t₁ − t₀ = L·ln(n₁/n₀) + L·ln(u₁/u₀),  u = t/n,  L = (t₁ − t₀) / ln(t₁/t₀)

It is exact and symmetric. A few long calls from one place and many short ones from another are sites of their own:
the long ones do not price the short ones. Numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profkit.measure.calls import CallTable
from profkit.measure.estimates import CallRatios
from profkit.measure.tables import DiffTable

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


def logarithmic_mean(one: Floats, other: Floats) -> Floats:
    """Logarithmic mean of positive numbers; 0 where either is not positive."""
    both = (one > 0) & (other > 0)
    a, b = np.where(both, one, 1.0), np.where(both, other, 1.0)
    relative = (b - a) / a
    # Of nearly equal numbers the quotient loses all digits: there it is their mean.
    near = np.abs(relative) < 1e-6
    ratio = np.where(near, 1.0, b / a)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(near, 0.5 * (a + b), (b - a) / np.log(np.where(near, 2.0, ratio)))
    return np.where(both, mean, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class CallSites:
    """Sites of both sides, over the rows of a table of functions.

    Attributes
    ----------
    row : intp array, shape (k,)
        The function that is called.
    pair : intp array, shape (k,)
        Index of the site in the `CallTable`, −1 where it is all that is left of a function, or all of it.
    share_a, share_b : float64 array, shape (k,)
        Part of the function's time on each side; over the sites of a function they add up to 1, or to 0 where that
        side lacks it.
    log_ratio, low, high : float64 array, shape (k,)
        ln of the candidate's calls over the baseline's, with its 95 % interval; 0 where that is not known.
    one_sided : bool array, shape (k,)
        One side has no such call: all of its time is other calls.
    from_code, of_processes : float64 array, shape (k,)
        Part of the other calls that originate in changed code, and that come with the number of processes.
    n
        Rows of the table.
    """

    row: Rows
    pair: Rows
    share_a: Floats
    share_b: Floats
    log_ratio: Floats
    low: Floats
    high: Floats
    one_sided: Bools
    from_code: Floats
    of_processes: Floats
    n: int

    def seconds(self, time_a: Floats, time_b: Floats) -> Floats:
        """Seconds that each site took more because it was called more often.

        Parameters
        ----------
        time_a, time_b : float64 array, shape (n,)
            Seconds of each function on either side.

        Returns
        -------
        float64 array, shape (k,)
        """
        return self._weighted(self.log_ratio, time_a, time_b)

    def limits(self, time_a: Floats, time_b: Floats) -> tuple[Floats, Floats]:
        """The same at the lower and at the upper limit of the 95 % interval of the calls."""
        return self._weighted(self.low, time_a, time_b), self._weighted(self.high, time_a, time_b)

    def _weighted(self, log_ratio: Floats, time_a: Floats, time_b: Floats) -> Floats:
        a, b = time_a[self.row] * self.share_a, time_b[self.row] * self.share_b
        result: Floats = np.where(self.one_sided, b - a, logarithmic_mean(a, b) * log_ratio)
        return result

    def by_row(self, seconds: Floats) -> Floats:
        """Sum over the sites of each function; shape (n,)."""
        result: Floats = np.bincount(self.row, seconds, self.n).astype(np.float64)
        return result

    def errors(self, time_a: Floats, time_b: Floats) -> Floats:
        """Half the width of the 95 % interval of these seconds: of calls that are estimates; shape (k,)."""
        a, b = time_a[self.row] * self.share_a, time_b[self.row] * self.share_b
        return logarithmic_mean(a, b) * 0.5 * (self.high - self.low)

    def limited_to(self, rows: Rows) -> CallSites:
        """The same for some rows of the table, which get the places that they have in ``rows``."""
        place = np.full(self.n, -1, np.intp)
        place[rows] = np.arange(len(rows))
        kept = place[self.row] >= 0
        columns = {name: getattr(self, name)[kept] for name in CallSites.__slots__ if name != "n"}
        return CallSites(**columns | {"row": place[self.row[kept]]}, n=len(rows))

    def booked(self, from_code: Floats, of_processes: Floats) -> CallSites:
        """The same with the parts of changed code and of processes; both have shape (k,)."""
        return replace(self, from_code=from_code, of_processes=np.minimum(of_processes, 1.0 - from_code))


def call_sites(table: DiffTable, calls: CallTable | None, ratios: CallRatios) -> CallSites:
    """Find the sites of both sides.

    Parameters
    ----------
    table
        Functions of both sides.
    calls
        Who calls whom; without it a function is one site.
    ratios
        How the calls of each function changed. Where they are estimates, a function is one site, whose calls change
        by `CallRatios.weight`, or are not known to change.
    """
    n = len(table)
    calls_a, calls_b = (side.ncalls.astype(np.float64) for side in (table.baseline, table.candidate))
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.log(
            np.where(ratios.exact & (calls_a > 0), calls_b / np.maximum(calls_a, 1.0), ratios.weight)
        )
        low, high = np.log(ratios.low), np.log(ratios.high)
    estimated = ratios.weighed & ~ratios.exact
    lone = ratios.weighed & ((calls_a <= 0) | (calls_b <= 0))
    known = ratios.weighed & ~lone & np.isfinite(whole)
    finite = estimated & known & np.isfinite(low) & np.isfinite(high)
    whole = np.where(known, whole, 0.0)
    of_rows = CallSites(
        row=np.arange(n),
        pair=np.full(n, -1, np.intp),
        share_a=np.ones(n),
        share_b=np.ones(n),
        log_ratio=whole,
        low=np.where(finite, low, whole),
        high=np.where(finite, high, whole),
        one_sided=lone,
        from_code=np.zeros(n),
        of_processes=np.zeros(n),
        n=n,
    )
    divided = ratios.exact & known
    if calls is None or not len(calls) or not divided.any():
        return of_rows
    return _joined(_divided(calls, (calls_a, calls_b), table, divided), of_rows, ~divided)


def _divided(calls: CallTable, counts: tuple[Floats, Floats], table: DiffTable, rows: Bools) -> CallSites:
    """Sites of some functions by who calls them; those that only one side has are compared as one.

    A caller that was renamed calls the same as often.
    """
    n = len(table)
    pair = np.flatnonzero(rows[calls.callee])
    row = calls.callee[pair].astype(np.intp)
    sides = (calls.baseline, calls.candidate)
    many = [side.ncalls[pair].astype(np.float64) for side in sides]
    time = [np.maximum(side.tottime[pair], 0.0) for side in sides]
    both = (many[0] > 0) & (many[1] > 0)
    rest = np.flatnonzero(rows)
    columns: list[tuple[Floats, Floats]] = []
    for count, seconds, of_row, side in zip(
        many, time, counts, (table.baseline, table.candidate), strict=True
    ):
        # What is called by nobody, too, is a site: a module's body, a thread's first function.
        left = of_row - np.bincount(row[both], count[both], n)
        spent = np.maximum(side.tottime, 0.0) - np.bincount(row[both], seconds[both], n)
        columns.append(
            (
                np.concatenate([count[both], np.maximum(left, 0.0)[rest]]),
                np.concatenate([seconds[both], np.maximum(spent, 0.0)[rest]]),
            )
        )
    place = np.concatenate([row[both], rest])
    (n_a, t_a), (n_b, t_b) = columns
    # Medians over runs need not add up: what has no calls on either side is nothing.
    some = (n_a > 0) | (n_b > 0)
    place, n_a, n_b, t_a, t_b = place[some], n_a[some], n_b[some], t_a[some], t_b[some]
    of_pair = np.concatenate([pair[both], np.full(len(rest), -1, np.intp)])[some]
    share_a, share_b = _shares(place, t_a, n_a, n), _shares(place, t_b, n_b, n)
    one = (n_a <= 0) | (n_b <= 0)
    log_ratio = np.log(np.where(one, 1.0, n_b / np.where(one, 1.0, n_a)))
    none = np.zeros(len(place))
    return CallSites(place, of_pair, share_a, share_b, log_ratio, log_ratio, log_ratio, one, none, none, n)


def _shares(place: Rows, time: Floats, count: Floats, n: int) -> Floats:
    """Part of each function's time in each of its sites: by time, by calls where no site took any."""
    time = np.where(count > 0, time, 0.0)
    whole = np.bincount(place, time, n)[place]
    called = np.bincount(place, count, n)[place]
    by_calls = np.divide(count, called, out=np.zeros_like(count), where=called > 0)
    return np.divide(time, whole, out=by_calls, where=whole > 0)


def _joined(divided: CallSites, others: CallSites, rows: Bools) -> CallSites:
    """Sites of divided functions, and of others that are one site each."""
    columns = {
        name: np.concatenate([getattr(divided, name), getattr(others, name)[rows]])
        for name in CallSites.__slots__
        if name != "n"
    }
    return CallSites(**columns, n=others.n)
