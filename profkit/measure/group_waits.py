"""How the processes of a run wait for each other: main processes or ranks, their workers, other children.

Off-CPU time is known by kind (a lock, a pipe, a child), not by process, so it is booked on a whole group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from profkit.identity.lookup_columns import Looked
from profkit.measure.pause_seconds import waited
from profkit.measure.side_facts import first_thread, last_images
from profkit.measure.waits_by_name import is_wait, waits_for_ranks
from profkit.model import BUILTIN, Process, Run, Thread
from profkit.model.arrays import Bools, known
from profkit.model.pauses import WAITS

GroupName: TypeAlias = Literal["main", "ranks", "workers", "children"]

#: Kinds of waiting that another process, or a thread that serves it, can end.
_FOR_OTHERS = [WAITS.index(kind) for kind in ("lock", "child", "pipe", "socket", "poll")]


@dataclass(frozen=True, slots=True)
class Lane:
    """Seconds of a process's first thread: `others_s` waits for other groups, `peers_s` for other ranks."""

    process: Process
    running_s: float
    queued_s: float
    others_s: float
    peers_s: float
    rest_s: float

    @property
    def wall_s(self) -> float:
        """Seconds from the start to the end of the process."""
        return self.running_s + self.queued_s + self.others_s + self.peers_s + self.rest_s


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """Processes of one role, in the run's order."""

    name: GroupName
    lanes: tuple[Lane, ...]

    def mean(self, part: str) -> float:
        """Return the mean seconds of one part (``others_s``) over the processes."""
        return float(np.mean([getattr(lane, part) for lane in self.lanes]))


def group_waits(run: Run) -> tuple[WaitGroup, ...]:
    """Return the groups of a run, main process or ranks first, without processes that lack counters."""
    tops = last_images([p for p in run.processes if p.role in ("main", "rank")])
    pids = {p.pid for p in tops}
    below: tuple[tuple[GroupName, list[Process]], ...] = (
        ("workers", [p for p in run.processes if p.role == "worker"]),
        ("children", [p for p in run.processes if p.role == "child" and p.parent in pids]),
    )
    started = [(name, lanes) for name, found in below if (lanes := _lanes(found, others=True, peers=False))]
    started = started[:1]  # children beside workers only start and track workers
    ranked = len(tops) > 1
    first = _lanes(tops, others=bool(started), peers=ranked)
    if not first:
        return ()
    return (
        WaitGroup("ranks" if ranked else "main", first),
        *(WaitGroup(name, lanes) for name, lanes in started),
    )


def _lanes(processes: Sequence[Process], *, others: bool, peers: bool) -> tuple[Lane, ...]:
    return tuple(known(_lane(process, others=others, peers=peers) for process in processes))


def _lane(process: Process, *, others: bool, peers: bool) -> Lane | None:
    thread, wall = first_thread(process), process.wall_s
    if thread is None or wall is None or thread.run_s is None or thread.run_queue_wait_s is None:
        return None
    # The clocks of the process and of the kernel differ slightly.
    run = min(thread.run_s, wall)
    queue = min(thread.run_queue_wait_s, wall - run)
    off = wall - run - queue
    spun, stood = _for_ranks(thread) if peers else (0.0, 0.0)
    spun, stood = min(spun, run), min(stood, off)
    waited_s = min(_for_others(thread), off - stood) if others else 0.0
    return Lane(process, run - spun, queue, waited_s, spun + stood, off - stood - waited_s)


def _rank_rows(thread: Thread) -> Bools:
    return Looked(thread.profile.name, thread.profile.strings).where(waits_for_ranks)


def _for_ranks(thread: Thread) -> tuple[float, float]:
    """Return the seconds in calls that wait for other ranks: on a CPU, and off it."""
    profile, rows = thread.profile, _rank_rows(thread)
    wait, blocked = (
        0.0 if column is None else float(column[rows].sum()) for column in (profile.wait, profile.blocked)
    )
    return max(0.0, float(profile.tottime[rows].sum()) - wait - blocked), blocked


def _for_others(thread: Thread) -> float:
    """Return the seconds off the CPU that other processes can have ended."""
    profile = thread.profile
    if thread.pauses is not None:
        return float(waited(thread)[_FOR_OTHERS][:, ~_rank_rows(thread)].sum())
    if profile.blocked is None:
        return 0.0
    # Older files do not record causes: use native functions that wait by design.
    waits = Looked(profile.name, profile.strings).where(lambda text: is_wait(text, BUILTIN))
    return float(profile.blocked[waits & ~_rank_rows(thread)].sum())
