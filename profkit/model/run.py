"""One captured command as it was: its manifest, its processes and threads, and the machine under them.

`Run` is what every reader returns and every command takes. A foreign ``.prof`` is a `Run` of one process with
one thread and no manifest; every field that it cannot know is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from profkit.model.gpu_use import GpuUse
from profkit.model.keys import Roots
from profkit.model.lines import Line
from profkit.model.neighbours import Neighbours
from profkit.model.notices import Notice
from profkit.model.paths import Paths
from profkit.model.pauses import Pause
from profkit.model.profile import Profile
from profkit.model.range_calls import RangeCalls
from profkit.model.ranges import Ranges
from profkit.model.series import Series, ThreadSamples
from profkit.model.slices import Slice
from profkit.model.tiers import Effect, Tier


@dataclass(frozen=True, slots=True)
class Host:
    """What one machine offers to one process.

    Attributes
    ----------
    name
        Host name.
    cpu_model
        As the kernel names it.
    cpus
        Logical CPUs of the machine.
    affinity
        How many of them the process may use.
    affinity_cpus
        Their numbers, in ascending order; empty where not known.
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
        """Cores that the process can really use: the least of CPUs, affinity and quota."""
        known = [float(v) for v in (self.cpus, self.affinity, self.quota_cpus) if v]
        return min(known) if known else None


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Fixed work, and how fast the machine did it: CPU seconds of a piece, medians over several.

    Attributes
    ----------
    name
        Which work: ``integer`` (the clock), ``branches`` (that cannot be foreseen), ``vector`` (floats), ``latency``
        and ``bandwidth`` (of memory), ``bytecode`` with the interpreter; only equal names can be compared.
    before_s, beside_s, after_s
        Before the command started, while it ran, on a CPU that was free, and after its end.
    scatter
        The middle half's width over the median, of all pieces.
    pieces
        How many there are.
    """

    name: str
    before_s: Seconds | None = None
    beside_s: Seconds | None = None
    after_s: Seconds | None = None
    scatter: Amount | None = None
    pieces: Count | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine-wide counters over the run, as differences between its end and its start.

    Attributes
    ----------
    wall_s
        Seconds between the two readings.
    busy_s, steal_s
        CPU seconds that all processes of the machine used together, and that a hypervisor took.
    psi_some_s
        Seconds in which at least one task of the machine waited for a CPU (PSI ``cpu`` ``some``).
    throttled_s, throttled_periods, periods
        cgroup CPU bandwidth control.
    load
        One-minute load average at the end.
    peak_runnable
        Most runnable tasks seen, the one that looked not counted.
    tree_cpu_s
        CPU seconds of the target and of all its descendants that were waited for, exact (wait4): what the
        processes do not add up to was used by some that lived too shortly to be seen.
    neighbours
        Who else ran while the target queued; ``None`` where it did not, or was not watched.
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
    """The launcher's job: its identity, the rank, its place and how many there are; of joined files all ranks.

    `local_rank` and `node` are those of `Process`.
    """

    id: str | None
    rank: Rank | None
    world_size: Rank | None
    local_rank: Rank | None
    node: Rank | None
    ranks: tuple[Rank, ...]


class Sampler(TypedDict, total=False):
    """What watching a run from outside took, and what it did not see."""

    period_s: Seconds | None
    samples: Count | None
    cpu_s: Seconds | None
    notes: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run that was captured alone, or that the program gave a name.

    Attributes
    ----------
    name
        Of the range, the steps, or as the program says; empty without one.
    begin_s, end_s
        Seconds after the start of the command.
    captured
        Whether functions were captured because of it; without, it is a name.
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
    command
        The target's command line.
    exit_status
        As a shell sees it: ``128 + N`` for signal N.
    environment
        Thread-related variables only (an allow-list).
    packages
        Distribution name to version, of the target's environment.
    git
        Of the working directory, ``None`` where it is in no repository.
    started
        UTC, ISO 8601.
    job
        Where profkit itself was started once per rank.
    clocks
        ``time``, ``monotonic`` and ``perf_counter`` at one moment, seconds.
    sampler
        What watching from outside took, ``None`` without it.
    wall_s
        Seconds of the run; of one that was captured in windows, the seconds of its windows.
    whole_s
        Seconds of the whole command where windows of it were captured; ``None`` where all of it was.
    windows
        The windows, and the parts of the program to which it gave names, in the order of their beginnings.
    yardsticks
        How fast the machine did fixed work.
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
    """A call that had not returned when its thread was last read; its times are lower bounds.

    Attributes
    ----------
    function
        Row in the thread's profile.
    cumtime
        Seconds since it was first seen open.
    """

    function: Count
    cumtime: SignedSeconds

    def as_json(self) -> list[float]:
        """Return the pair that stands for it in a file."""
        return [self.function, self.cumtime]

    @classmethod
    def from_json(cls, value: object) -> OpenCall:
        """Check what `as_json` returned.

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


#: What set the size of a pool, see `Pool`.
PoolOrigin: TypeAlias = Literal["variable", "default", "program", ""]


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of threads that a library keeps, as the library itself reported it.

    Attributes
    ----------
    library
        ``openblas``, ``libgomp``, ``libomp``, ``mkl``, ``blis``, ``tbb``, ``torch`` (intra-op), ``torch-interop``,
        ``opencv``, ``tensorflow`` …
    threads
        How many threads it uses for one call, ``None`` where it does not say.
    origin
        Where that number comes from: ``variable`` (see `variable`), ``default`` (one per CPU that it saw),
        ``program`` (the program set it), or empty if unknown.
    variable
        The environment variable that applies to this library and was set, with its value: ``OMP_NUM_THREADS=4``.
        With another origin than ``variable`` it had no effect: the program set the size, or it was set too late.
    version, file
        Of the library; the file without its directories. Empty where not known.
    peak
        Most threads that an earlier reading saw, where that was more; ``None`` otherwise.
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
    """One thread: its profile and what the kernel counted for it (``None``: not known).

    `range_calls` says which of its functions ran inside which NVTX ranges, ``None`` where no tracer received any;
    `paths` by what chains of callers they were called, ``None`` where no tracer kept that.
    `throttled` are rows of the profile: functions that were called so often that the tracer ceased to count them,
    whose later calls and time are part of their callers. `tracer_s` are the seconds that tracing took by its own
    measurement, which are in no time of the profile. `pauses` are ``None`` where no tracer looked what it waited
    for, `lines` where none looked in which lines it was, and `slices` where none did over time.
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


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the run.

    Attributes
    ----------
    role
        ``main``, ``rank``, ``worker`` (started by multiprocessing or a loader) or ``child``.
    rank
        MPI or torchrun rank, ``None`` without one.
    local_rank, node
        Number of the rank among those of the job on its node, and of the node in the job, both from 0 on; ``None``
        where the launcher does not say them.
    command
        Its own command line.
    exit
        ``exited``, ``killed`` (by a signal), ``replaced`` (by exec), ``running`` (still alive when the run was
        packed), ``ended`` (it is gone, how is not known) or ``unknown`` (nor whether it is gone); empty for foreign
        files.
    python
        ``3.11.7``, or empty.
    run_queue_wait_s
        Of all threads that the sampler saw; without it, of those that lived at the last reading.
    peak_threads
        Most threads at one moment that the sampler saw.
    ranges
        Its NVTX ranges and marks, ``None`` where nothing was captured.
    profiled
        False for a process that only the sampler saw: another language, ``-I``, an emptied environment. Its
        threads have empty profiles.
    pools
        Thread pools of its libraries, ``None`` where they were not read.
    samples
        Its threads' counters over time, ``None`` without the sampler.
    peak_memory_bytes
        Most memory that it had in RAM at once.
    page_faults
        Pages that it was given without reading a disk.
    read_bytes
        What it read by system calls, from files, pipes and sockets alike.
    notes
        What its agent said of the record.
    tiers
        How its functions were captured, in the order of time; empty where that is not known.
    effect
        What capture added to its wall, ``None`` where that was not estimated.
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


class CallSums:
    """The calls of a run's processes, which may come in portions."""

    def __init__(self) -> None:
        self._sums = np.zeros(7)

    def add(self, processes: Sequence[Process]) -> None:
        """Add those of some processes.

        Raises
        ------
        ProfileError
            They add up to more than is exact, and than 64 bits hold where several runs are summed.
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
        The first is the one that viewers see: the main process, or rank 0.
    warnings
        What a reader of any report must know (mixed threads, lost data, …).
    series
        Machine-wide counters over time, ``None`` without the sampler.
    machines
        Where the processes ran on several hosts: the machine of each by host name, `machine` among them.
    gpu
        How much the GPUs worked, of a trace that has them; ``None`` otherwise.
    """

    path: str
    processes: tuple[Process, ...]
    manifest: Manifest | None = None
    machine: Machine | None = None
    warnings: tuple[Notice, ...] = ()
    series: Series | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    gpu: GpuUse | None = None

    def validate(self) -> Run:
        """Check what no part of it shows alone, and return the run itself; its parts are valid.

        Raises
        ------
        ProfileError
            Its calls add up to more than is exact, and than 64 bits hold where several runs are summed.
        """
        CallSums().add(self.processes)
        return self


@dataclass(frozen=True, slots=True)
class RunSet:
    """Replicates of one configuration: a side of a diff, often of one run.

    Attributes
    ----------
    label
        What the user typed for this side.
    skipped
        Files of this side that could not be read, one notice each.
    """

    label: str
    runs: tuple[Run, ...]
    skipped: tuple[Notice, ...] = ()
