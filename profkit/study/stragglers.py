"""Which processes of a job the others wait for, where these lose their time, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from profkit.measure.function_orders import MAD_SCALE
from profkit.model.arrays import Bools, Floats
from profkit.study.rank_study import COMPUTING, Deviation, Straggler
from profkit.study.rank_table import RankTable
from profkit.study.wait_states import (
    IMBALANCE,
    WAIT_STATES,
    slower_everywhere,
    unknown_of,
    waited_for,
    why_off,
)

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
#: Part (1) of a straggler's excess CPU time from which the garbage collector is its reason.
COLLECTED = 0.5
#: Least part (1) of the greatest excess off the CPU that CPU time must have to name the straggler.
LEAST_NAMED = 0.25
#: Most functions that describe a straggler.
MOST_NAMED = 5
#: Chance (1) of a false straggler in one component of a balanced job with normal noise.
ALPHA = 0.01
#: Standard deviations of balanced processes, as parts (1) of the usual value: CPU time, self time without
#: counters, queueing, time off the CPU. Measured on balanced MPI jobs on a busy machine (docs/ranks.md).
RUN_NOISE, PLAIN_NOISE, QUEUE_NOISE, BLOCKED_NOISE = 0.02, 0.10, 0.35, 0.50
#: Least standard deviations: of a function, as a part of all CPU time; of queueing and blocking, of the pace.
LEAST_RUN, LEAST_OFF = 0.002, 0.01
#: Degrees of freedom of the measured noise, which is weighted against the scatter of the others.
PRIOR_FREEDOM = 8.0
#: Efficiency of the median absolute deviation: it is worth this part of `n` values (Rousseeuw and Croux 1993).
MAD_EFFICIENCY = 0.37
#: Processes from which their scatter is meaningful.
LEAST_SCATTER = 4


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

    One-sided quantile of Student's t at 1 − `ALPHA` / (n × tests), by Wallace's approximation (Annals of Mathematical
    Statistics 30, 1959). √(1 + v / (n − 1)) covers the noise of the others' median: v is 1 for two, π/2 for many.
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


def outliers(values: Floats, relative: float | Floats, least: float) -> tuple[Floats, Floats]:
    """Return the excess of each value over the others' median, and the same in standard deviations."""
    # Noise is relative to the others' median: of two processes, a common median contains half of the outlier.
    others = others_median(values)
    prior = np.sqrt((relative * others) ** 2 + least**2)
    excess = values - others
    return excess, excess / np.maximum(_scale(values, prior), 1e-12)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Time of each process (row) in each function (column): CPU time, or self time without counters.

    `usual`: median by function; `usual_run`: the processes' median CPU time. `excess`: over the others'
    median, `z`: the same in standard deviations, from the `noise` of balanced processes. `counted`: functions
    that neither wait for other processes nor import. `outlying`: excess beyond the noise; `large`: functions
    in which an excess would matter.
    """

    seconds: Floats
    usual: Floats
    usual_run: float
    noise: float
    excess: Floats
    z: Floats
    counted: Bools
    large: Bools
    outlying: Bools


def work_of(table: RankTable, counted: Bools) -> Work:
    """Return the time of a job's processes in functions, of which `counted` are work."""
    n = len(table.members)
    measured = all(member.measured for member in table.members)
    seconds = table.metric("run") if measured else table.metric("run") + table.metric("queue")
    noise = RUN_NOISE if measured else PLAIN_NOISE
    usual = np.median(seconds, axis=0)
    usual_run = float(np.median([member.run_s for member in table.members]))
    excess, z = outliers(seconds, noise, LEAST_RUN * usual_run)
    large = counted & (usual + excess.max(axis=0, initial=0.0) >= MATERIAL * usual_run)
    outlying = (z > threshold(n, int(large.sum()))) & counted
    return Work(seconds, usual, usual_run, noise, excess, z, counted, large, outlying)


def find_stragglers(table: RankTable, work: Work, *, waiting_seen: bool) -> list[Straggler]:
    """Return the processes that the others wait for, slowest first."""
    members = table.members
    n = len(members)
    pace, life, run, queue, blocked, waited = (
        np.array([getattr(m, name) for m in members])
        for name in ("pace_s", "life_s", "run_s", "queue_s", "blocked_s", "waits_s")
    )
    usual_run, usual_pace = work.usual_run, float(np.median(pace))

    # Where time is lost.
    by_function = np.where(work.outlying & work.large, work.excess, 0.0).sum(axis=1)
    in_ranges = _in_ranges(table, float(np.median(queue)) / max(usual_pace, 1e-12), work.noise)

    # How much is lost as a whole.
    limit = threshold(n, 3)
    parts = {
        "run": outliers(run, work.noise, LEAST_RUN * usual_run),
        "queue": outliers(queue, QUEUE_NOISE, LEAST_OFF * usual_pace),
        "blocked": outliers(blocked, BLOCKED_NOISE, LEAST_OFF * usual_pace),
    }
    # An excess outside the main thread's total holds nobody up: helpers had it, or it replaced other work.
    kept = parts["run"][0] >= KEPT * by_function
    slow_work = ((by_function >= MATERIAL * usual_run) & kept) | (
        (parts["run"][1] > limit) & (parts["run"][0] >= MATERIAL * usual_run)
    )
    slow_off = np.zeros(n, np.bool_)
    # Off the CPU, a rank that finishes earlier may be waiting for the others in calls that are not known to wait.
    later = pace - others_median(pace)
    for name in ("queue", "blocked"):
        off_s, beyond = parts[name]
        slow_off |= (beyond > limit) & (off_s >= MATERIAL * usual_pace) & (later >= KEPT * off_s)
    waits_by = np.array([m.waits_by for m in members])
    for_it = np.array([waited_for(waits_by, r)[1] for r in range(n)])
    off_seen = (parts["blocked"][0] >= MATERIAL_SEEN * usual_pace) & (for_it >= KEPT * parts["blocked"][0])
    slow_off |= off_seen
    slow_range = np.array(
        # The greatest, not the sum, since ranges nest.
        [max((d.excess_s for d in found), default=0.0) >= MATERIAL * usual_pace for found in in_ranges],
        np.bool_,
    )
    # A process that takes no longer than the others, with or without queueing, delays nobody.
    late = np.full(n, not waiting_seen)
    for own in (pace, run + blocked):
        late |= own > others_median(own)
    chosen = np.flatnonzero((slow_work | slow_off | slow_range) & late).tolist()
    in_functions = _in_functions(table, work, chosen)
    usual_paces, usual_waits = others_median(pace), others_median(waited)
    collecting = _excess([m.collects_s for m in members])
    off_excess = _excess([m.off_for for m in members])
    of_others = np.where(work.counted, work.seconds - work.excess, 0.0)
    stragglers = []
    for r in chosen:
        deviations = sorted(in_functions[r] + in_ranges[r], key=lambda d: -d.excess_s)
        without, faster = _without(r, pace, life)
        excess_s = {name: float(part[0][r]) for name, part in parts.items()}
        off = {name for name in ("queue", "blocked") if parts[name][1][r] > limit}
        if off_seen[r]:
            off.add("blocked")
        kind = _kind(excess_s, off, bool(slow_work[r]), bool(slow_off[r]), deviations)
        of_collector = None if collecting is None else float(collecting[r])
        if kind in COMPUTING and (of_collector or 0.0) > COLLECTED * excess_s["run"]:
            kind = "collections"
        everywhere = slower_everywhere(work.seconds[r], of_others[r])
        if everywhere and kind in ("slower", "longer"):
            if waiting_seen and pace[r] <= usual_paces[r]:
                continue  # where it ran cost it more CPU time, and as much less queueing
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
    return sorted(stragglers, key=lambda s: (s.usual_s - s.pace_s, s.member))


def _in_functions(table: RankTable, work: Work, chosen: Sequence[int]) -> dict[int, list[Deviation]]:
    """Return the functions that take the chosen processes longer than the others."""
    low, high = table.metric("calls_low"), table.metric("calls_high")
    with np.errstate(invalid="ignore"):  # unknown calls are 0 and infinity, whose product is NaN
        middle = np.sqrt(low * high)
    calls = _ratios(middle, others_median(middle))
    fewest, most = _ratios(low, others_median(high)), _ratios(high, others_median(low))
    listed = work.outlying & (work.excess >= 0.1 * MATERIAL * work.usual_run)
    return {
        r: [
            Deviation(
                table.functions[f],
                None,
                float(work.seconds[r, f]),
                float(work.seconds[r, f] - work.excess[r, f]),
                float(calls[r, f]),
                float(work.z[r, f]),
                (float(fewest[r, f]), float(most[r, f])),
            )
            for f in np.flatnonzero(listed[r]).tolist()
        ]
        for r in chosen
    }


def _in_ranges(table: RankTable, queued: float, noise: float) -> list[list[Deviation]]:
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
        excess, z = outliers(values, relative, 0.0)
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
    """Return the kind of a straggler: the greatest part that is beyond the noise, as those of `off` are.

    What is beyond the noise but a small part of what it takes longer is not why it is late.
    """
    most, name = max(((excess_s[name], name) for name in off), default=(0.0, ""))
    if (stood and most > excess_s["run"]) or (not worked and name):
        return name
    longest = max("queue", "blocked", key=lambda name: (excess_s[name], name))
    # If it is slow only in its ranges, the longest part is named.
    least = LEAST_NAMED if worked else 1.0
    if excess_s["run"] < least * excess_s[longest]:
        return longest
    functions = [d for d in deviations if d.function is not None]
    total = sum(d.excess_s for d in functions)
    more = sum(d.excess_s for d in functions if d.calls_interval[0] > 1 + CALLS_CHANGED)
    alike = sum(d.excess_s for d in functions if d.calls_interval[1] <= 1 + CALLS_CHANGED)
    if more + alike < 0.5 * total:
        return "longer"
    return "work" if functions and more >= alike else "slower"


def _excess(values: Sequence[object]) -> Floats | None:
    """Return each process's excess over the others' median; ``None`` if one is unknown."""
    if any(value is None for value in values):
        return None
    own = np.array(values, np.float64)
    return own - others_median(own)


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
