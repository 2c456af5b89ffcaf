"""Types of a spool directory's content, made and checked by `records`; docs/format.md has the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from profkit.capture.host import Reading
from profkit.capture.thread_tables import NO_CODES, Codes, ThreadTable
from profkit.model import Effect, Git, Host, Job, Neighbours, Notice, Series, Tier, Yardstick
from profkit.model.arrays import Ints
from profkit.model.bounds import TINY, Bounds

Count = Annotated[int, Bounds(0, 2**53)]
#: Three centuries are more than any clock of a running machine shows.
SECONDS = Bounds(0, 1e10, TINY)
Seconds = Annotated[float, SECONDS]
Nanoseconds = Annotated[int, Bounds(0, 2**63 - 1)]
#: Number of a process or thread.
Number = Annotated[int, Bounds(1, 2**31 - 1)]
#: A counter of the kernel; −1 if unknown.
Counter = Annotated[int, Bounds(-1, 2**63 - 1)]
#: What identifies a process: its kernel, its number, and when it was born.
ProcessKey: TypeAlias = tuple[str, int, int | None]


@dataclass(frozen=True, slots=True)
class Task:
    """The kernel's counters of a thread; the last four are in final records only."""

    tid: Number
    name: str
    run_ns: Nanoseconds
    wait_ns: Nanoseconds
    timeslices: Count
    user_s: Seconds | None = None
    system_s: Seconds | None = None
    voluntary: Count | None = None
    involuntary: Count | None = None


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A thread pool as its library described it; `threads` is 0 for one per CPU, `most` its largest size."""

    library: str
    file: str
    threads: Count | None
    version: str
    seen: Count | None
    most: Count | None


@dataclass(frozen=True, slots=True)
class Span:
    """When a profiler of the target's own was on; `end` is ``None`` while it is."""

    begin: Seconds
    end: Seconds | None


@dataclass(frozen=True, slots=True)
class ThreadName:
    """The program's name for a thread."""

    tid: Number
    name: str


@dataclass(frozen=True, slots=True)
class Notes:
    """What an agent reports of its own work; empty if nothing was unusual."""

    agent_failed: str = ""
    not_cpython: str = ""
    free_threaded: bool = False
    write_failed: str = ""
    displaced: bool = False
    no_samples: bool = False
    no_tracer: bool = False
    tables_full: bool = False
    lost_forks: Count = 0
    torch_nvtx: bool = False
    emit_nvtx: bool = False
    windows_missed: bool = False
    not_traced: bool = False
    own_profiler: tuple[Span, ...] = ()
    own_profiler_more: Count = 0


class _OnKernel:
    __slots__ = ()
    host: str
    boot: str

    @property
    def kernel(self) -> str:
        """Return what identifies the kernel under the process; containers share it."""
        return self.boot or self.host


@dataclass(frozen=True, slots=True, eq=False)
class Record(_OnKernel):
    """One process image, up to its end or ``snapshot``; if `mapped`, functions are in the tracer's file."""

    pid: Number
    ppid: Count
    born: Count | None
    host: str
    boot: str
    version: str
    stdlib: str
    state: Literal["snapshot", "exited", "replaced", "detached"]
    tracer: Literal["native", "none"]
    begin_time: Seconds
    begin_perf: Seconds
    time: Seconds
    perf: Seconds
    argv: tuple[str, ...]
    cwd: str
    path: tuple[str, ...]
    environment: Mapping[str, str]
    environment_at_start: Mapping[str, str]
    rank: Count | None
    world_size: Count | None
    worker: str
    cpus: Count | None
    affinity: Count | None
    affinity_cpus: tuple[Count, ...]
    tasks: tuple[Task, ...]
    agent_tids: tuple[Count, ...]
    pools: tuple[PoolRow, ...] | None
    notes: Notes
    codes: Codes = NO_CODES
    threads: tuple[ThreadTable, ...] = ()
    mapped: bool = False
    local_rank: Count | None = None
    node: Count | None = None
    thread_names: tuple[ThreadName, ...] = ()
    cpu_s: Seconds | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    peak_memory_bytes: Count | None = None
    page_faults: Count | None = None
    children_s: Seconds | None = None
    read_bytes: Count | None = None
    storage_bytes: Count | None = None
    machine: tuple[Reading, Reading] | None = None
    quota_cpus: Seconds | None = None
    tiers: tuple[Tier, ...] = ()
    effect: Effect | None = None

    @property
    def process(self) -> ProcessKey:
        """Return what identifies the process, whose images have a record each."""
        return self.kernel, self.pid, self.born

    @property
    def wall_s(self) -> float:
        """Return the seconds from the image's begin to the record."""
        return self.perf - self.begin_perf

    @property
    def of_job(self) -> bool:
        """Return whether a launcher of ranks started it."""
        return (self.world_size or 1) > 1

    @property
    def python(self) -> tuple[int, int]:
        major, minor, _ = self.version.split(".")
        return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class Folded:
    """Ended threads that are no longer kept separately: their number and sums."""

    threads: Count
    run_ns: Nanoseconds
    wait_ns: Nanoseconds


@dataclass(frozen=True, slots=True, eq=False)
class SeenThread:
    """A thread as the sampler saw it; `rows` are time, run and wait in ns, shape (n, 3).

    Counters begin when the sampler did; until then the kernel had counted `run_before_ns` and `wait_before_ns`.
    """

    tid: Number
    name: str
    run_ns: Counter
    wait_ns: Counter
    timeslices: Counter
    user_s: Seconds | None
    system_s: Seconds | None
    voluntary: Count | None
    involuntary: Count | None
    run_before_ns: Count
    wait_before_ns: Count
    rows: Ints


@dataclass(frozen=True, slots=True, eq=False)
class SeenProcess:
    """A process that the sampler saw; `ns_pid` is its number in its container, `gone_ns` 0 if alive."""

    pid: Number
    ns_pid: Number
    parent: Count
    born: Count
    command: tuple[str, ...]
    cpu_s: Seconds
    first_ns: Nanoseconds
    last_ns: Nanoseconds
    gone_ns: Nanoseconds
    peak_threads: Count
    alive: bool
    folded: Folded
    threads: tuple[SeenThread, ...]

    @property
    def all_cpu_s(self) -> float:
        """Return its last known CPU seconds; its threads' may be newer than its own."""
        ran_ns = sum(max(0, thread.run_ns) for thread in self.threads) + self.folded.run_ns
        return max(self.cpu_s, ran_ns / 1e9)


@dataclass(frozen=True, slots=True, eq=False)
class SeenMachine:
    """The machine as the sampler saw it; `quota_cpus` and the memory limit are the least of the target's cgroup."""

    series: Series | None
    quota_cpus: Seconds | None
    memory_limit_bytes: Count | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sampled(_OnKernel):
    """What the sampler wrote; `root` is the target's process, `cpu_s` the cost, `notes` what was not seen."""

    host: str
    boot: str
    root: Number
    period_s: Seconds | None
    samples: Count
    cpu_s: Seconds
    notes: tuple[Notice, ...]
    machine: SeenMachine | None
    processes: tuple[SeenProcess, ...]
    neighbours: Neighbours | None = None

    @property
    def by_process(self) -> dict[ProcessKey, SeenProcess]:
        """Return the processes by `Record.process`, which has their numbers in their containers."""
        return {(self.kernel, seen.ns_pid, seen.born): seen for seen in self.processes}

    @property
    def series(self) -> Series | None:
        """Return the machine's readings, if there are any."""
        return self.machine.series if self.machine is not None else None


@dataclass(frozen=True, slots=True)
class Launcher(_OnKernel):
    """The launcher's process."""

    boot: str
    host: str
    pid: Number
    born: Count | None
    pid_namespace: Count | None = None


@dataclass(frozen=True, slots=True)
class TargetEnd:
    """The target's number, and when the launcher was notified of its end."""

    pid: Number
    ended_ns: Nanoseconds


@dataclass(frozen=True, slots=True)
class Launch:
    """What the launcher knows (``launch.json``); facts of the end are missing if it was killed.

    `begin_ns` is of ``CLOCK_MONOTONIC``; `window_steps` are those before the first window, others as in
    `Selection`.
    """

    command: tuple[str, ...]
    cwd: str
    started: str
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Notice, ...] = ()
    exit_status: int | None = None
    killed: bool = False
    wall_s: Seconds | None = None
    tree_cpu_s: Seconds | None = None
    readings: tuple[Reading, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    git: Git | None = None
    job: Job | None = None
    launcher: Launcher | None = None
    target: TargetEnd | None = None
    begin_ns: Nanoseconds | None = None
    window: Literal["", "time", "range", "steps", "code"] = ""
    window_range: str = ""
    window_delay_s: Seconds = 0.0
    window_duration_s: Seconds | None = None
    window_steps: Count = 0
    ranks: str = ""
    counters_only: bool = False
    attached: bool = False

    @property
    def status(self) -> int | None:
        """Return the target's exit code, or ``-N`` for signal N; ``None`` if it was not written."""
        if self.exit_status is None:
            return None
        return 128 - self.exit_status if self.killed else self.exit_status
