"""A captured command: manifest, processes and threads, and the machine.

What a file does not hold is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypedDict

import numpy as np

from profkit.model.bounds import (
    EXACT,
    Amount,
    Count,
    Cpus,
    ExitStatus,
    Id,
    Moment,
    Rank,
    Seconds,
    SignedSeconds,
    bounds_of,
)
from profkit.model.columns import ProfileError
from profkit.model.definitions import Definition
from profkit.model.gpu_use import GpuUse
from profkit.model.keys import Roots
from profkit.model.lines import Line, Slice
from profkit.model.neighbours import Neighbours
from profkit.model.notices import Notice
from profkit.model.paths import Paths
from profkit.model.pauses import Pause
from profkit.model.profile import Profile
from profkit.model.range_calls import RangeCalls
from profkit.model.ranges import Ranges
from profkit.model.series import Series, ThreadSamples
from profkit.model.written_sizes import WrittenSize


@dataclass(frozen=True, slots=True)
class Host:
    """What one machine offers to one process.

    Attributes
    ----------
    cpus
        Logical CPUs of the machine.
    affinity, affinity_cpus
        CPUs that the process may use: how many, and their numbers, ascending (empty if not known).
    quota_cpus
        CPU quota of its cgroup in cores, ``None`` without one.
    """

    name: str = ""
    system: str = ""
    cpu_model: str = ""
    cpus: Cpus | None = None
    affinity: Cpus | None = None
    quota_cpus: Amount | None = None
    affinity_cpus: tuple[Cpus, ...] = ()

    @property
    def available_cpus(self) -> float | None:
        """Cores that the process can use: the least of CPUs, affinity and quota."""
        known = [float(v) for v in (self.cpus, self.affinity, self.quota_cpus) if v]
        return min(known) if known else None


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How fast the machine did fixed work: medians of CPU seconds per piece.

    Attributes
    ----------
    name
        The work: ``integer`` (clock rate), ``branches`` (unpredictable ones), ``vector`` (floats),
        ``latency`` and ``bandwidth`` (of memory), ``bytecode`` with the interpreter. Only equal names are
        comparable.
    before_s, beside_s, after_s
        Before the command started, on a free CPU while it ran, and after it ended.
    scatter
        Interquartile range over the median, of all pieces.
    pieces
        Number of pieces.
    """

    name: str
    before_s: Seconds | None = None
    beside_s: Seconds | None = None
    after_s: Seconds | None = None
    scatter: Amount | None = None
    pieces: Count | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine-wide counters, as differences between the run's end and start.

    Attributes
    ----------
    wall_s
        Seconds between the two readings.
    busy_s, steal_s
        CPU seconds used by all processes of the machine, and taken by a hypervisor.
    psi_some_s
        Seconds in which at least one task waited for a CPU (PSI ``cpu`` ``some``).
    throttled_s, throttled_periods, periods
        cgroup CPU bandwidth control.
    load
        One-minute load average at the end.
    peak_runnable
        Most runnable tasks seen, without the reader.
    tree_cpu_s
        Exact CPU seconds of the target and all descendants that were waited for (wait4). The excess over the
        sum of the processes was used by processes too short-lived to be seen.
    neighbours
        Other programs that ran while the target queued; ``None`` if it did not queue or was not watched.
    """

    cpus: Cpus | None = None
    quota_cpus: Amount | None = None
    wall_s: Seconds | None = None
    busy_s: Seconds | None = None
    steal_s: Seconds | None = None
    psi_some_s: Seconds | None = None
    throttled_s: Seconds | None = None
    throttled_periods: Count | None = None
    periods: Count | None = None
    load: Amount | None = None
    peak_runnable: Count | None = None
    tree_cpu_s: Seconds | None = None
    neighbours: Neighbours | None = None


class Git(TypedDict, total=False):
    """The revision that was run, and whether files were changed since."""

    revision: str
    dirty: bool


class Job(TypedDict, total=False):
    """The launcher's job: id, and rank, size and position of this process; for joined files, all ranks.

    `local_rank` and `node` are those of `Process`.
    """

    id: str | None
    rank: Rank | None
    world_size: Rank | None
    local_rank: Rank | None
    node: Rank | None
    ranks: tuple[Rank, ...]


class Sampler(TypedDict, total=False):
    """What the sampler cost, and what it did not see."""

    period_s: Seconds | None
    samples: Count | None
    cpu_s: Seconds | None
    notes: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run that was captured alone, or that the program named.

    Attributes
    ----------
    name
        Empty if none.
    begin_s, end_s
        Seconds after the command started.
    captured
        Whether functions were captured because of it; otherwise it is only a name.
    """

    name: str
    begin_s: Seconds
    end_s: Seconds
    captured: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was run, where, with what.

    Attributes
    ----------
    schema
        ``profkit.run/2``; files of version 1 are read too.
    exit_status
        As a shell reports it: ``128 + N`` for signal N.
    environment
        Thread-related variables only (an allow-list).
    packages
        Distribution name to version, of the target's environment.
    git
        Of the working directory, ``None`` outside a repository.
    started
        UTC, ISO 8601.
    job
        ``None`` unless profkit itself was started once per rank.
    clocks
        ``time``, ``monotonic`` and ``perf_counter`` at one moment, seconds.
    wall_s
        Seconds of the run; of its windows, if it was captured in windows.
    whole_s
        Seconds of the whole command if windows were captured, else ``None``.
    windows
        Windows and named parts, by time of beginning.
    """

    schema: str
    profkit: str
    command: tuple[str, ...]
    cwd: str
    exit_status: ExitStatus | None
    started: str
    wall_s: Seconds
    host: Host
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    git: Git | None = None
    job: Job | None = None
    clocks: Mapping[str, Moment] = field(default_factory=dict)
    sampler: Sampler | None = None
    whole_s: Seconds | None = None
    windows: tuple[Window, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that had not returned when its thread was last read.

    Attributes
    ----------
    function
        Row in the thread's profile.
    cumtime
        Seconds since it was first seen open, a lower bound.
    """

    function: Count
    cumtime: SignedSeconds

    def as_json(self) -> list[float]:
        """Return the JSON pair of the call."""
        return [self.function, self.cumtime]

    @classmethod
    def from_json(cls, value: object) -> OpenCall:
        """Check and convert what `as_json` returned.

        Raises
        ------
        ValueError
            It is something else.
        """
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError("is not a pair")
        function, cumtime = value
        if type(function) is not int:
            raise ValueError("has a function that is not a row")
        if type(cumtime) not in (int, float):
            raise ValueError("has a time that is not a number")
        bounds = bounds_of(SignedSeconds)
        problem = bounds.problem(cumtime) if bounds is not None else ""
        if problem:
            raise ValueError(f"has a time that {problem}")
        return cls(function, float(cumtime))


#: What set the size of a pool; see `Pool`.
PoolOrigin: TypeAlias = Literal["variable", "default", "program", ""]


@dataclass(frozen=True, slots=True)
class Pool:
    """A library's thread pool, as the library reported it.

    Attributes
    ----------
    library
        ``openblas``, ``libgomp``, ``libomp``, ``mkl``, ``blis``, ``tbb``, ``torch`` (intra-op),
        ``torch-interop``, ``opencv``, ``tensorflow`` …
    threads
        Threads used for one call, ``None`` if the library does not tell.
    origin
        What set that number: ``variable`` (see `variable`), ``default`` (one per CPU that it saw),
        ``program``, or empty if unknown.
    variable
        The environment variable that was set for this library, with its value: ``OMP_NUM_THREADS=4``. Unless
        `origin` is ``variable``, it had no effect: the program set the size, or the variable was set too
        late.
    version, file
        Of the library; the file without directories. Empty if not known.
    peak
        Most threads in an earlier reading if more than `threads`, else ``None``.
    """

    library: str
    threads: Count | None = None
    origin: PoolOrigin = ""
    variable: str = ""
    version: str = ""
    file: str = ""
    peak: Count | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its profile and the kernel's counters (``None``: not known).

    Attributes
    ----------
    range_calls
        Functions by NVTX range, ``None`` if no tracer received ranges.
    paths
        Calling contexts, ``None`` if no tracer kept them.
    throttled
        Rows of functions that the tracer stopped counting because they were called too often. Their later
        calls and time belong to their callers.
    tracer_s
        Seconds that tracing took by its own measurement; not part of any time in the profile.
    pauses, lines, slices
        ``None`` if no tracer sampled waits, source lines, or functions over time.
    written_sizes
        Functions of the program whose source sets a number of threads or processes.
    definitions
        Functions of this thread's files that no thread of a sampled run has.
    """

    profile: Profile
    tid: Id | None = None
    name: str = ""
    run_s: Seconds | None = None
    run_queue_wait_s: Seconds | None = None
    timeslices: Count | None = None
    open_calls: tuple[OpenCall, ...] = ()
    user_s: Seconds | None = None
    system_s: Seconds | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    range_calls: RangeCalls | None = None
    paths: Paths | None = None
    throttled: tuple[Count, ...] = ()
    tracer_s: Seconds | None = None
    pauses: tuple[Pause, ...] | None = None
    lines: tuple[Line, ...] | None = None
    slices: tuple[Slice, ...] | None = None
    written_sizes: tuple[WrittenSize, ...] = ()
    definitions: tuple[Definition, ...] = ()


@dataclass(frozen=True, slots=True)
class Tier:
    """A way of capture and when it began.

    Attributes
    ----------
    kind
        ``exact``: every call was traced; ``sampled``: stacks were sampled, and calls counted in short bursts.
    begin_s
        Seconds after the process began.
    """

    kind: Literal["exact", "sampled"]
    begin_s: Seconds


@dataclass(frozen=True, slots=True)
class Effect:
    """Estimate of what capture added to the wall of a process, with its 95 % interval; seconds."""

    seconds: SignedSeconds
    low_s: SignedSeconds
    high_s: SignedSeconds


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the run.

    Attributes
    ----------
    role
        ``main``, ``rank``, ``worker`` (started by multiprocessing or a loader) or ``child``.
    rank
        MPI or torchrun rank.
    local_rank, node
        Number of the rank on its node, and of the node in the job, from 0.
    exit
        ``exited``, ``killed`` (by a signal), ``replaced`` (by exec), ``running`` (alive when the run was
        packed), ``ended`` (gone, how is not known) or ``unknown`` (possibly alive); empty for foreign files.
    python
        ``3.11.7``, or empty.
    run_queue_wait_s
        Of all threads that the sampler saw; without it, of those alive at the last reading.
    peak_threads
        Most threads at one moment that the sampler saw.
    ranges
        NVTX ranges and marks, ``None`` if not captured.
    profiled
        False if only the sampler saw it: another language, ``-I``, a cleared environment. Its threads then
        have empty profiles.
    pools
        Thread pools of its libraries, ``None`` if not read.
    samples
        Counters of its threads over time, ``None`` without the sampler.
    peak_memory_bytes
        Peak resident memory.
    page_faults
        Minor page faults (no disk read).
    read_bytes
        Bytes read by system calls, from files, pipes and sockets.
    notes
        Notices of its agent.
    tiers
        In time order; empty if not known.
    effect
        What capture added to its wall, ``None`` if not estimated.
    """

    pid: Id | None = None
    parent: Id | None = None
    role: str = "main"
    rank: Rank | None = None
    command: tuple[str, ...] = ()
    exit: str = ""
    python: str = ""
    wall_s: Seconds | None = None
    cpu_s: Seconds | None = None
    run_queue_wait_s: Seconds | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    threads: tuple[Thread, ...] = ()
    roots: Roots = field(default_factory=Roots)
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()
    ranges: Ranges | None = None
    profiled: bool = True
    pools: tuple[Pool, ...] | None = None
    samples: ThreadSamples | None = None
    peak_threads: Count | None = None
    peak_memory_bytes: Count | None = None
    page_faults: Count | None = None
    read_bytes: Count | None = None
    local_rank: Rank | None = None
    node: Rank | None = None
    tiers: tuple[Tier, ...] = ()
    effect: Effect | None = None

    def with_threads(self, change: Callable[[Thread], Thread]) -> Process:
        """Return the same with each thread changed."""
        return replace(self, threads=tuple(map(change, self.threads)))


class CallSums:
    """Sums of the calls of a run's processes, which may be added in portions."""

    def __init__(self) -> None:
        self._sums = np.zeros(7)

    def add(self, processes: Sequence[Process]) -> None:
        """Add the calls of some processes.

        Raises
        ------
        ProfileError
            A sum exceeds `EXACT`; several such runs would overflow 64 bits.
        """
        threads = [thread for process in processes for thread in process.threads]
        profiles = [thread.profile for thread in threads]
        edges = [profile.edges for profile in profiles if profile.edges is not None]
        inside = [thread.range_calls for thread in threads if thread.range_calls is not None]
        for i, counts in enumerate(
            (
                [profile.ncalls for profile in profiles],
                [profile.primitive_calls for profile in profiles],
                [part.ncalls for part in edges],
                [part.primitive_calls for part in edges],
                [part.ncalls for part in inside],
                [part.count for part in inside],
                [thread.paths.ncalls for thread in threads if thread.paths is not None],
            )
        ):
            self._sums[i] += sum(float(np.abs(column).sum(dtype=np.float64)) for column in counts)
        if self._sums.max() > EXACT:
            raise ProfileError("its calls add up to more than any run can make")


@dataclass(frozen=True, slots=True)
class Run:
    """One captured or foreign profile file.

    Attributes
    ----------
    path
        Where it was read from, as the user named it.
    processes
        First the one that viewers see: the main process, or rank 0.
    warnings
        Notices for every report (mixed threads, lost data, …).
    series
        Machine-wide counters over time, ``None`` without the sampler.
    machines
        By host name if processes ran on several hosts; includes `machine`.
    gpu
        GPU activity if a trace has it, else ``None``.
    """

    path: str
    processes: tuple[Process, ...]
    manifest: Manifest | None = None
    machine: Machine | None = None
    warnings: tuple[Notice, ...] = ()
    series: Series | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    gpu: GpuUse | None = None

    @property
    def host(self) -> Host | None:
        """The host of the manifest."""
        return None if self.manifest is None else self.manifest.host

    @property
    def wall_s(self) -> float | None:
        """The wall of the manifest."""
        return None if self.manifest is None else self.manifest.wall_s

    @property
    def command(self) -> tuple[str, ...]:
        """The command of the manifest, or empty."""
        return () if self.manifest is None else self.manifest.command

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of the manifest."""
        return () if self.manifest is None else self.manifest.windows

    @property
    def job(self) -> Job:
        """The launcher's job, or empty."""
        return (None if self.manifest is None else self.manifest.job) or Job()

    @property
    def profiles(self) -> list[Profile]:
        """The profiles of all threads."""
        return [thread.profile for process in self.processes for thread in process.threads]

    def validate(self) -> Run:
        """Check what spans all processes; return the run.

        Raises
        ------
        ProfileError
            A sum of calls exceeds `EXACT`; several such runs would overflow 64 bits.
        """
        CallSums().add(self.processes)
        return self


@dataclass(frozen=True, slots=True)
class RunSet:
    """One side of a diff: replicates of one configuration, often a single run.

    Attributes
    ----------
    label
        What the user typed for this side.
    skipped
        A notice for each file that could not be read.
    """

    label: str
    runs: tuple[Run, ...]
    skipped: tuple[Notice, ...] = ()
