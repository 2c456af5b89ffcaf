"""Where changed calls and costs originate: in changed code, or in more work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.compare.call_sites import CallSites, logarithmic_mean
from profkit.compare.call_table import CallTable, each_call
from profkit.compare.handed_down import handed_down
from profkit.compare.movement import ROOT_SHARE, still_there
from profkit.compare.pair import Pair
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import CALLS_CHANGED, CallRatios
from profkit.measure import noise
from profkit.measure.function_orders import location_and_spread, log_ratios, shares
from profkit.model import BUILTIN, PROJECT
from profkit.model.arrays import Bools, Floats

#: Rounds that pass changed calls of callers on to library functions.
ROUNDS = 6
#: Least number of unchanged functions from which their common factor is known.
FEWEST_OTHERS = 3
#: Functions with at least this part of their changed cost below changed code do not count as unchanged.
MOSTLY_BELOW = 0.5
#: Weight of what calls take with callees where no sample met them alone: next to nothing beside others, but all that
#: enters a recursion.
ENTERING = 1e-3
#: Number of origins kept.
MOST_ORIGINS = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """A function (`row`) that calls `callee` more or less often per call of its own (`before`, `after`).

    `seconds` is what the changed calls take with callees at the baseline's cost, negative for fewer calls.
    """

    row: int
    callee: int
    before: float
    after: float
    calls: int
    seconds: float
    from_code: bool


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Parts (0 to 1) of the change that come from changed code, by table row; `found` is sorted.

    `below` is the part of a function's changed cost that is below changed code, 1 for changed code itself.
    """

    ratios: CallRatios
    below: Floats
    cost_from_code: Floats
    sites: CallSites
    found: tuple[Origin, ...] = ()

    def taken(self, rows: npt.NDArray[np.intp]) -> Origins:
        return Origins(
            self.ratios.taken(rows), self.below[rows], self.cost_from_code[rows], self.sites.limited_to(rows)
        )


def find_origins(
    pair: Pair,
    busy: tuple[Floats, Floats],
    within: tuple[Floats, Floats],
    waits: Bools,
    of_processes: Floats,
    sites: CallSites,
    ratios: CallRatios,
) -> Origins:
    """Separate calls and costs that come from changed code; arrays have shape (n,), one per table row.

    `busy` and `within` are CPU seconds without and with callees. Calls of `waits` are ignored.
    """
    table, calls = pair.table, pair.calls
    calls_a, calls_b = (side.ncalls.astype(np.float64) for side in (table.baseline, table.candidate))
    code = _changed(pair, busy)
    # A function may hold all of the time on one side because it changed.
    roots = np.minimum(*(side / max(float(side.max(initial=0.0)), 1e-12) for side in within)) >= ROOT_SHARE
    if calls is None or not len(calls):
        part = code.astype(np.float64)
        cost = _cost_part(table, busy, part, ratios, sites)
        return Origins(ratios, part, cost, sites.booked(part[sites.row], np.zeros(len(sites.row))))
    with np.errstate(divide="ignore", invalid="ignore"):
        with_processes = np.where(calls_b != calls_a, of_processes / (calls_b - calls_a), 0.0)
    edges = _Edges(calls, calls_a, calls_b, waits, ratios)
    found = _origins(table, edges, code, within, with_processes)
    assumed = code.copy()
    assumed[[o.row for o in found if o.from_code]] = True
    from_code = blame = np.zeros(edges.n)
    for _ in range(ROUNDS):
        before = from_code
        blame = _blame(table, edges, assumed, from_code)
        from_code = _calls_from_code(table, edges, blame, code)
        if np.allclose(from_code, before, atol=1e-3):
            break
    below = _below(table, calls, code, roots, (calls_a, calls_b))
    cost = _cost_part(table, busy, below, ratios, sites)
    # Where changed code changes the number of calls, their changed cost belongs to the same change.
    other_calls = ratios.changed & (np.abs(calls_b - calls_a) > CALLS_CHANGED * np.maximum(calls_a, 1.0))
    cost = np.where(other_calls, np.maximum(cost, from_code), cost)
    with_processes = np.clip(with_processes, 0.0, 1.0)
    sites = sites.booked(
        _sites_from_code(sites, edges, blame, from_code, len(calls)), with_processes[sites.row]
    )
    return Origins(ratios, below, cost, sites, found)


def _changed(pair: Pair, busy: tuple[Floats, Floats]) -> Bools:
    """Return functions whose source differs, and project functions that are new or gone with them."""
    table = pair.table
    project, differs = table.in_roots(PROJECT), table.differs
    if pair.python_differs:
        differs &= project
    # New functions are a code change only if the project is still there; otherwise it is another program.
    if table.sources_known and still_there(table, busy):
        differs |= table.one_sided & ~table.uncalled & project
    return differs


class _Edges:
    """Caller–callee counts of both sides, without functions that wait, and the calls that each call makes."""

    def __init__(
        self, calls: CallTable, calls_a: Floats, calls_b: Floats, waits: Bools, ratios: CallRatios
    ) -> None:
        kept = ~waits[calls.callee] & (calls.caller != calls.callee)
        self.pair = np.flatnonzero(kept)
        self.caller = calls.caller[kept].astype(np.intp)
        self.callee = calls.callee[kept].astype(np.intp)
        self.before = calls.baseline.ncalls[kept].astype(np.float64)
        self.after = calls.candidate.ncalls[kept].astype(np.float64)
        of_a, of_b = calls_a[self.caller], calls_b[self.caller]
        # Callers whose calls are unknown hand down nothing.
        self.per_call = ratios.weighed[self.caller] * each_call((self.before, self.after), (of_a, of_b))
        #: Calls that a change of the caller's own calls does not explain.
        self.originating = self.after - self.before - self.per_call * (of_b - of_a)
        # A function that one side lacks hands down its calls; it originates none.
        self.originating[(of_a <= 0) | (of_b <= 0)] = 0.0
        # Calls within the error of the estimates originate nowhere.
        with np.errstate(invalid="ignore"):
            doubt = ratios.doubt[self.callee] * self.after + ratios.doubt[self.caller] * self.per_call * of_b
        self.originating[~(np.abs(self.originating) > doubt)] = 0.0
        #: Changed calls of callers whose own calls are not known: they count if the caller's code changed.
        self.of_unknown = np.where(ratios.weighed[self.caller], 0.0, self.after - self.before)
        with np.errstate(invalid="ignore"):
            self.of_unknown[~(np.abs(self.of_unknown) > ratios.doubt[self.callee] * self.after)] = 0.0
        #: Seconds per call with callees, of this pair where the baseline has it: other callers' calls may
        #: cost something else.
        spent = calls.baseline.cumtime[kept], calls.candidate.cumtime[kept]
        self.cost = each_call(spent, (self.before, self.after))
        self.calls_a, self.calls_b, self.n = calls_a, calls_b, len(calls_a)


def _origins(
    table: DiffTable,
    edges: _Edges,
    code: Bools,
    within: tuple[Floats, Floats],
    with_processes: Floats,
) -> tuple[Origin, ...]:
    """Return the functions that originate the changed calls, by the seconds that these calls take."""
    seconds = edges.originating * edges.cost * (1.0 - with_processes)[edges.callee]
    by_caller = np.bincount(edges.caller, seconds, edges.n)
    # Fewer seconds do not explain a total that grew, nor more seconds one that shrank.
    way = by_caller * np.sign(float(within[1].max(initial=0.0)) - float(within[0].max(initial=0.0)))
    whole = float(way[way > 0].sum())
    least = max(noise.MIN_SECONDS, noise.TV_P95 * float(within[0].max(initial=0.0)))
    order = np.argsort(-np.abs(by_caller), kind="stable")[:MOST_ORIGINS]
    found = []
    for row in order.tolist():
        if abs(by_caller[row]) < least:
            break
        of = np.flatnonzero(edges.caller == row)
        edge = int(of[np.abs(seconds[of]).argmax()])
        before = edges.before[edge] / max(1.0, edges.calls_a[row])
        after = edges.after[edge] / max(1.0, edges.calls_b[row])
        alone = way[row] >= ALONE * whole > 0
        # Without known sources: the loop of a function called repeatedly is taken as its code; the loop of a
        # function that runs once is the amount of work.
        guessed = (
            table.same_source[row] is None
            and table.keys[row].root == PROJECT
            and min(edges.calls_a[row], edges.calls_b[row]) >= CALLED_AGAIN
            and alone
        )
        found.append(
            Origin(
                row,
                int(edges.callee[edge]),
                float(before),
                float(after),
                int(edges.calls_b[row]),
                float(by_caller[row]),
                bool(code[row]) or guessed,
            )
        )
    return tuple(found)


#: Without known sources, one function's code counts as changed if it originates this part of the changed
#: calls' time in the direction of the total, and both sides call it this often.
ALONE = 0.6
CALLED_AGAIN = 3


def _blame(table: DiffTable, edges: _Edges, assumed: Bools, from_code: Floats) -> Floats:
    """Return the part of each function's change that comes from its own code or from changed callers.

    A library function does what its arguments say, so it inherits changes from callers.
    """
    n = edges.n
    library = ~table.in_roots(PROJECT) & ~assumed
    moved = np.abs(edges.after - edges.before)
    differs = np.bincount(edges.callee, moved, n) > 0
    weight = np.where(differs[edges.callee], moved, edges.after)
    whole = np.bincount(edges.callee, weight, n)[edges.callee]
    weight = np.where(whole > 0, weight / np.maximum(whole, 1e-300), 0.0)

    def following(blame: Floats) -> Floats:
        doing = np.maximum(blame, from_code)
        handed = np.bincount(edges.callee, weight * doing[edges.caller], n)
        return np.where(library, np.minimum(handed, 1.0), assumed)

    between = edges.caller, edges.callee, weight * library[edges.callee]
    return handed_down(following, assumed.astype(np.float64), between, (np.zeros(n), np.ones(n)))


def _calls_from_code(table: DiffTable, edges: _Edges, blame: Floats, code: Bools) -> Floats:
    """Return the part of each function's changed calls from changed code, passed from caller to callee."""
    change = edges.calls_b - edges.calls_a
    one_sided = table.one_sided
    changed = edges.originating + edges.of_unknown
    source = np.bincount(edges.callee, blame[edges.caller] * changed, edges.n).astype(np.float64)
    fixed = code & one_sided
    extra = np.where(fixed, change, source)
    if not extra.any():
        return np.zeros(edges.n)

    def following(current: Floats) -> Floats:
        handed = np.bincount(edges.callee, edges.per_call * current[edges.caller], edges.n)
        # Recursion may hand down more calls than changed; bound it by the change.
        return np.where(fixed, change, np.clip(source + handed, -np.abs(change), np.abs(change)))

    between = edges.caller, edges.callee, edges.per_call * ~fixed[edges.callee]
    limits = np.minimum(change, 0.0), np.maximum(change, 0.0)
    current = handed_down(following, extra, between, limits)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(change != 0, current / change, 0.0)
    result: Floats = np.clip(np.nan_to_num(part), 0.0, 1.0)
    return result


def _sites_from_code(sites: CallSites, edges: _Edges, blame: Floats, from_code: Floats, pairs: int) -> Floats:
    """Return the part of each site's changed calls from changed code, or its function's where unknown."""
    change = edges.after - edges.before
    handed = edges.per_call * (from_code * (edges.calls_b - edges.calls_a))[edges.caller]
    with np.errstate(divide="ignore", invalid="ignore"):
        made = blame[edges.caller] * (edges.originating + edges.of_unknown)
        part = np.where(change != 0, (made + handed) / change, 0.0)
    of_pairs = np.full(pairs + 1, np.nan)
    of_pairs[edges.pair] = np.clip(part, 0.0, 1.0)
    found = of_pairs[sites.pair]
    return np.where(np.isfinite(found), found, from_code[sites.row])


def _below(
    table: DiffTable, calls: CallTable, code: Bools, roots: Bools, counts: tuple[Floats, Floats]
) -> Floats:
    """Return the part of each function's changed cost below changed code, 1 for changed functions."""
    part = code.astype(np.float64)
    if not code.any():
        return part
    n = len(part)
    caller, callee = calls.caller.astype(np.intp), calls.callee.astype(np.intp)
    e_a, e_b = calls.baseline.ncalls.astype(np.float64), calls.candidate.ncalls.astype(np.float64)
    t_a, t_b = calls.baseline.tottime, calls.candidate.tottime
    own_a = np.bincount(callee, t_a, n) / np.maximum(counts[0], 1.0)
    usual = np.where(e_a > 0, t_a / np.maximum(e_a, 1.0), own_a[callee])
    moved = np.abs(t_b - usual * e_b)
    # A function that no sample met outside its callees passes on what moved in these.
    within = np.abs(calls.candidate.cumtime - calls.baseline.cumtime)
    unmet = (np.bincount(callee, moved, n) <= 0)[callee]
    # Nor may any have met the calls that enter a recursion.
    moved = np.where(unmet, within, np.where(moved > 0, moved, ENTERING * within))
    whole = np.bincount(callee, moved, n)
    weight = np.where(whole[callee] > 0, moved / np.maximum(whole[callee], 1e-300), 0.0)
    builtin = table.in_roots(BUILTIN)
    # Everything is below a root, so a root passes its part only to native functions, which run on its
    # arguments.
    weight = weight * (~roots[caller] | builtin[callee])

    def following(part: Floats) -> Floats:
        return np.where(code, 1.0, np.minimum(np.bincount(callee, weight * part[caller], n), 1.0))

    between = caller, callee, weight * ~code[callee]
    return handed_down(following, part, between, (np.zeros(n), np.ones(n)))


def _cost_part(
    table: DiffTable, busy: tuple[Floats, Floats], below: Floats, ratios: CallRatios, sites: CallSites
) -> Floats:
    """Return the part of the cost below changed code beyond the factor that all other functions share."""
    if not below.any():
        return below
    a, b = table.baseline, table.candidate
    heavy = np.maximum(*map(shares, busy)) >= noise.MIN_SHARE
    other = heavy & (below < MOSTLY_BELOW) & ratios.known
    moved = log_ratios(busy[0][other], a.ncalls[other], busy[1][other], b.ncalls[other])
    known = moved[np.isfinite(moved)]
    common = location_and_spread(known)[0] if len(known) >= FEWEST_OTHERS else 0.0
    gained = busy[1] - busy[0] - sites.by_row(sites.seconds(*busy))
    shared = logarithmic_mean(*busy) * common
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(gained != 0, 1.0 - shared / gained, 0.0)
    result: Floats = below * np.clip(np.nan_to_num(beyond), 0.0, 1.0)
    return result
