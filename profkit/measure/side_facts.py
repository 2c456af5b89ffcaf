"""One side's kernel counters, as medians over its runs; what was not measured is ``None``, never 0."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.identity.lookup_columns import Looked
from profkit.measure.imports import compiling_seconds, imported_packages
from profkit.measure.inventory import Inventory, inventory, queued_s, ran_s
from profkit.measure.machine_speed import Speed, speeds
from profkit.measure.own_locks import lock_waits
from profkit.measure.pause_seconds import FOR_CHILDREN, awaited_of, times_seen
from profkit.measure.run_settings import revision_of
from profkit.measure.side_neighbours import neighbours_of
from profkit.model import Host, Neighbours, Process, Profile, Run, RunSet, Thread
from profkit.model.arrays import known, known_sum, median

#: Part of the wall for which a thread must run or queue to count as working.
WORKS = 0.05
#: GPU utilisation below which GPUs are not in use: the least that NVML reports.
LEAST_GPU_SHARE = 0.01
#: Part of the CPU time of child programs that the sampler saw, from which it missed none of them: of those that last
#: for one of its periods it sees all, for half of their time on average, of shorter ones less than half.
CHILDREN_SEEN = 0.6
#: Functions in which a consumer waits for loaders, pools and queues, by the end of their file's path.
_DELIVERIES = {
    "torch/utils/data/dataloader.py": ("_next_data", "_get_data", "_try_get_data"),
    "multiprocessing/queues.py": ("get",),
    "multiprocessing/pool.py": ("get", "next", "__next__", "wait"),
    "concurrent/futures/_base.py": ("result", "as_completed", "wait", "result_iterator"),
    "queue.py": ("get",),
    "chainer/iterators/multiprocess_iterator.py": ("__next__", "next", "get"),
}
#: How a name of a program begins.
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]{0,40}")
#: Functions that a pool's thread runs until the pool ends, likewise.
_LOOPS = {"concurrent/futures/thread.py": ("_worker",), "multiprocessing/pool.py": ("worker",)}


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One side's counters, medians over its runs; ``None`` where some run lacks them.

    `main_run_s`, `main_wait_s` and `main_off_s` (on a CPU, queued, neither) sum the main threads of the main
    process or of all `mains` ranks; `rest_*` sum all other threads and processes, `workers_run_s` processes alone.
    Fractions are wait / (run + wait); `worst_wait_fraction` is the greatest of a working main thread. `delivery_s`
    is the main threads' waiting in functions that hand over batches and results.

    `demand_cores` is (run + wait) of the process tree per second of wall; `own_cores`, `others_cores` and
    `steal_cores` (taken by the hypervisor) are CPU per second. `throttled` is a part of the cgroup's periods;
    `psi_share` is the part of the wall in which some task of the machine waited for a CPU. `working_threads` are
    active for at least `WORKS` of the wall; `pool_threads` adds the largest pool of every working process.
    `memory_bytes` is the largest peak of any process. `gil_looks` is how often a thread of the main processes was
    seen waiting for the interpreter's lock. `locked_s` is how long each other thread that takes locks of the
    program's own code waited for them, on average, and `locked_in` where most did. `python_threads` counts threads
    with functions in all processes, and `pooled_threads` those that a pool of Python's own library started, besides
    the first of each process. `traced`: none of them was sampled. `children_s` is CPU time of child processes that
    were not profiled, most of which run `child_program`; `children` is their number where the sampler saw so much of
    that time that it missed none, and `children_awaited_s` how long main threads, or each thread that starts
    programs, waited for them or what they write. `file`, `inventory`, `revision` and `worker_packages` (longest
    imports of other processes) are the first run's.
    """

    inventory: Inventory
    label: str = ""
    file: str = ""
    runs: int = 0
    wall_s: float | None = None
    total_s: float = 0.0
    main_run_s: float | None = None
    main_wait_s: float | None = None
    main_off_s: float | None = None
    mains: int = 0
    worst_wait_fraction: float | None = None
    rest_run_s: float | None = None
    rest_wait_s: float | None = None
    workers_run_s: float | None = None
    delivery_s: float | None = None
    demand_cores: float | None = None
    own_cores: float | None = None
    others_cores: float | None = None
    steal_cores: float | None = None
    throttled: float | None = None
    psi_share: float | None = None
    gpu_share: float | None = None
    gpu_others_share: float | None = None
    available_cpus: float | None = None
    working_threads: float | None = None
    pool_threads: float | None = None
    compiling_s: float | None = None
    memory_bytes: float | None = None
    memory_least: float | None = None
    memory_most: float | None = None
    read_bytes: float | None = None
    storage_bytes: float | None = None
    memory_limit_bytes: float | None = None
    refaulted_bytes: float | None = None
    gil_looks: float | None = None
    children: float | None = None
    children_s: float | None = None
    children_awaited_s: float | None = None
    python_threads: int = 0
    pooled_threads: int = 0
    locked_s: float = 0.0
    locked_in: str = ""
    traced: bool = False
    child_program: str = ""
    processes: int = 0
    threads: int = 0
    cpu_model: str = ""
    host: str = ""
    yardsticks: Mapping[str, Speed] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    neighbours: Neighbours | None = None
    revision: str = ""
    worker_packages: tuple[str, ...] = ()

    @property
    def wait_fraction(self) -> float | None:
        """Main threads' wait / (run + wait), ``None`` without counters."""
        return queued_share(self.main_run_s, self.main_wait_s)

    @property
    def rest_wait_fraction(self) -> float | None:
        """Wait / (run + wait) of all other threads and processes."""
        return queued_share(self.rest_run_s, self.rest_wait_s)

    @property
    def demand(self) -> float | None:
        if self.demand_cores is None or not self.available_cpus:
            return None
        return self.demand_cores / self.available_cpus

    @property
    def own_run_s(self) -> float | None:
        """CPU seconds of the whole process tree."""
        return self.own_cores * self.wall_s if self.own_cores is not None and self.wall_s else None

    @property
    def off_cpu_fraction(self) -> float | None:
        """Part of their lives in which the main threads neither ran nor queued."""
        if self.main_off_s is None or self.main_run_s is None or self.main_wait_s is None:
            return None
        whole = self.main_off_s + self.main_run_s + self.main_wait_s
        return self.main_off_s / whole if whole > 0 else None


def side_facts(side: RunSet, selected: Sequence[Sequence[Process]], total_s: float) -> SideFacts:
    """Return the medians of the counters of a side's runs, of the `selected` processes of each."""
    inventories = [inventory(run) for run in side.runs]
    each = [
        _run_facts(run, chosen, own)
        for run, chosen, own in zip(side.runs, selected, inventories, strict=True)
    ]
    medians = {key: _median([facts[key] for facts in each]) for key in each[0]}
    locked = [_locked(chosen) for chosen in selected]
    memory = [m for facts in each if (m := facts["memory_bytes"]) is not None]
    run = side.runs[0]
    host = _host(run)
    return SideFacts(
        label=side.label,
        file=side.file,
        runs=len(side.runs),
        total_s=total_s,
        mains=len({_identity(p) for p in main_processes(selected[0])}),
        processes=counted_processes(run),
        threads=sum(len(p.threads) for p in run.processes),
        cpu_model=host.cpu_model if host else "",
        host=host.name if host else "",
        yardsticks=speeds(side.runs),
        command=run.command,
        environment=run.manifest.environment if run.manifest else {},
        inventory=inventories[0],
        neighbours=neighbours_of(side.runs),
        revision=revision_of(run),
        worker_packages=_worker_packages(selected[0]),
        python_threads=sum(len(t.profile) > 0 for p in selected[0] for t in p.threads),
        pooled_threads=sum(_pooled(t) for p in selected[0] for t in p.threads if t is not first_thread(p)),
        locked_s=float(median([seconds for seconds, _ in locked])),
        locked_in=locked[0][1],
        traced={tier.kind for chosen in selected for p in chosen for tier in p.tiers} == {"exact"},
        child_program=_child_program(run),
        memory_least=min(memory) if len(memory) == len(each) else None,
        memory_most=max(memory) if len(memory) == len(each) else None,
        **medians,
    )


def no_side() -> SideFacts:
    """Return the empty side, for a run without a baseline."""
    return SideFacts(inventory=inventory(Run("", ())))


def _worker_packages(selected: Sequence[Process]) -> tuple[str, ...]:
    mains = main_processes(selected)
    others = [process for process in selected if all(process is not main for main in mains)]
    return tuple(package for package, _ in imported_packages(others))


def child_programs(run: Run) -> list[Process]:
    """Return processes that were not profiled, without those that started the program, such as a shell."""
    parents = {p.pid: p.parent for p in run.processes}
    above = {p.parent for p in run.processes if p.profiled}
    while further := {parents[pid] for pid in above & parents.keys()} - above:
        above |= further
    return [p for p in run.processes if p.role == "child" and not p.profiled and p.pid not in above]


def counted_processes(run: Run) -> int:
    """Return the number of processes, without programs that they start: of those the sampler misses short ones."""
    return max(1, len(run.processes) - len(child_programs(run)))


def _children_awaited(selected: Sequence[Process], mains: Sequence[Process]) -> float | None:
    """Return how long a main thread waited for children, or each other thread that starts some, if that is longer."""
    firsts = known(map(first_thread, mains))
    starting = [
        thread
        for process in selected
        for thread in process.threads
        if all(thread is not first for first in firsts) and _starts_programs(thread)
    ]
    ranks: dict[tuple[object, ...], list[Thread]] = {}
    for process in mains:
        ranks.setdefault(_identity(process), []).extend(known([first_thread(process)]))
    each = [awaited_of(FOR_CHILDREN, threads) for threads in ranks.values()]
    if None in each:
        return None
    others = awaited_of(FOR_CHILDREN, starting) if starting else None
    return max([*known(each), (others or 0.0) / max(1, len(starting))])


def _starts_programs(thread: Thread) -> bool:
    profile = thread.profile
    return bool(Looked(profile.module, profile.strings).where(lambda module: module == "subprocess").any())


def _child_program(run: Run) -> str:
    names = (p.command[0].rpartition("/")[2] for p in child_programs(run) if p.command)
    # A program may have written a title there: postgres: user database ….
    programs = Counter(found[0] if (found := _PROGRAM.match(name)) else "another program" for name in names)
    return programs.most_common(1)[0][0] if programs else ""


def _locked(selected: Sequence[Process]) -> tuple[float, str]:
    """Return how long helpers that take locks of the program's own code waited for them, on average, and where."""
    firsts = [first_thread(process) for process in main_processes(selected)]
    each = [
        found
        for process in selected
        for thread in process.threads
        if all(thread is not first for first in firsts) and (found := lock_waits(process, thread))
    ]
    names: dict[str, float] = {}
    for found in each:
        for _, name, seconds in found:
            names[name] = names.get(name, 0.0) + seconds
    return (sum(names.values()) / len(each), max(names, key=names.__getitem__)) if each else (0.0, "")


def queued_share(run_s: float | None, wait_s: float | None) -> float | None:
    """Return ``wait / (run + wait)``, the share of runnable time spent queueing; ``None`` if not known."""
    if run_s is None or wait_s is None:
        return None
    return wait_s / (run_s + wait_s) if run_s + wait_s > 0 else None


def _median(values: Sequence[float | None]) -> float | None:
    found = known(values)
    return float(median(found)) if found and len(found) == len(values) else None


def _host(run: Run) -> Host | None:
    return run.host or next((p.host for p in run.processes if p.host), None)


def main_processes(selected: Sequence[Process]) -> list[Process]:
    """Return the main process or the ranks, whose first threads set the pace."""
    return [p for p in selected if p.role in ("main", "rank") and p.profiled] or list(selected[:1])


def last_images(processes: Sequence[Process]) -> list[Process]:
    """Return the processes without those programs that another of them replaced (``exec``)."""
    last = {_identity(p) for p in processes if p.exit != "replaced"}
    return [p for p in processes if p.exit != "replaced" or _identity(p) not in last]


def earlier_images(processes: Sequence[Process], last: Process | None) -> list[Process]:
    """Return the programs that were replaced in the process of `last` before it."""
    if last is None:
        return []
    return [
        p for p in processes if p is not last and p.exit == "replaced" and _identity(p) == _identity(last)
    ]


def _identity(process: Process) -> tuple[object, ...]:
    """Return what programs that one process executes in succession have in common."""
    return process.rank, process.pid


def _run_facts(run: Run, selected: Sequence[Process], asked: Inventory) -> dict[str, float | None]:
    machine = run.machine
    wall = run.wall_s
    if wall is None:
        wall = next((p.wall_s for p in run.processes if p.wall_s), None)
    mains = main_processes(selected)
    firsts = known(map(first_thread, mains))
    main_runs = [_main_thread(p, "run_s") for p in mains]
    main_waits = [_main_thread(p, "run_queue_wait_s") for p in mains]
    main_run, main_wait = known_sum(main_runs), known_sum(main_waits)
    run_s = known_sum(map(ran_s, run.processes))
    tree_s = machine.tree_cpu_s if machine else None
    children = child_programs(run)
    seen_s = children_s = known_sum(map(ran_s, children)) if children else 0.0
    if run_s is not None and tree_s is not None:
        # Includes processes too short-lived for the sampler.
        if children and children_s is not None:
            children_s += max(0.0, tree_s - run_s)
        run_s = max(run_s, tree_s)
    wait_s = known_sum(map(queued_s, run.processes))
    own = own_here = run_s / wall if run_s is not None and wall else None
    delivered = known_sum([delivery_seconds(p) for p in mains])
    host = _host(run)
    several = len(asked.hosts) > 1
    if several and host is not None and own is not None and wall:
        # The machine is that of one host, on which only some of the processes ran.
        here_s = known_sum(ran_s(p) for p in run.processes if p.host is None or p.host.name == host.name)
        own_here = None if here_s is None else max(here_s, tree_s or 0.0) / wall
    demand = (run_s + wait_s) / wall if run_s is not None and wait_s is not None and wall else None
    lives = known_sum([lifetime(p, wall) for p in mains])
    off = None
    if lives is not None and main_run is not None and main_wait is not None:
        off = max(0.0, lives - main_run - main_wait)

    def per_second(name: str) -> float | None:
        value = getattr(machine, name) if machine else None
        return value / machine.wall_s if value is not None and machine and machine.wall_s else None

    busy = per_second("busy_s")
    active: dict[tuple[object, ...], tuple[float, float]] = {}
    for process, r, w in zip(mains, main_runs, main_waits, strict=True):
        if r is not None and w is not None:
            before = active.get(_identity(process), (0.0, 0.0))
            active[_identity(process)] = before[0] + r, before[1] + w
    worst = [
        fraction
        for r, w in active.values()
        if (fraction := queued_share(r, w)) is not None and wall and r + w >= WORKS * wall
    ]
    # Ranks that are bound to CPUs of their own have all of these.
    available = [asked.available_cpus, machine.quota_cpus if machine and not several else None]
    if host is None and machine and machine.cpus:
        available.append(float(machine.cpus))
    return {
        "wall_s": wall,
        "main_run_s": main_run,
        "main_wait_s": main_wait,
        "main_off_s": off,
        "worst_wait_fraction": max(worst) if worst else None,
        "rest_run_s": _rest(run_s, main_run),
        "rest_wait_s": _rest(wait_s, main_wait),
        "workers_run_s": _rest(run_s, known_sum(map(ran_s, mains))),
        "delivery_s": None if delivered is None else delivered / max(1, len(set(map(_identity, mains)))),
        "demand_cores": demand,
        "own_cores": own,
        "others_cores": max(0.0, busy - own_here) if busy is not None and own_here is not None else None,
        "steal_cores": per_second("steal_s"),
        "throttled": machine.throttled_periods / machine.periods
        if machine and machine.periods and machine.throttled_periods is not None
        else None,
        "psi_share": per_second("psi_some_s"),
        "gpu_share": gpu_share(run),
        "gpu_others_share": gpu_share(run, "gpu_others"),
        "available_cpus": min([c for c in available if c], default=None),
        "working_threads": _working(run, wall),
        "pool_threads": _pools(run, wall),
        "compiling_s": known_sum(map(compiling_seconds, firsts)),
        "memory_bytes": max([float(m) for p in run.processes if (m := p.peak_memory_bytes)], default=None),
        "read_bytes": known_sum(p.read_bytes for p in run.processes),
        "storage_bytes": known_sum(p.storage_bytes for p in run.processes),
        "memory_limit_bytes": machine.memory_limit_bytes if machine else None,
        "refaulted_bytes": machine.refaulted_bytes if machine else None,
        "children": len(children) if (seen_s or 0.0) >= CHILDREN_SEEN * (children_s or 0.0) else None,
        "children_s": children_s,
        "children_awaited_s": _children_awaited(selected, mains),
        "gil_looks": float(times_seen("gil", mains)),
    }


def gpu_share(run: Run, name: str = "gpu_utilisation") -> float | None:
    """Return the mean of a column on GPUs over a run's readings; ``None`` without any."""
    if run.series is None:
        return None
    _, readings = run.series.known(name)
    return float(readings.mean()) if len(readings) else None


def uses_gpu(run: Run) -> bool:
    """Return whether a run used a GPU; where only the use by all programs is known, whether that was any."""
    own = gpu_share(run, "gpu_processes")
    return own > 0 if own is not None else (gpu_share(run) or 0.0) >= LEAST_GPU_SHARE


def _rest(whole: float | None, part: float | None) -> float | None:
    return None if whole is None or part is None else max(0.0, whole - part)


def first_thread(process: Process) -> Thread | None:
    """Return the thread that the process started with, or its first thread where ids are unknown."""
    for thread in process.threads:
        if thread.tid is not None and thread.tid == process.pid:
            return thread
    return process.threads[0] if process.threads else None


def _main_thread(process: Process, counter: str) -> float | None:
    thread = first_thread(process)
    return None if thread is None else getattr(thread, counter)


def _working(run: Run, wall: float | None) -> float | None:
    """Return the number of threads that work; a process without known threads counts as one."""
    if not wall:
        return None
    count = 0.0
    known = False
    for process in run.processes:
        active = [thread.active_s for thread in process.threads if thread.run_s is not None]
        if active:
            known = True
            count += sum(seconds >= WORKS * wall for seconds in active)
        elif process.cpu_s is not None:
            count += process.cpu_s >= WORKS * wall
    return count if known else None


def _pools(run: Run, wall: float | None) -> float | None:
    """Return the sum over working processes of the largest pool of each."""
    sizes = []
    for process in run.processes:
        working = not wall or process.cpu_s is None or process.cpu_s >= WORKS * wall
        if process.pools is not None and working:
            sizes.append(max([pool.threads or 1 for pool in process.pools], default=1))
    return float(sum(sizes)) if sizes else None


def lifetime(process: Process, wall_s: float | None) -> float | None:
    """Return the seconds that a process lived: as its agent saw it, or as long as its first thread did something.

    The kernel counts until the process is gone. After its agent has ended, unloading large libraries takes CPU time.
    """
    seen = process.wall_s if process.wall_s is not None else wall_s
    thread = first_thread(process)
    if seen is None or wall_s is None or thread is None or thread.profile.blocked is None:
        return seen
    return max(seen, min(wall_s, thread.active_s + float(thread.profile.blocked.sum())))


def delivery_seconds(process: Process) -> float | None:
    """Return the seconds of the longest of `_DELIVERIES`, which nest, on a process's first thread."""
    thread = first_thread(process)
    if thread is None or not len(thread.profile):
        return None
    profile = thread.profile
    times = profile.cumblocked if profile.cumblocked is not None else profile.cumtime
    return max((float(times[row]) for row in _rows_of(profile, _DELIVERIES)), default=0.0)


def _pooled(thread: Thread) -> bool:
    return any(True for _ in _rows_of(thread.profile, _LOOPS))


def _rows_of(profile: Profile, functions: Mapping[str, Sequence[str]]) -> Iterator[int]:
    """Yield the rows of functions that are given by the end of their file's path and their names."""
    wanted = {name for names in functions.values() for name in names}
    named = Looked(profile.name, profile.strings).where(wanted.__contains__)
    for row in np.flatnonzero(named).tolist():
        path = profile.strings[profile.file[row]].replace("\\", "/")
        name = profile.strings[profile.name[row]]
        if any(path.endswith(f"/{end}") and name in names for end, names in functions.items()):
            yield row
