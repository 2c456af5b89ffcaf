"""Other programs that ran on the machine while the target queued for a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Amount, Count, Id, Seconds


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
