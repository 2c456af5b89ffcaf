"""Time explained by changed call counts, per site: a site is one function called by another.

The logarithmic mean Divisia index (Ang, "The LMDI approach to decomposition analysis", Energy Policy 33,
2005) divides a site's added time: t₁ − t₀ = L·ln(n₁/n₀) + L·ln(u₁/u₀), u = t/n, L = (t₁ − t₀) / ln(t₁/t₀).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profkit.compare.call_table import CallTable
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import CallRatios
from profkit.model import PROJECT
from profkit.model.arrays import Bools, Floats

Rows = npt.NDArray[np.intp]


def logarithmic_mean(one: Floats, other: Floats) -> Floats:
    """Return the logarithmic mean of positive numbers; 0 where either is not positive."""
    both = (one > 0) & (other > 0)
    a, b = np.where(both, one, 1.0), np.where(both, other, 1.0)
    relative = (b - a) / a
    # For nearly equal numbers the quotient loses all digits, so use the arithmetic mean.
    near = np.abs(relative) < 1e-6
    ratio = np.where(near, 1.0, b / a)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(near, 0.5 * (a + b), (b - a) / np.log(np.where(near, 2.0, ratio)))
    return np.where(both, mean, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class CallSites:
    """Sites of both sides, arrays of shape (k,), over the n rows of a function table.

    `row` is the callee; `pair` is the index in the `CallTable`, −1 for all or the remaining calls of a
    function. `share_a` and `share_b` divide a function's time among its sites. `log_ratio` is ln(candidate /
    baseline calls) with its 95 % interval, 0 where unknown or `one_sided` (calls on one side only).
    `from_code` and `of_processes` are parts of the changed calls.
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
        """Return the seconds that changed calls added to each site, shape (k,), from seconds by function."""
        return self._weighted(self.log_ratio, time_a, time_b)

    def limits(self, time_a: Floats, time_b: Floats) -> tuple[Floats, Floats]:
        """Return `seconds` at the lower and the upper limit of the 95 % interval of the calls."""
        return self._weighted(self.low, time_a, time_b), self._weighted(self.high, time_a, time_b)

    def _weighted(self, log_ratio: Floats, time_a: Floats, time_b: Floats) -> Floats:
        a, b = time_a[self.row] * self.share_a, time_b[self.row] * self.share_b
        return np.where(self.one_sided, b - a, logarithmic_mean(a, b) * log_ratio)

    def by_row(self, seconds: Floats) -> Floats:
        """Return the sum over the sites of each function; shape (n,)."""
        return np.bincount(self.row, seconds, self.n).astype(np.float64)

    def errors(self, time_a: Floats, time_b: Floats) -> Floats:
        """Return the half-width of the 95 % interval of `seconds`, shape (k,); 0 where calls are exact."""
        a, b = time_a[self.row] * self.share_a, time_b[self.row] * self.share_b
        return logarithmic_mean(a, b) * 0.5 * (self.high - self.low)

    def limited_to(self, rows: Rows) -> CallSites:
        """Return the sites of some table rows, renumbered to their positions in `rows`."""
        place = np.full(self.n, -1, np.intp)
        place[rows] = np.arange(len(rows))
        kept = place[self.row] >= 0
        columns = {name: getattr(self, name)[kept] for name in CallSites.__slots__ if name != "n"}
        return CallSites(**columns | {"row": place[self.row[kept]]}, n=len(rows))

    def booked(self, from_code: Floats, of_processes: Floats) -> CallSites:
        """Return the sites with `from_code` and `of_processes` set; both have shape (k,)."""
        return replace(self, from_code=from_code, of_processes=np.minimum(of_processes, 1.0 - from_code))


def call_sites(table: DiffTable, calls: CallTable | None, ratios: CallRatios) -> CallSites:
    """Return the sites of both sides; a function with estimated calls or unknown callers is one site."""
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
    """Divide functions into sites by caller; sites of renamed callers stay together."""
    n = len(table)
    renamed = _renamed(calls, counts, table)
    pair = np.flatnonzero(rows[calls.callee])
    row = calls.callee[pair].astype(np.intp)
    sides = (calls.baseline, calls.candidate)
    many = [side.ncalls[pair].astype(np.float64) for side in sides]
    time = [np.maximum(side.tottime[pair], 0.0) for side in sides]
    apart = ((many[0] > 0) | (many[1] > 0)) & ~renamed[pair]
    rest = np.flatnonzero(rows)
    columns: list[tuple[Floats, Floats]] = []
    for count, seconds, of_row, side in zip(
        many, time, counts, (table.baseline, table.candidate), strict=True
    ):
        # Calls without a known caller are a site too: a module's body, a thread's first function.
        left = of_row - np.bincount(row[apart], count[apart], n)
        spent = np.maximum(side.tottime, 0.0) - np.bincount(row[apart], seconds[apart], n)
        columns.append(
            (
                np.concatenate([count[apart], np.maximum(left, 0.0)[rest]]),
                np.concatenate([seconds[apart], np.maximum(spent, 0.0)[rest]]),
            )
        )
    place = np.concatenate([row[apart], rest])
    (n_a, t_a), (n_b, t_b) = columns
    # Medians over runs need not add up; drop sites without calls on either side.
    some = (n_a > 0) | (n_b > 0)
    place, n_a, n_b, t_a, t_b = place[some], n_a[some], n_b[some], t_a[some], t_b[some]
    of_pair = np.concatenate([pair[apart], np.full(len(rest), -1, np.intp)])[some]
    share_a, share_b = _shares(place, t_a, n_a, n), _shares(place, t_b, n_b, n)
    one = (n_a <= 0) | (n_b <= 0)
    log_ratio = np.log(np.where(one, 1.0, n_b / np.where(one, 1.0, n_a)))
    none = np.zeros(len(place))
    return CallSites(place, of_pair, share_a, share_b, log_ratio, log_ratio, log_ratio, one, none, none, n)


def _renamed(calls: CallTable, counts: tuple[Floats, Floats], table: DiffTable) -> Bools:
    """Return the pairs whose caller may be renamed: one gone and one new, below the same caller.

    A project function counts only below a project caller, which starts to call a library only when changed.
    """
    n = len(counts[0])
    alone = (counts[0] > 0) != (counts[1] > 0)
    is_new = counts[0] <= 0
    caller, callee = calls.caller.astype(np.intp), calls.callee.astype(np.intp)
    # First what can match at all: imports seen on one side alone would make millions of pairs below.
    pairs = _of_both(np.flatnonzero(alone[caller]), callee, is_new[caller], n)
    above = _of_both(np.flatnonzero(alone[callee]), caller, is_new[callee], n)
    orphans = np.bincount(callee[alone[callee]], minlength=n) == 0
    has = np.bincount(callee[above], minlength=n) > 0
    pairs = pairs[(has | orphans)[caller[pairs]]]
    above = above[np.argsort(callee[above], kind="stable")]
    first = np.searchsorted(callee[above], caller[pairs])
    callers = np.searchsorted(callee[above], caller[pairs], "right") - first
    # A function without callers gets "nobody" (n) as its one caller.
    many = np.maximum(callers, 1)
    of = np.repeat(np.arange(len(pairs)), many)
    at = np.repeat(first, many) + np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
    parent = np.append(caller[above], n)[np.where(callers[of] > 0, at, len(above))]
    found = callee[pairs][of] * (n + 1) + parent
    new = is_new[caller[pairs]][of]
    project = np.append(table.in_roots(PROJECT), False)
    inside = project[caller[pairs][of]] | ~project[parent]
    common = inside & np.isin(found, found[new & inside]) & np.isin(found, found[~new & inside])
    renamed = np.zeros(len(calls), np.bool_)
    renamed[pairs] = np.bincount(of, common, len(pairs)) > 0
    return renamed


def _of_both(edges: Rows, group: Rows, is_new: Bools, n: int) -> Rows:
    """Return the edges whose group has one of a new function and one of a gone one."""
    new = np.bincount(group[edges][is_new[edges]], minlength=n) > 0
    gone = np.bincount(group[edges][~is_new[edges]], minlength=n) > 0
    return edges[(new & gone)[group[edges]]]


def _shares(place: Rows, time: Floats, count: Floats, n: int) -> Floats:
    """Return the part of each function's time in each site, by calls where no site took time."""
    time = np.where(count > 0, time, 0.0)
    whole = np.bincount(place, time, n)[place]
    called = np.bincount(place, count, n)[place]
    by_calls = np.divide(count, called, out=np.zeros_like(count), where=called > 0)
    return np.divide(time, whole, out=by_calls, where=whole > 0)


def _joined(divided: CallSites, others: CallSites, rows: Bools) -> CallSites:
    """Join the sites of divided functions with functions that are one site each."""
    columns = {
        name: np.concatenate([getattr(divided, name), getattr(others, name)[rows]])
        for name in CallSites.__slots__
        if name != "n"
    }
    return CallSites(**columns, n=others.n)
