"""Compare the processes of one job: which of them hold the others up, where, and what that costs.

Each is compared with the median of the *others*. Waiting for other processes is never a fault: the slowest
process waits least. `docs/ranks.md` has formulas, sources, and measured error rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from profkit.measure.function_orders import MAD_SCALE, ranks, shares, total_variation
from profkit.model import FunctionKey, Notice
from profkit.model.arrays import Bools, Floats
from profkit.study.rank_read import Member, waits_and_imports
from profkit.study.rank_table import RangeRow, RankTable
from profkit.study.wait_states import (
    IMBALANCE,
    WAIT_STATES,
    slower_everywhere,
    unknown_of,
    waited_for,
    why_off,
)

#: Chance (1) of a false straggler in one component of a balanced job with normal noise.
ALPHA = 0.01
#: Standard deviations of balanced processes, as parts (1) of the usual value: CPU time, self time without
#: counters, queueing, time off the CPU. Measured on balanced MPI jobs on a busy machine (docs/ranks.md).
RUN_NOISE, PLAIN_NOISE, QUEUE_NOISE, BLOCKED_NOISE = 0.02, 0.10, 0.35, 0.50
#: Least standard deviations: of a function, as a part of all CPU time; of queueing and blocking, of the pace.
LEAST_RUN, LEAST_OFF = 0.002, 0.01
#: Degrees of freedom of the measured noise, which is weighted against the scatter of the others.
PRIOR_FREEDOM = 8.0
#: Efficiency of the median absolute deviation: it is worth this part of `n` values (Rousseeuw and Croux
#: 1993).
MAD_EFFICIENCY = 0.37
#: Processes from which their scatter is meaningful.
LEAST_SCATTER = 4
#: Part (1) of its usual time that a process must lose to be a straggler.
MATERIAL = 0.04
#: The same for time off the CPU if the others waited for this process for `KEPT` of it: their waiting is a
#: second measurement, so the general noise of off-CPU time does not matter.
MATERIAL_SEEN = 0.10
#: Part (1) from which a function counts as called more often, not as slower.
CALLS_CHANGED = 0.05
#: Least part (1) of the excess in single functions that the main thread as a whole must show.
KEPT = 0.5
#: Part (1) of its time in waiting calls from which a job's waiting counts as recorded.
WAITING_SEEN = 0.01
#: Noise of `RankStudy.elsewhere` (1) in balanced processes.
ELSEWHERE_NOISE = 0.02
#: Part (1) of a process's CPU time from which the spread of a function is listed.
LEAST_LISTED = 0.005
#: Part (1) of a straggler's excess CPU time from which the garbage collector is its reason.
COLLECTED = 0.5
#: Kinds of stragglers whose excess is CPU time.
COMPUTING = ("work", "slower", "slower-cpu", "longer")
#: Kinds of stragglers that are off the CPU without queueing.
STANDING = ("blocked", "loading", "stopped")
#: Most functions that describe a straggler.
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Deviation:
    """One function or range (domain and name) in which a process takes longer than the others.

    `value_s` and `usual_s` (the others' median): CPU time of a function (self time without counters), or a
    range's duration times the number of ranges. `calls`: ratio to the others' median, NaN if unknown and for
    ranges. `z`: excess in standard deviations.
    """

    function: FunctionKey | None
    range: tuple[str, str] | None
    value_s: float
    usual_s: float
    calls: float
    z: float
    calls_interval: tuple[float, float]

    @property
    def excess_s(self) -> float:
        """Seconds beyond the others."""
        return self.value_s - self.usual_s


@dataclass(frozen=True, slots=True)
class Straggler:
    """A process that the others wait for; `member` is its position in `RankStudy.members`.

    `kind`: ``work`` (it does more), ``slower`` (as many calls take more CPU time in some functions),
    ``slower-cpu`` (in all of them), ``longer`` (calls are known too coarsely to tell), ``collections`` (its
    garbage collector), ``queue`` (it lacks CPUs), ``loading`` (files, disks, sockets, pipes), ``stopped`` (by
    a signal, or with its container), or ``blocked`` (locks, sleep, or unknown).

    `wait_state`: in which the others wait for it, `wait_s` on average; empty if not seen. `unknown`: why the
    reason is unknown (`unknown_of`). `pace_s` excludes its own waiting. `run_s`, `queue_s`, `blocked_s` and
    `collects_s` (part of `run_s`) are excess over the others' median. `without_s`, `faster`: estimated time
    of the job without it, and speed-up.
    """

    member: int
    kind: str
    pace_s: float
    usual_s: float
    run_s: float
    queue_s: float
    blocked_s: float
    collects_s: float | None
    waits_s: float
    usual_waits_s: float
    deviations: tuple[Deviation, ...]
    without_s: float
    faster: float
    wait_state: str
    wait_s: float
    unknown: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A process that takes longer in one function and as much less in another: one of them waits."""

    member: int
    more: FunctionKey
    more_s: float
    less: FunctionKey
    less_s: float


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How evenly the CPU time of a function (a column of `RankStudy.work`) is spread.

    `member` has the greatest time, `most_s`. `order`: least and greatest rank of the function in any process;
    rank 1 has the most time.
    """

    column: int
    mean_s: float
    most_s: float
    member: int
    factor: float
    order: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Rank of a function in one process and in the medians; rank 1 has the most time."""

    function: FunctionKey
    place: int
    usual: int
    excess_s: float


@dataclass(frozen=True, slots=True)
class Reordered:
    """A process that spends its time in other functions than usual; `places` are those whose rank differs."""

    member: int
    elsewhere: float
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiencies of one run as POP defines them, as fractions of 1; NaN if unknown.

    `parallel` = mean useful time / runtime = `balance` (mean / greatest useful time) × `communication`
    (greatest useful time / runtime). Useful time is CPU time outside of waiting and imports.
    """

    processes: int
    runtime_s: float
    useful_s: float
    parallel: float
    balance: float
    communication: float


@dataclass(frozen=True, slots=True, eq=False)
class RankStudy:
    """The result for one job; `work` and `outlying` are members × functions, lists have the greatest first.

    `work`: CPU time in seconds, self time without counters; `usual`: its median by function. `elsewhere`:
    fraction of a member's CPU time in other functions than usual. `moved`: only if no waiting was recognised
    (`waiting_seen`). `measured`: queueing and off-CPU time are known. `slow_host`: the host whose processes
    are exactly the stragglers.
    """

    members: tuple[Member, ...]
    functions: tuple[FunctionKey, ...]
    work: Floats
    usual: Floats
    outlying: Bools
    elsewhere: Floats
    stragglers: tuple[Straggler, ...]
    reordered: tuple[Reordered, ...]
    moved: tuple[Moved, ...]
    imbalance: tuple[Imbalance, ...]
    efficiency: Efficiency
    waiting_seen: bool
    measured: bool
    slow_host: str
    ranges: tuple[RangeRow, ...]
    notices: tuple[Notice, ...]

    @property
    def queue_share(self) -> float:
        """Median fraction of the processes' pace spent queueing for a CPU."""
        return float(np.median([m.queue_s / m.pace_s if m.pace_s > 0 else 0.0 for m in self.members]))


def others_median(values: Floats) -> Floats:
    """Return for each row the median of the other rows, column by column; `values` has at least two rows."""
    n = len(values)
    ordered = np.sort(values, axis=0)
    place = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    low, high = (n - 2) // 2, (n - 1) // 2

    def at(index: int) -> Floats:
        # Without the value itself, those above it move down by one.
        below, above = ordered[index], ordered[min(index + 1, n - 1)]
        result: Floats = np.where(place > index, below, above)
        return result

    return (at(low) + at(high)) / 2


def threshold(n: int, tests: int = 1) -> float:
    """Return from how many standard deviations an excess is beyond the noise among `n` processes.

    One-sided quantile of Student's t at 1 − `ALPHA` / (n × tests), by Wallace's approximation (Annals of
    Mathematical Statistics 30, 1959). √(1 + v / (n − 1)) covers the noise of the others' median: v is 1 for
    two, π/2 for many.
    """
    freedom = PRIOR_FREEDOM + (MAD_EFFICIENCY * n if n >= LEAST_SCATTER else 0.0)
    z = NormalDist().inv_cdf(1 - ALPHA / (n * max(tests, 1)))
    scaled = z * (8 * freedom + 3) / (8 * freedom + 1)
    return math.sqrt(freedom * math.expm1(scaled * scaled / freedom)) * math.sqrt(
        1 + (1 if n < 4 else math.pi / 2) / (n - 1)
    )


def _scale(values: Floats, prior: Floats) -> Floats:
    """Return the standard deviation of each value, from its column's scatter and the measured noise.

    Mean of both variances, weighted by degrees of freedom; scatter is the median absolute deviation (Smyth,
    Statistical Applications in Genetics and Molecular Biology 3, 2004).
    """
    n = len(values)
    if n < LEAST_SCATTER:
        return prior
    spread = MAD_SCALE * np.median(np.abs(values - np.median(values, axis=0)), axis=0)
    own = MAD_EFFICIENCY * n
    variance: Floats = (PRIOR_FREEDOM * prior**2 + own * spread**2) / (PRIOR_FREEDOM + own)
    return np.sqrt(variance)


def _excess(values: Sequence[object]) -> Floats | None:
    """Return each process's excess over the others' median; ``None`` if one is unknown."""
    if any(value is None for value in values):
        return None
    own = np.array(values, np.float64)
    return own - others_median(own)


def _outliers(values: Floats, relative: float | Floats, least: float) -> tuple[Floats, Floats]:
    """Return the excess of each value over the others' median, and the same in standard deviations."""
    # Noise is relative to the others' median: of two processes, a common median contains half of the outlier.
    others = others_median(values)
    prior = np.sqrt((relative * others) ** 2 + least**2)
    excess = values - others
    return excess, excess / np.maximum(_scale(values, prior), 1e-12)


def study_ranks(table: RankTable, *, waits: tuple[str, ...] = ()) -> RankStudy:
    """Compare the processes of a job; `waits` must be those with which the table was read."""
    members = table.members
    n = len(members)
    work = table.metric("run") if _measured(members) else table.metric("run") + table.metric("queue")
    low, high = table.metric("calls_low"), table.metric("calls_high")
    waiting, importing = (np.array(flags, np.bool_) for flags in waits_and_imports(table.functions, waits))
    pace = np.array([m.pace_s for m in members])
    run, queue, blocked, waited = (
        np.array([getattr(m, name) for m in members]) for name in ("run_s", "queue_s", "blocked_s", "waits_s")
    )
    life = np.array([m.life_s for m in members])
    seen = bool((waited > WAITING_SEEN * life).sum() * 2 >= n)
    noise = RUN_NOISE if _measured(members) else PLAIN_NOISE
    usual_run = float(np.median(run))
    usual_pace = float(np.median(pace))

    # Where time is lost.
    counted = ~(waiting | importing)
    excess, z = _outliers(work, noise, LEAST_RUN * usual_run)
    large = counted & (np.median(work, axis=0) + excess.max(axis=0, initial=0.0) >= MATERIAL * usual_run)
    tests = int(large.sum())
    outlying: Bools = (z > threshold(n, tests)) & counted
    material = excess >= MATERIAL * usual_run
    by_function = (np.where(outlying & large, excess, 0.0)).sum(axis=1)
    in_ranges = _of_ranges(table, float(np.median(queue)) / max(usual_pace, 1e-12), noise)

    # How much is lost as a whole.
    limit = threshold(n, 3)
    parts = {
        "run": _outliers(run, noise, LEAST_RUN * usual_run),
        "queue": _outliers(queue, QUEUE_NOISE, LEAST_OFF * usual_pace),
        "blocked": _outliers(blocked, BLOCKED_NOISE, LEAST_OFF * usual_pace),
    }
    # An excess outside the main thread's total holds nobody up: helpers had it, or it replaced other work.
    kept = parts["run"][0] >= KEPT * by_function
    slow_work = ((by_function >= MATERIAL * usual_run) & kept) | (
        (parts["run"][1] > limit) & (parts["run"][0] >= MATERIAL * usual_run)
    )
    slow_off = np.zeros(n, np.bool_)
    for name in ("queue", "blocked"):
        slow_off |= (parts[name][1] > limit) & (parts[name][0] >= MATERIAL * usual_pace)
    waits_by = np.array([m.waits_by for m in members])
    for_it = np.array([waited_for(waits_by, r)[1] for r in range(n)])
    off_seen = (parts["blocked"][0] >= MATERIAL_SEEN * usual_pace) & (for_it >= KEPT * parts["blocked"][0])
    slow_off |= off_seen
    slow_range = np.array(
        [sum(d.excess_s for d in found) >= MATERIAL * usual_pace for found in in_ranges], np.bool_
    )
    # A process that takes no longer than the others, with or without queueing, delays nobody.
    late = np.full(n, not seen)
    for own in (pace, run + blocked):
        late |= own > others_median(own)
    chosen = np.flatnonzero((slow_work | slow_off | slow_range) & late)
    usual = np.median(work, axis=0)
    with np.errstate(invalid="ignore"):  # unknown calls are 0 and infinity, whose product is NaN
        middle = np.sqrt(low * high)
    calls = _ratios(middle, others_median(middle))
    fewest, most = _ratios(low, others_median(high)), _ratios(high, others_median(low))
    usual_paces, usual_waits = others_median(pace), others_median(waited)
    collecting = _excess([m.collects_s for m in members])
    off_excess = _excess([m.off_for for m in members])
    of_others = np.where(counted, work - excess, 0.0)
    stragglers = []
    for r in chosen.tolist():
        deviations = [
            Deviation(
                table.functions[f],
                None,
                float(work[r, f]),
                float(work[r, f] - excess[r, f]),
                float(calls[r, f]),
                float(z[r, f]),
                (float(fewest[r, f]), float(most[r, f])),
            )
            for f in np.flatnonzero(outlying[r] & (excess[r] >= 0.1 * MATERIAL * usual_run)).tolist()
        ]
        deviations += in_ranges[r]
        deviations.sort(key=lambda d: -d.excess_s)
        without, faster = _without(r, pace, life)
        excess_s = {name: float(part[0][r]) for name, part in parts.items()}
        off = {name for name in ("queue", "blocked") if parts[name][1][r] > limit}
        if off_seen[r]:
            off.add("blocked")
        kind = _kind(excess_s, off, bool(slow_work[r]), bool(slow_off[r]), deviations)
        of_collector = None if collecting is None else float(collecting[r])
        if kind in COMPUTING and (of_collector or 0.0) > COLLECTED * excess_s["run"]:
            kind = "collections"
        everywhere = slower_everywhere(work[r], of_others[r])
        if everywhere and kind in ("slower", "longer"):
            kind = "slower-cpu"
        elif kind == "blocked" and off_excess is not None:
            kind = why_off(off_excess[r], excess_s["blocked"])
        state, wait_s = waited_for(waits_by, r)
        named = WAIT_STATES[state] if wait_s > WAITING_SEEN * life[r] else ""
        stragglers.append(
            Straggler(
                member=r,
                kind=kind,
                pace_s=float(pace[r]),
                usual_s=float(usual_paces[r]),
                run_s=excess_s["run"],
                queue_s=excess_s["queue"],
                blocked_s=excess_s["blocked"],
                collects_s=of_collector,
                waits_s=float(waited[r]),
                usual_waits_s=float(usual_waits[r]),
                deviations=tuple(deviations[:MOST_NAMED]),
                without_s=without,
                faster=faster,
                wait_state=named or (IMBALANCE if kind in COMPUTING else ""),
                wait_s=wait_s if named else 0.0,
                unknown=unknown_of(kind, off_excess is not None, everywhere is None),
            )
        )
    stragglers.sort(key=lambda s: (s.usual_s - s.pace_s, s.member))
    moved = [] if seen else _moved(table, excess, outlying & material, set(chosen.tolist()))
    typical = shares(np.where(counted, usual, 0.0))
    elsewhere = np.array([total_variation(shares(np.where(counted, row, 0.0)), typical) for row in work])
    return RankStudy(
        members=members,
        functions=table.functions,
        work=work,
        usual=usual,
        outlying=outlying,
        elsewhere=elsewhere,
        stragglers=tuple(stragglers),
        reordered=tuple(_reordered(table.functions, work, usual, elsewhere, counted)),
        moved=tuple(moved),
        imbalance=tuple(_imbalance(work, counted)),
        efficiency=efficiency(members),
        waiting_seen=seen,
        measured=_measured(members),
        slow_host=_slow_host(members, [s.member for s in stragglers]),
        ranges=table.ranges,
        notices=table.skipped,
    )


def _measured(members: Sequence[Member]) -> bool:
    return all(member.measured for member in members)


def _of_ranges(table: RankTable, queued: float, noise: float) -> list[list[Deviation]]:
    """Return for each process the ranges that take it longer than the others and hold no waiting for them."""
    n = len(table.members)
    found: list[list[Deviation]] = [[] for _ in range(n)]
    usable = []
    for ranges in table.ranges:
        known = [row for row in ranges.of if row is not None]
        waits = [row.waits_s for row in known]
        total = sum(row.total_s for row in known)
        if len(known) == n and not any(math.isnan(w) for w in waits) and sum(waits) <= WAITING_SEEN * total:
            usable.append(((ranges.domain, ranges.name), known))
    # Durations include queueing, so add its measured noise.
    relative = math.hypot(noise, QUEUE_NOISE * queued)
    for key, known in usable:
        usual_count = float(np.median([row.count for row in known]))
        values = np.array([row.median_s for row in known])
        excess, z = _outliers(values, relative, 0.0)
        for r in np.flatnonzero(z > threshold(n, len(usable))).tolist():
            value = float(values[r])
            found[r].append(
                Deviation(
                    None,
                    key,
                    value * usual_count,
                    (value - float(excess[r])) * usual_count,
                    math.nan,
                    float(z[r]),
                    (0.0, math.inf),
                )
            )
    return found


def _kind(
    excess_s: Mapping[str, float], off: set[str], worked: bool, stood: bool, deviations: Sequence[Deviation]
) -> str:
    """Return the kind of a straggler: the greatest part that is beyond the noise, as those of `off` are."""
    most, name = max(((excess_s[name], name) for name in off), default=(0.0, ""))
    if (stood and most > excess_s["run"]) or (not worked and name):
        return name
    if not worked:  # seen only in its ranges
        return max("queue", "blocked", key=lambda name: (excess_s[name], name))
    functions = [d for d in deviations if d.function is not None]
    total = sum(d.excess_s for d in functions)
    more = sum(d.excess_s for d in functions if d.calls_interval[0] > 1 + CALLS_CHANGED)
    alike = sum(d.excess_s for d in functions if d.calls_interval[1] <= 1 + CALLS_CHANGED)
    if more + alike < 0.5 * total:
        return "longer"
    return "work" if functions and more >= alike else "slower"


def _ratios(values: Floats, others: Floats) -> Floats:
    """Return calls over those of the others: infinite where these are 0, NaN where unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(others == 0, np.inf, values / others)


def _without(r: int, pace: Floats, life: Floats) -> tuple[float, float]:
    """Estimate the job without a process: all meet at the same points, and the next slowest sets the pace."""
    whole = float(life.max())
    rest = float(np.delete(pace, r).max())
    saved = max(0.0, float(pace[r]) - rest)
    without = max(whole - saved, 1e-12)
    return without, whole / without


def _moved(table: RankTable, excess: Floats, outlying: Bools, stragglers: set[int]) -> list[Moved]:
    """Find processes that are longer in one function and shorter by at least `KEPT` of that in another."""
    found = []
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


def _reordered(
    functions: Sequence[FunctionKey], work: Floats, usual: Floats, elsewhere: Floats, counted: Bools
) -> list[Reordered]:
    n = len(work)
    _, z = _outliers(elsewhere, 0.5, ELSEWHERE_NOISE)
    found = []
    places = ranks(np.where(counted, usual, -1.0))
    for r in np.flatnonzero(z > threshold(n)).tolist():
        own = ranks(np.where(counted, work[r], -1.0))
        excess = work[r] - usual
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


def efficiency(members: Sequence[Member]) -> Efficiency:
    """Return the efficiencies of one run, by the metrics of POP (EU centre for performance optimisation).

    Source: Wagner, Mohr, Giménez and Labarta, "A structured approach to performance analysis", Tools for High
    Performance Computing 2017, Springer 2019.
    """
    useful = np.array([m.run_s for m in members])
    runtime = max(m.life_s for m in members)
    most = float(useful.max())
    mean = float(useful.mean())
    return Efficiency(
        len(members),
        runtime,
        mean,
        mean / runtime if runtime > 0 else math.nan,
        mean / most if most > 0 else math.nan,
        most / runtime if runtime > 0 else math.nan,
    )


def _slow_host(members: Sequence[Member], stragglers: Sequence[int]) -> str:
    hosts = {members[r].host for r in stragglers}
    there = {i for i, member in enumerate(members) if member.host in hosts}
    alone = len(hosts) == 1 and there == set(stragglers) and 1 < len(there) < len(members)
    return hosts.pop() if alone else ""
