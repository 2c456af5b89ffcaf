"""One captured command as it was: its manifest, its processes and threads, and the machine under them.

`Run` is what every reader returns and every command takes. A foreign ``.prof`` is a `Run` of one process with
one thread and no manifest; every field that it cannot know is ``None``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from profkit.model.keys import Roots
from profkit.model.notices import Notice
from profkit.model.profile import Profile
from profkit.model.range_calls import RangeCalls
from profkit.model.ranges import Ranges
from profkit.model.series import Series, ThreadSamples

__all__ = ["Host", "Machine", "Manifest", "OpenCall", "Pool", "Process", "Run", "RunSet", "Thread"]


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
    probe, probe_s
        A fixed piece of work, and the CPU seconds that it took just before the run: how fast one CPU was. Only
        the same piece of work can be compared.
    """

    name: str = ""
    system: str = ""
    cpu_model: str = ""
    cpus: int | None = None
    affinity: int | None = None
    quota_cpus: float | None = None
    probe: str = ""
    probe_s: float | None = None
    affinity_cpus: tuple[int, ...] = ()

    @property
    def available_cpus(self) -> float | None:
        """Cores that the process can really use: the least of CPUs, affinity and quota."""
        known = [float(v) for v in (self.cpus, self.affinity, self.quota_cpus) if v]
        return min(known) if known else None


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
    """

    cpus: int | None = None
    quota_cpus: float | None = None
    wall_s: float | None = None
    busy_s: float | None = None
    steal_s: float | None = None
    psi_some_s: float | None = None
    throttled_s: float | None = None
    throttled_periods: int | None = None
    periods: int | None = None
    load: float | None = None
    peak_runnable: int | None = None
    tree_cpu_s: float | None = None


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
        ``{"revision", "dirty"}`` of the working directory, or ``None``.
    started
        UTC, ISO 8601.
    job
        Launcher's job identity, rank and world size, where profkit itself was started once per rank.
    sampler
        What watching from outside took: ``{"period_s", "samples", "cpu_s", "notes"}``, where the notes are a
        tuple of `Notice`; ``None`` without it.
    """

    schema: str
    profkit: str
    command: tuple[str, ...]
    cwd: str
    exit_status: int | None
    started: str
    wall_s: float
    host: Host
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Any] | None = None
    job: Mapping[str, Any] | None = None
    clocks: Mapping[str, float] = field(default_factory=dict)
    sampler: Mapping[str, Any] | None = None


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

    function: int
    cumtime: float

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
        if type(cumtime) not in (int, float) or not abs(cumtime) <= sys.float_info.max:
            raise ValueError("has a time that is not a number")
        return cls(function, float(cumtime))


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
    threads: int | None = None
    origin: str = ""
    variable: str = ""
    version: str = ""
    file: str = ""
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its profile and what the kernel counted for it (``None``: not known).

    `range_calls` says which of its functions ran inside which NVTX ranges, ``None`` where no tracer received any.
    """

    profile: Profile
    tid: int | None = None
    name: str = ""
    run_s: float | None = None
    run_queue_wait_s: float | None = None
    timeslices: int | None = None
    open_calls: tuple[OpenCall, ...] = ()
    user_s: float | None = None
    system_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    range_calls: RangeCalls | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the run.

    Attributes
    ----------
    role
        ``main``, ``rank``, ``worker`` (started by multiprocessing or a loader) or ``child``.
    rank
        MPI or torchrun rank, ``None`` without one.
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
    """

    pid: int | None = None
    parent: int | None = None
    role: str = "main"
    rank: int | None = None
    command: tuple[str, ...] = ()
    exit: str = ""
    python: str = ""
    wall_s: float | None = None
    cpu_s: float | None = None
    run_queue_wait_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    threads: tuple[Thread, ...] = ()
    roots: Roots = field(default_factory=Roots)
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()
    ranges: Ranges | None = None
    profiled: bool = True
    pools: tuple[Pool, ...] | None = None
    samples: ThreadSamples | None = None
    peak_threads: int | None = None
    peak_memory_bytes: int | None = None
    page_faults: int | None = None
    read_bytes: int | None = None


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
    """

    path: str
    processes: tuple[Process, ...]
    manifest: Manifest | None = None
    machine: Machine | None = None
    warnings: tuple[Notice, ...] = ()
    series: Series | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)


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
