"""What a machine offers to a process, how fast it was, what its kernel counted, and which other programs ran."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Amount, Count, Cpus, Id, Seconds


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
class Neighbour:
    """A process of another program, several alike, or a cgroup whose processes are hidden.

    Attributes
    ----------
    name
        Kernel name, at most 15 bytes; empty for a cgroup.
    cores
        CPU seconds per second while the target queued, with children that ended. Each moment is weighted by
        the number of queueing threads.
    pid
        ``None`` for several processes.
    processes
        Number of processes of that name, user and group.
    user
        Name or number; empty if hidden.
    group
        Container, job or systemd unit; empty if none.
    children
        Whether most of the CPU time is of children that have ended.
    """

    name: str
    cores: Amount
    pid: Id | None = None
    processes: Count = 1
    user: str = ""
    group: str = ""
    children: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Other programs on one machine while the target queued.

    Attributes
    ----------
    queued_s
        Queueing of all the target's threads during which others were followed, seconds.
    listed
        The largest users of CPU time, in descending order.
    cores
        CPU seconds per second of all other programs, by the machine's counter; ``None`` if not known. The
        excess over `listed` was used by many small, short-lived or hidden processes and by the kernel.
    all_visible
        Whether processes of all users and containers were visible.
    cpu_s
        CPU seconds spent on following them.
    """

    queued_s: Seconds
    listed: tuple[Neighbour, ...] = ()
    cores: Amount | None = None
    all_visible: bool = False
    cpu_s: Seconds | None = None

    @property
    def unseen_cores(self) -> float | None:
        """Part of `cores` that no listed process used; ``None`` if not known."""
        if self.cores is None:
            return None
        return max(0.0, self.cores - sum(one.cores for one in self.listed))


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
    memory_limit_bytes
        Least memory limit of the target's cgroup; ``None`` without one.
    refaulted_bytes
        Memory of the target's cgroup that was needed again after the kernel had dropped it for lack of memory:
        pages of files, or swapped pages (cgroup ``memory.stat``, ``workingset_refault``).
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
    memory_limit_bytes: Count | None = None
    refaulted_bytes: Count | None = None
