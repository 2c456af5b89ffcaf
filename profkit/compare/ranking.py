"""How far the order of functions moved between two sides, with the interval that replicates allow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from profkit.compare.function_table import at_rows
from profkit.compare.pair import Pair
from profkit.compare.replicates import ranked_times
from profkit.compare.result_types import Ranking, SideTable
from profkit.measure import noise
from profkit.measure.function_orders import ranks, rbo_distance, shares, total_variation
from profkit.measure.intervals import displacement, estimate
from profkit.model.arrays import Bools, Floats, Ints, median
from profkit.model.estimates import NORMAL

#: Number of functions in the rank-biased overlap.
DEPTH = 50
#: Rank beyond which no bootstrap draw brings a function among the first `DEPTH`.
REACH = 4 * DEPTH


def ranking_of(pair: Pair) -> Ranking:
    table, rows = pair.table, pair.behind
    before, after = table.baseline, table.candidate
    # Total variation always compares active time, of functions that matter on either side.
    share_a, share_b = shares(before.active), shares(after.active)
    heavy = np.maximum(share_a, share_b) >= noise.MIN_SHARE
    distance = rbo_distance(_order(before.rank), _order(after.rank), depth=DEPTH)
    apart = max(0.0, total_variation(share_a[heavy], share_b[heavy]) - _of_samples((before, after), heavy))
    ranked_a, ranked_b = ranked_times(pair.baseline.replicates, pair.candidate.replicates, pair.by)
    floor = _own_floor(ranked_a)
    near = ((before.rank > 0) & (before.rank <= REACH)) | ((after.rank > 0) & (after.rank <= REACH))
    times_a, times_b = at_rows(ranked_a, rows[0][near]), at_rows(ranked_b, rows[1][near])
    overlap = replace(estimate(times_a, times_b, _distance), value=distance)
    return Ranking(
        by=pair.by,
        rbo=distance,
        total_variation=apart,
        # Functions of nearly equal time that change places move no time.
        reordered=distance > floor and apart > noise.NEARLY_EQUAL,
        noise_floor=floor,
        rbo_interval=(overlap.low, overlap.high),
        displacement=estimate(times_a, times_b, _displacement),
    )


def _of_samples(sides: tuple[SideTable, SideTable], rows: Bools) -> float:
    """Return the total variation that sampling alone causes in at most 39 of 40 pairs; 0 without samples.

    |x| of a standard normal variable has mean √(2/π) and variance 1 − 2/π.
    """
    variance = np.zeros(int(rows.sum()))
    for side in sides:
        whole = max(float(side.active.sum()), 1e-12)
        variance += (side.estimates[-1][rows] / NORMAL / whole) ** 2
    deviation = np.sqrt(variance)
    mean = math.sqrt(2 / math.pi) * float(deviation.sum())
    return 0.5 * (mean + NORMAL * math.sqrt((1 - 2 / math.pi) * float(variance.sum())))


def _order(rank: Ints) -> Ints:
    """Return the rows of the first `DEPTH` ranks, best first."""
    rows = np.flatnonzero((rank > 0) & (rank <= DEPTH))
    return rows[np.argsort(rank[rows])]


def _first(times: Floats) -> npt.NDArray[np.intp]:
    """Return rows by descending median, without rows of zero time."""
    middle = median(times, axis=0)
    order = np.argsort(-middle, kind="stable")
    return order[: np.count_nonzero(middle > 0)]


def _distance(times_a: Floats, times_b: Floats) -> float:
    return rbo_distance(_first(times_a), _first(times_b), depth=DEPTH)


def _displacement(times_a: Floats, times_b: Floats) -> float:
    middle_a, middle_b = median(times_a, axis=0), median(times_b, axis=0)
    rank_a, rank_b = ranks(middle_a), ranks(middle_b)
    both = (middle_a > 0) & (middle_b > 0)
    share = np.maximum(shares(middle_a), shares(middle_b))
    heavy = both & (share >= noise.MIN_SHARE)
    return displacement(rank_a[heavy], rank_b[heavy], share[heavy])


def _own_floor(times: Floats) -> float:
    """Return the pooled floor, or the largest distance between baseline repeats if greater."""
    if len(times) < noise.MIN_RUNS_NOISE:
        return noise.RBO_P99
    orders = [np.argsort(-row, kind="stable")[:DEPTH] for row in times]
    pairs = [(i, j) for i in range(len(orders)) for j in range(i)]
    return max(noise.RBO_P99, *(rbo_distance(orders[i], orders[j], depth=DEPTH) for i, j in pairs))
