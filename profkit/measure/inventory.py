"""The thread pools of a run's processes, and how many cores these ask for and get.

A process works in one pool at a time, so it asks for the cores of its largest pool, or for none if idle.
Cores are added over processes, each weighted by the part of the run in which it lived. Demand is higher where
several Python threads enter parallel regions: OpenMP gives each its own team.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from profkit.measure.size_calls import SizeCall, size_calls
from profkit.model import Host, Pool, Process, Run, Thread
from profkit.model.arrays import known, known_sum
from profkit.model.pools import NOT_BUSY

#: Average cores used or queued for below which a process is idle.
IDLE_CORES = 0.1
#: Names that executors give to their threads.
_EXECUTOR_THREAD = re.compile(r"ThreadPoolExecutor-\d+_\d+$")
#: Least part of a process's CPU and queueing time in native threads if its pools work. In labelled runs,
#: pools without work had at most 4 %, pools that computed at least 7 %.
POOL_WORKS = 0.05
#: Demand over expected cores above which the pools do not explain demand. Workers that multiply matrices all
#: the time demanded 0.90–0.99 of their pools' sizes (4 processes of 2 OpenBLAS threads on 2 CPUs, fork and
#: spawn); the rest is room for helper threads.
MORE_THAN_EXPECTED = 1.25
#: Expected cores over available CPUs above which a run is oversubscribed (DETECTION §4).
OVERSUBSCRIBED = 1.25


@dataclass(frozen=True, slots=True)
class ProcessNeed:
    """Cores that one process asks for by its settings, and those it used; ``None`` if unknown.

    `pools` and `expected_cores` (0 for an idle process) are ``None`` where pools were not looked for.
    `observed_cores` is CPU seconds per second of life, `demand_cores` the same with queueing, `needed_cores` the CPUs
    used without queueing. `executor_threads` counts ``ThreadPoolExecutor`` threads active for much of its life.
    """

    pid: int | None
    role: str
    rank: int | None
    host: str
    pools: tuple[Pool, ...] | None
    lived_s: float | None
    expected_cores: int | None
    observed_cores: float | None
    demand_cores: float | None
    available_cpus: float | None
    needed_cores: float | None = None
    executor_threads: int = 0
    pools_idle: bool = False

    @property
    def idle(self) -> bool:
        """Whether it only waited for others."""
        return self.expected_cores == 0

    @property
    def surprising(self) -> bool:
        """Whether it asked for more cores than its pools explain."""
        return (
            self.demand_cores is not None
            and self.expected_cores is not None
            and self.demand_cores > MORE_THAN_EXPECTED * max(1, self.expected_cores)
        )


@dataclass(frozen=True, slots=True)
class HostNeed:
    """All processes of one machine, averaged over the run; `working` and `workers` are the most at once."""

    name: str
    processes: int
    working: int
    workers: int
    ranks: int
    at_once: float
    expected_cores: float | None
    observed_cores: float | None
    demand_cores: float | None
    available_cpus: float | None

    @property
    def oversubscription(self) -> float | None:
        """Cores that the settings ask for, per available CPU."""
        if self.expected_cores is None or not self.available_cpus:
            return None
        return self.expected_cores / self.available_cpus


@dataclass(frozen=True, slots=True)
class Inventory:
    """Pools, workers and ranks of a run; `hosts` begin with the machine that started it.

    `affinity` and its `affinity_cpus` (empty: unknown) ignore the cgroup's `quota_cpus`; `sizes` is empty
    for a run read without callers.
    """

    processes: tuple[ProcessNeed, ...]
    hosts: tuple[HostNeed, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    quota_cpus: float | None = None
    affinity: int | None = None
    cpus: int | None = None
    sizes: tuple[SizeCall, ...] = ()
    affinity_cpus: tuple[int, ...] = ()

    @property
    def expected_cores(self) -> float | None:
        """Cores that the settings ask for, over all machines."""
        return known_sum(host.expected_cores for host in self.hosts)

    @property
    def observed_cores(self) -> float | None:
        """CPU seconds per second of the run."""
        return known_sum(host.observed_cores for host in self.hosts)

    @property
    def demand_cores(self) -> float | None:
        """CPU and queueing seconds per second of the run."""
        return known_sum(host.demand_cores for host in self.hosts)

    @property
    def available_cpus(self) -> float | None:
        """CPUs that the run may use, over all machines."""
        return known_sum(host.available_cpus for host in self.hosts)

    @property
    def workers(self) -> int:
        """Worker processes, at most as many as were alive at once."""
        return sum(host.workers for host in self.hosts)

    @property
    def ranks(self) -> int:
        """Ranks of the job in this run."""
        return sum(host.ranks for host in self.hosts)

    @property
    def oversubscription(self) -> float | None:
        """Expected cores per available CPU, on the worst machine or within the worst binding."""
        factors = [host.oversubscription for host in self.hosts]
        factors += [
            p.expected_cores / p.available_cpus
            for p in self.processes
            if p.expected_cores is not None and p.available_cpus
        ]
        return max(known(factors), default=None)

    @property
    def oversubscribed(self) -> bool:
        """Whether the settings ask for clearly more cores than are available."""
        factor = self.oversubscription
        return factor is not None and factor > OVERSUBSCRIBED

    @property
    def crowded(self) -> bool:
        """Whether settings, processes or executor threads may be too many for the CPUs."""
        cpus = self.available_cpus
        threads = max((process.executor_threads for process in self.processes), default=0)
        return self.oversubscribed or (cpus is not None and threads > cpus)


def inventory(run: Run) -> Inventory:
    """Return the inventory of a run; every number is ``None`` for a foreign profile."""
    host = run.host
    needs = tuple(_need(process, host) for process in run.processes)
    own = run.wall_s or max((p.wall_s for p in run.processes if p.wall_s), default=None)
    wall = max(known((own, *(need.lived_s for need in needs))), default=None)
    names = dict.fromkeys([host.name] if host is not None else [])
    names.update(dict.fromkeys(need.host for need in needs))
    return Inventory(
        processes=needs,
        hosts=tuple(_host_need(name, needs, run.processes, wall, host) for name in names if needs),
        environment=run.manifest.environment if run.manifest is not None else {},
        quota_cpus=_quota(run),
        affinity=(host.affinity or host.cpus) if host is not None else None,
        cpus=host.cpus if host is not None else None,
        sizes=size_calls(run),
        affinity_cpus=host.affinity_cpus if host is not None else (),
    )


def _quota(run: Run) -> float | None:
    if run.host is not None and run.host.quota_cpus:
        return run.host.quota_cpus
    return run.machine.quota_cpus if run.machine is not None else None


def _need(process: Process, launcher: Host | None) -> ProcessNeed:
    run_s, wait_s, lived = ran_s(process), queued_s(process), lived_s(process)
    observed = run_s / lived if run_s is not None and lived else None
    demand = observed if wait_s is None or observed is None or not lived else observed + wait_s / lived
    expected: int | None = None
    if demand is not None and demand < IDLE_CORES:
        expected = 0
    elif process.pools is not None:
        busy = [pool.threads for pool in process.pools if pool.threads and pool.library not in NOT_BUSY]
        expected = max([1, *busy])
    host = process.host or launcher
    return ProcessNeed(
        pid=process.pid,
        role=process.role,
        rank=process.rank,
        host=host.name if host is not None else "",
        pools=process.pools,
        lived_s=lived,
        expected_cores=expected,
        observed_cores=observed,
        demand_cores=demand if wait_s is not None else None,
        available_cpus=host.available_cpus if host is not None else None,
        needed_cores=_needed(process),
        executor_threads=_executor_threads(process),
        pools_idle=_pools_idle(process),
    )


def lived_s(process: Process) -> float | None:
    """Return how long a process lived; the kernel counts its threads before the agent begins, and after its end."""
    return max([process.wall_s, *(thread.active_s for thread in process.threads)]) if process.wall_s else None


def _needed(process: Process) -> float | None:
    lived = lived_s(process)
    each = [(thread.run_s, thread.run_queue_wait_s) for thread in process.threads]
    times = [(run, wait) for run, wait in each if run is not None and wait is not None]
    return cores_without_queueing(times, lived) if lived and times else None


def cores_without_queueing(times: Iterable[tuple[float, float]], lived: float) -> float:
    """Return the CPUs that threads would use without queueing, by the seconds for which each ran and queued.

    Per thread, run time over the time not spent queueing: otherwise an occasional thread would look busy.
    """
    return sum(min(1.0, run / max(lived - wait, run)) for run, wait in times if run > 0)


def _executor_threads(process: Process) -> int:
    lived = process.wall_s or 0.0
    return sum(
        _EXECUTOR_THREAD.match(thread.name) is not None and thread.active_s > IDLE_CORES * lived
        for thread in process.threads
    )


def _pools_idle(process: Process) -> bool:
    if process.peak_threads is None or not process.profiled:
        return False  # its native threads were not recorded
    own, native = active_seconds(process)
    return own + native > 0 and native <= POOL_WORKS * (own + native)


def is_python(thread: Thread, process: Process) -> bool:
    """Return whether a thread runs Python, and is not a library's own."""
    return thread.tid == process.pid or len(thread.profile) > 0


def active_seconds(process: Process) -> tuple[float, float]:
    """Return the running and queueing seconds of Python threads and of native threads."""
    sums = {True: 0.0, False: 0.0}
    for thread in process.threads:
        sums[is_python(thread, process)] += thread.active_s
    return sums[True], sums[False]


def of_process(process: Process, own: str, of_threads: str) -> float | None:
    """Return a process's own counter or the sum over its threads, whichever is more.

    The former includes threads that are not listed; the latter goes on after the process's agent has ended.
    """
    known = (getattr(process, own), known_sum(getattr(t, of_threads) for t in process.threads))
    return max((value for value in known if value is not None), default=None)


def ran_s(process: Process) -> float | None:
    """Return the CPU seconds of a process."""
    return of_process(process, "cpu_s", "run_s")


def queued_s(process: Process) -> float | None:
    """Return the seconds for which the threads of a process queued for a CPU."""
    return of_process(process, "run_queue_wait_s", "run_queue_wait_s")


def _host_need(
    name: str,
    needs: Sequence[ProcessNeed],
    processes: Sequence[Process],
    wall: float | None,
    launcher: Host | None,
) -> HostNeed:
    here = [(need, process) for need, process in zip(needs, processes, strict=True) if need.host == name]
    working = [need for need, _ in here if not need.idle]

    def lived(need: ProcessNeed) -> float:
        # A process of unknown lifetime counts as alive throughout.
        return 1.0 if need.lived_s is None or not wall else min(1.0, need.lived_s / wall)

    def at_once(counted: Callable[[ProcessNeed], bool]) -> int:
        those = [(lived(need), sampled_life(process)) for need, process in here if counted(need)]
        # Without samples: if they lived for half of the run or longer, all did in its middle.
        unseen = sum(part if part < 0.5 else 1.0 for part, life in those if life is None)
        # Many threads make samples rare, which then show too few processes; the most are no fewer than the mean.
        most = most_at_once(known(life for _, life in those))
        return max(most + round(unseen), round(sum(part for part, _ in those)))

    asked = known(need.expected_cores for need in working)
    run_s = known_sum(ran_s(process) for _, process in here)
    wait_s = known_sum(queued_s(process) for _, process in here)
    return HostNeed(
        name=name,
        processes=len(here),
        working=at_once(lambda need: not need.idle),
        workers=at_once(lambda need: need.role == "worker"),
        ranks=len({(p.rank, p.pid) for need, p in here if need.role == "rank"}),
        at_once=sum(map(lived, working)),
        # A process with unknown pools (another language) takes at least one core.
        expected_cores=sum((need.expected_cores or 1) * lived(need) for need in working) if asked else None,
        observed_cores=run_s / wall if run_s is not None and wall else None,
        demand_cores=(run_s + wait_s) / wall if run_s is not None and wait_s is not None and wall else None,
        available_cpus=_available(name, here, launcher),
    )


def sampled_life(process: Process) -> tuple[int, int] | None:
    """Return the times of a process's first and last sample in ns, ``None`` without samples."""
    samples = process.samples
    if samples is None or not len(samples):
        return None
    return int(samples.time_ns.min()), int(samples.time_ns.max())


def most_at_once(lives: Sequence[tuple[int, int]]) -> int:
    """Return the most of these spans of time that overlap at one moment."""
    changes = [change for begin, end in lives for change in ((begin, 1), (end, -1))]
    ordered = sorted(changes, key=lambda at: (at[0], -at[1]))
    return max(accumulate(change for _, change in ordered), default=0)


def _available(name: str, here: Sequence[tuple[ProcessNeed, Process]], launcher: Host | None) -> float | None:
    """Return the CPUs of one machine that all its ranks, else all its processes, else the launcher, may use."""
    of_processes = [process.host for _, process in here if process.host is not None]
    ranks = [process.host for need, process in here if need.role == "rank" and process.host is not None]
    hosts = of_processes + ([launcher] if launcher is not None and launcher.name == name else [])
    most = max((host.available_cpus for host in hosts if host.available_cpus), default=None)
    bound = ranks or of_processes
    cpus = max((float(host.cpus) for host in hosts if host.cpus), default=None)
    quota = min((host.quota_cpus for host in bound if host.quota_cpus), default=None)
    if bound and all(host.affinity_cpus for host in bound):
        # Processes bound to distinct CPUs have all of these; those on the same CPU share it.
        together: float | None = float(len({cpu for host in bound for cpu in host.affinity_cpus}))
    elif ranks:
        together = max(sum(host.available_cpus or 0.0 for host in ranks), most or 0.0) or None
    else:
        return most
    return min((value for value in (together, cpus, quota) if value), default=None)
