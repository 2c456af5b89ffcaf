"""Compute the `Load` of a `Run`: how many threads want a CPU at once.

A pool that worked counts in full, because a parallel region wants all its threads at once. Everything else
counts with the CPUs that it would use without queueing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.measure.inventory import (
    IDLE_CORES,
    OVERSUBSCRIBED,
    POOL_WORKS,
    active_seconds,
    cores_without_queueing,
    inventory,
    is_python,
    lived_s,
    sampled_life,
)
from profkit.measure.side_facts import side_facts
from profkit.model import Pool, Process, Run, RunSet
from profkit.model.arrays import Ints
from profkit.model.pools import NOT_BUSY

#: Part of the time for which that many threads must be wanted; shorter peaks are overlapping starts and ends.
AT_LEAST = 0.1
#: Part of running and queueing time spent queueing from which surplus threads hurt. Labelled runs with
#: surplus threads had 30 to 76 %; the limit is lower for programs with fewer parallel regions.
QUEUES = 0.1
#: Number of moments at which threads are counted.
MOMENTS = 400


@dataclass(frozen=True, slots=True)
class Crew:
    """Processes of one kind; in each, `threads` want a CPU at once.

    `pooled`: the pools' threads worked. `cores`: mean CPU seconds per second of life; `demanded` includes
    queueing; both are NaN if not counted.
    """

    role: str
    processes: int
    threads: int
    pools: tuple[Pool, ...]
    pooled: bool
    cores: float
    demanded: float


@dataclass(frozen=True, slots=True)
class Load:
    """What a program did while it was watched; `crews` has the most threads first.

    `at_once` ignores peaks shorter than a tenth of the time. `cores`: mean CPUs used; `steady_cores`: in the
    second half. `queued`: fraction of running and queueing time spent queueing, NaN without counters.
    `others`: CPUs used by other programs, NaN if not counted.
    """

    crews: tuple[Crew, ...]
    wall_s: float
    at_once: int
    cores: float
    steady_cores: float
    queued: float
    cpus: float
    others: float

    @property
    def predicted_cores(self) -> float:
        """CPUs that it will go on to use: as in the second half, at most those available."""
        cores = self.cores if math.isnan(self.steady_cores) else self.steady_cores
        return min(cores, self.cpus)

    @property
    def idle_pools(self) -> tuple[Pool, ...]:
        """Pools with more threads than CPUs that did not work; the program may not have reached them."""
        found = {
            pool.library: pool
            for crew in self.crews
            for pool in (() if crew.pooled else crew.pools)
            if pool.library not in NOT_BUSY and (pool.threads or 0) > max(1.0, self.cpus)
        }
        return tuple(found.values())

    @property
    def factor(self) -> float:
        """Threads at once per CPU; one thread is never too many, however small the quota."""
        return self.at_once / max(1.0, self.cpus)

    @property
    def oversubscribed(self) -> bool:
        """Whether there are too many threads, and they queued."""
        return self.factor > OVERSUBSCRIBED and not self.queued < QUEUES


@dataclass(frozen=True, slots=True)
class _Seen:
    """One process: its life (ns), and the threads that it has at once."""

    process: Process
    begin: int
    end: int
    threads: int
    pooled: bool


def load_of(run: Run) -> Load:
    taken = inventory(run)
    needs = dict(zip(map(id, run.processes), taken.processes, strict=True))
    bounds = [sampled_life(process) for process in run.processes]
    whole = (min(b[0] for b in bounds if b), max(b[1] for b in bounds if b)) if any(bounds) else (0, 1)
    lives = [b or whole for b in bounds]
    seen = [
        _seen(process, life, _first_child(process, run.processes, lives))
        for process, life in zip(run.processes, lives, strict=True)
    ]
    groups: dict[object, list[_Seen]] = {}
    for one in seen:
        if len(seen) > 1 and not one.threads and sum(active_seconds(one.process)) == 0:
            continue  # not counted: a pool replaces workers that end
        pools = tuple((pool.library, pool.threads, pool.origin) for pool in one.process.pools or ())
        groups.setdefault((one.process.role, one.threads, pools), []).append(one)
    crews = tuple(
        Crew(
            role=group[0].process.role,
            processes=len(group),
            threads=group[0].threads,
            pools=group[0].process.pools or (),
            pooled=group[0].pooled,
            cores=_mean([needs[id(one.process)].observed_cores for one in group]),
            demanded=_mean([needs[id(one.process)].demand_cores for one in group]),
        )
        for group in groups.values()
    )
    observed, demanded = taken.observed_cores, taken.demand_cores
    others = side_facts(RunSet(run.path, (run,)), [run.processes], 0.0).others_cores
    return Load(
        crews=tuple(sorted(crews, key=lambda crew: -crew.threads * crew.processes)),
        wall_s=(whole[1] - whole[0]) / 1e9 if run.wall_s is None else run.wall_s,
        at_once=_at_once(seen, whole),
        cores=math.nan if observed is None else observed,
        steady_cores=_steady(run.processes, whole),
        queued=math.nan if not demanded or observed is None else 1 - observed / demanded,
        cpus=taken.available_cpus or 1.0,
        others=math.nan if others is None else others,
    )


def _seen(process: Process, life: tuple[int, int], first_child: int | None) -> _Seen:
    begin, end = life
    if first_child is None:
        own, native = active_seconds(process)
        lived = lived_s(process)
        wanted = (own + native) / lived if lived else 0.0
        threads = max(round(wanted), int(wanted >= IDLE_CORES))
    else:  # what a parent does before its workers start does not count
        of_threads = _seconds(process, first_child, end)
        lasted = (end - first_child) / 1e9
        threads = round(cores_without_queueing(of_threads.values(), lasted))
        libraries = {thread.tid for thread in process.threads if not is_python(thread, process)}
        native = sum(sum(seconds) for tid, seconds in of_threads.items() if tid in libraries)
        own = sum(map(sum, of_threads.values())) - native
    pooled = process.profiled and native > POOL_WORKS * (own + native)
    if pooled:
        sizes = [
            pool.threads for pool in process.pools or () if pool.threads and pool.library not in NOT_BUSY
        ]
        threads = max([threads, *sizes])
    return _Seen(process, begin, end, threads, pooled)


def _first_child(process: Process, every: Sequence[Process], lives: Sequence[tuple[int, int]]) -> int | None:
    """Return when the first working child of a process began."""
    begins = [
        life[0]
        for child, life in zip(every, lives, strict=True)
        if child.parent == process.pid and child is not process and sum(active_seconds(child)) > 0
    ]
    return min(begins) if begins and process.pid is not None else None


def _seconds(process: Process, begin: int, end: int) -> dict[int, tuple[float, float]]:
    """Return the running and queueing seconds of each thread between two moments, by thread ID."""
    if process.samples is None:
        return {}
    found = {}
    for samples in process.samples.by_thread():
        times, columns = samples.time_ns, [samples.run_ns, samples.wait_ns]
        if times[0] > begin:  # the thread was first read after it began
            times = np.r_[times[0] - 1, times]
            columns = [np.r_[0, column] for column in columns]
        run, wait = (float(np.diff(np.interp([begin, end], times, column))[0]) / 1e9 for column in columns)
        found[int(samples.tid[0])] = (run, wait)
    return found


def _at_once(seen: Sequence[_Seen], whole: tuple[int, int]) -> int:
    moments = np.linspace(*whole, MOMENTS)
    counts: Ints = np.zeros(MOMENTS, np.int64)
    for one in seen:
        counts[(moments >= one.begin) & (moments <= one.end)] += one.threads
    return int(np.quantile(counts, 1 - AT_LEAST, method="lower"))


def _steady(processes: Sequence[Process], whole: tuple[int, int]) -> float:
    middle = (whole[0] + whole[1]) // 2
    if whole[1] - middle <= 0 or all(p.samples is None for p in processes):
        return math.nan
    spent = sum(run for p in processes for run, _ in _seconds(p, middle, whole[1]).values())
    return spent / ((whole[1] - middle) / 1e9)


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else math.nan
