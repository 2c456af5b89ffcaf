"""Compare the processes of one job: which of them hold the others up, where, and what that costs.

Each is compared with the median of the *others*. Waiting for other processes is never a fault: the slowest
process waits least. `docs/ranks.md` has formulas, sources, and measured error rates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.measure.function_orders import ranks, shares, total_variation
from profkit.model import FunctionKey
from profkit.model.arrays import Bools, Floats
from profkit.study.rank_functions import waits_and_imports
from profkit.study.rank_read import Member
from profkit.study.rank_study import Imbalance, Moved, Place, RankStudy, Reordered, efficiency
from profkit.study.rank_table import RankTable
from profkit.study.stragglers import (
    KEPT,
    MATERIAL,
    MOST_NAMED,
    WAITING_SEEN,
    Work,
    find_stragglers,
    outliers,
    threshold,
    work_of,
)

#: Noise of `RankStudy.elsewhere` (1) in balanced processes.
ELSEWHERE_NOISE = 0.02
#: Part (1) of a process's CPU time from which the spread of a function is listed.
LEAST_LISTED = 0.005


def study_ranks(table: RankTable, *, waits: tuple[str, ...] = ()) -> RankStudy:
    """Compare the processes of a job; `waits` must be those with which the table was read."""
    members = table.members
    waiting, importing = (np.array(flags, np.bool_) for flags in waits_and_imports(table.functions, waits))
    work = work_of(table, ~(waiting | importing))
    seen = 2 * sum(m.waits_s > WAITING_SEEN * m.life_s for m in members) >= len(members)
    stragglers = find_stragglers(table, work, waiting_seen=seen)
    late = {straggler.member for straggler in stragglers}
    typical = shares(np.where(work.counted, work.usual, 0.0))
    elsewhere = np.array(
        [total_variation(shares(np.where(work.counted, row, 0.0)), typical) for row in work.seconds]
    )
    return RankStudy(
        members=members,
        functions=table.functions,
        work=work.seconds,
        usual=work.usual,
        outlying=work.outlying,
        elsewhere=elsewhere,
        stragglers=tuple(stragglers),
        reordered=tuple(_reordered(table.functions, work, elsewhere)),
        moved=() if seen else tuple(_moved(table, work, late)),
        imbalance=tuple(_imbalance(work.seconds, work.counted)),
        efficiency=efficiency(members),
        waiting_seen=seen,
        measured=all(member.measured for member in members),
        slow_host=_slow_host(members, late),
        ranges=table.ranges,
        notices=table.skipped,
    )


def _moved(table: RankTable, work: Work, stragglers: set[int]) -> list[Moved]:
    """Find processes that are longer in one function and shorter by at least `KEPT` of that in another."""
    excess, found = work.excess, []
    outlying = work.outlying & (excess >= MATERIAL * work.usual_run)
    for r in np.flatnonzero(outlying.any(axis=1)).tolist():
        if r in stragglers:
            continue
        more = int(np.where(outlying[r], excess[r], 0.0).argmax())
        less = int(excess[r].argmin())
        if -excess[r, less] >= KEPT * excess[r, more]:
            found.append(
                Moved(
                    r,
                    table.functions[more],
                    float(excess[r, more]),
                    table.functions[less],
                    float(-excess[r, less]),
                )
            )
    return found


def _reordered(functions: Sequence[FunctionKey], work: Work, elsewhere: Floats) -> list[Reordered]:
    counted = work.counted
    _, z = outliers(elsewhere, 0.5, ELSEWHERE_NOISE)
    found = []
    places = ranks(np.where(counted, work.usual, -1.0))
    for r in np.flatnonzero(z > threshold(len(elsewhere))).tolist():
        own = ranks(np.where(counted, work.seconds[r], -1.0))
        excess = work.seconds[r] - work.usual
        moved = [
            f
            for f in np.argsort(-np.abs(excess), kind="stable").tolist()
            if counted[f] and own[f] != places[f]
        ]
        listed = tuple(
            Place(functions[f], int(own[f]), int(places[f]), float(excess[f])) for f in moved[:MOST_NAMED]
        )
        if listed:
            found.append(Reordered(r, float(elsewhere[r]), listed))
    return sorted(found, key=lambda one: (-one.elsewhere, one.member))


def _imbalance(work: Floats, counted: Bools) -> list[Imbalance]:
    mean, most = work.mean(axis=0), work.max(axis=0)
    places = np.array([ranks(np.where(counted, row, -1.0)) for row in work])
    lost = np.where(counted, most - mean, 0.0)
    least = LEAST_LISTED * float(np.median(work[:, counted].sum(axis=1)))
    return [
        Imbalance(
            f,
            float(mean[f]),
            float(most[f]),
            int(work[:, f].argmax()),
            float(most[f] / mean[f]),
            (int(places[:, f].min()), int(places[:, f].max())),
        )
        for f in np.argsort(-lost, kind="stable").tolist()
        if counted[f] and most[f] > 0 and most[f] >= least
    ]


def _slow_host(members: Sequence[Member], stragglers: set[int]) -> str:
    hosts = {members[r].host for r in stragglers}
    there = {i for i, member in enumerate(members) if member.host in hosts}
    alone = len(hosts) == 1 and there == stragglers and 1 < len(there) < len(members)
    return hosts.pop() if alone else ""
