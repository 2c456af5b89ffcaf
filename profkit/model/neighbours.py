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
        As the kernel names it: at most 15 bytes; empty of a cgroup.
    cores
        CPU that it used per second, with children that ended, while the target queued: each moment counts by the
        number of threads that queued then.
    pid
        Its number; ``None`` of several.
    processes
        How many processes of that name, user and group these are.
    user
        Who it belongs to: a name, or a number; empty where that is hidden.
    group
        Its container, its job, or its unit of systemd; empty without one.
    children
        Whether most of it was used by processes that it started and that have ended.
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
    """Who else ran on one machine while the target queued.

    Attributes
    ----------
    queued_s
        The target's queueing, all its threads together, for which others were followed.
    listed
        Those that used most, the greatest first.
    cores
        CPU per second of all other programs together in that time, by the machine's own counter; ``None`` where it
        is not known. What `listed` lacks of it was used by many small processes, by ones that ended soon and by
        the kernel; or by hidden ones.
    all_visible
        Whether processes of all users and containers could be seen.
    cpu_s
        CPU seconds that following them took.
    """

    queued_s: Seconds
    listed: tuple[Neighbour, ...] = ()
    cores: Amount | None = None
    all_visible: bool = False
    cpu_s: Seconds | None = None

    @property
    def unseen_cores(self) -> float | None:
        """Part of `cores` that no listed process used; ``None`` where that is not known."""
        if self.cores is None:
            return None
        return max(0.0, self.cores - sum(one.cores for one in self.listed))
