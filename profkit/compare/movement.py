"""How the function table moved as a whole: calls, times per call, gains, scatter of the replicates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.compare.call_sites import CallSites, logarithmic_mean
from profkit.compare.function_table import at_rows
from profkit.compare.pair import Pair
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import CALLS_CHANGED, CallRatios
from profkit.identity.lookup_columns import rows_where
from profkit.measure import noise
from profkit.measure.function_orders import location_and_spread, log_ratios, shares
from profkit.measure.waits_by_name import waits_for_ranks
from profkit.model import PROJECT
from profkit.model.arrays import Bools, Floats

#: Part of the baseline's time in functions that the candidate still has, below which it is another program.
STILL_THERE = 0.5
#: Number of rows searched for a changed function with much time below it.
MOST_BELOW = 200
#: Part of the greatest cumulative time from which a function is a root: all gains are below it.
ROOT_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Movement:
    """How the table moved as a whole; parts are 0 to 1, NaN means unknown, rows are −1 where there is none.

    `calls_factor`, with its 95 % limits, is the factor of time explained by changed calls. `calls_known` and
    `gains_known` are the parts of common time and of gains in functions with well-known calls;
    `calls_changed` is the part of time in functions whose calls changed by more than `CALLS_CHANGED`. All
    exclude waits. `ratio` and `spread` are median and scaled MAD of ln self time per call over heavy
    `functions`.

    `top_*` is the function with the greatest gain in CPU seconds, `changed_row` the greatest whose source
    differs or that is new. `below_row` is the changed function, other than a root, that gained most with
    callees. `busy_total` is the baseline's CPU seconds. `stopped_work` is the part of added off-CPU time
    outside waits.
    """

    calls_factor: float
    calls_low: float
    calls_high: float
    calls_known: float
    gains_known: float
    calls_changed: float
    ratio: float
    spread: float
    functions: int
    top_row: int
    top_part: float
    top_gain: float
    changed_row: int
    busy_total: float
    below_row: int
    stopped_work: float

    @property
    def calls_shown(self) -> float:
        """The limit of `calls_factor` that is nearer to 1, or 1 where its interval includes 1."""
        if self.calls_low <= 1 <= self.calls_high:
            return 1.0
        return self.calls_low if self.calls_low > 1 else self.calls_high


def movement(
    pair: Pair,
    busy: tuple[Floats, Floats],
    within: tuple[Floats, Floats],
    of_processes: Floats,
    sites: CallSites,
    called: CallRatios,
) -> Movement:
    """Summarise how times and calls moved over the table; arrays have shape (n,), times are seconds.

    `busy` is CPU time, `within` the same with callees. Calls `of_processes` come with the number of processes
    and are not work.
    """
    table = pair.table
    a, b = table.baseline, table.candidate
    busy_a, busy_b = busy
    heavy = np.flatnonzero(np.maximum(*map(shares, busy)) >= noise.MIN_SHARE)
    # Calls that MPI libraries make from C are not counted, and waiting for ranks is not the work of this one.
    of_ranks = rows_where(table.name, waits_for_ranks) & ~called.known
    heavy = heavy[[not (table.waits(row) or of_ranks[row]) for row in heavy.tolist()]]
    both = heavy[(a.present & b.present)[heavy] & ~(called.exact & np.isnan(called.value))[heavy]]
    active = both[(a.ncalls[both] > 0) & (b.ncalls[both] > 0) & called.weighed[both]]
    time_a, time_b = busy_a[active], busy_b[active]
    before, after = float(time_a.sum()), float(time_b.sum())
    factor = (b.ncalls - of_processes)[active] / a.ncalls[active]
    low, high = (factor * (limit / called.value)[active] for limit in (called.low, called.high))
    weight = 0.5 * (time_a / max(before, 1e-12) + time_b / max(after, 1e-12))
    with np.errstate(divide="ignore"):  # an interval may begin at 0 calls
        log_low, log_high = np.log(low), np.log(high)
    altered = (log_low > math.log1p(CALLS_CHANGED)) | (log_high < -math.log1p(CALLS_CHANGED))
    added = b.ncalls - a.ncalls
    with_processes = np.divide(of_processes, added, out=np.zeros(len(added)), where=added != 0)
    factors = _calls_index(sites, busy, with_processes, active)
    ratios = log_ratios(time_a, a.ncalls[active], time_b, b.ncalls[active])
    ratios = np.where(called.known[active], ratios, np.nan)
    location, spread = location_and_spread(ratios)

    gain = np.maximum(busy_b - busy_a, 0.0)[heavy]
    gains = float(gain.sum())
    gained_known = float(gain[called.known[heavy]].sum())
    top = int(heavy[gain.argmax()]) if gains > 0 else -1
    project = table.in_roots(PROJECT)
    ours = project | (not pair.python_differs)
    # New functions are changed code where a source is known to differ, or in a project that is still there.
    named = (ours & (table.differs | (table.new & project & still_there(table, busy))))[heavy]
    changed_row = int(heavy[np.where(named, gain, -1.0).argmax()]) if named.any() else -1
    return Movement(
        calls_factor=factors[0],
        calls_low=factors[1],
        calls_high=factors[2],
        calls_known=_part(before + after, float((busy_a + busy_b)[both].sum())),
        gains_known=_part(gained_known, gains),
        calls_changed=float(weight[altered].sum()) if len(active) else float("nan"),
        ratio=location,
        spread=spread,
        functions=int(np.isfinite(ratios).sum()),
        top_row=top,
        top_part=float(gain.max()) / gains if gains > 0 else float("nan"),
        top_gain=float(gain.max()) if gains > 0 else 0.0,
        changed_row=changed_row,
        busy_total=float(busy_a.sum()),
        below_row=_below_changed(table.differs & ours, within) if gains > 0 else -1,
        stopped_work=_stopped_work(pair),
    )


def still_there(table: DiffTable, busy: tuple[Floats, Floats]) -> bool:
    """Return whether one side has functions with most of the other's time: they are the same program."""
    a, b = table.baseline, table.candidate
    return any(
        float(seconds[present].sum()) >= STILL_THERE * float(seconds.sum()) > 0
        for seconds, present in zip(busy, (b.present, a.present), strict=True)
    )


def _calls_index(
    sites: CallSites, busy: tuple[Floats, Floats], with_processes: Floats, rows: npt.NDArray[np.intp]
) -> tuple[float, float, float]:
    """Return the index of the calls of `rows` with its 95 % interval (Montgomery, Vartia), or NaN."""
    whole = logarithmic_mean(*(np.array([side[rows].sum()]) for side in busy)).item()
    own = 1.0 - np.clip(with_processes, 0.0, 1.0)
    found = []
    for seconds in (sites.seconds(*busy), *sites.limits(*busy)):
        moved = float((sites.by_row(seconds) * own)[rows].sum())
        found.append(math.exp(moved / whole) if whole > 0 else math.nan)
    return found[0], found[1], found[2]


def _part(known: float, whole: float) -> float:
    return known / whole if whole > 0 else 1.0


def _below_changed(differs: Bools, within: tuple[Floats, Floats]) -> int:
    """Return the changed row that gained most with callees, −1 without one."""
    before, after = within
    whole = max(float(before.max(initial=0.0)), 1e-12)
    rows = np.argsort(before - after, kind="stable")[:MOST_BELOW]
    gained = after - before >= noise.MIN_SECONDS
    rows = rows[(differs & gained & (before <= ROOT_SHARE * whole))[rows]]
    return int(rows[0]) if len(rows) else -1


def _stopped_work(pair: Pair) -> float:
    """Return the part of added off-CPU time in functions that do not wait by design; NaN if unknown."""
    a, b = pair.profiles
    if a.blocked is None or b.blocked is None:
        return float("nan")
    grown = np.maximum(at_rows(b.blocked, pair.behind[1]) - at_rows(a.blocked, pair.behind[0]), 0.0)
    rows = np.flatnonzero(grown >= noise.MIN_SECONDS)
    whole = float(grown[rows].sum())
    if whole <= 0:
        return float("nan")
    work = sum(float(grown[row]) for row in rows.tolist() if not pair.table.waits(row))
    return work / whole
