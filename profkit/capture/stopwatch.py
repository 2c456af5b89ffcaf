"""What one piece of work took in this process: wall, CPU time, queueing for CPUs, and what others ran meanwhile.

Made for timings beside other programs: `Reading.own_s` leaves out the time for which the thread was ready and had no
CPU, which is the neighbours' doing and not the work's. Imports the standard library alone, so that a process that
measures itself imports next to nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_NS = 1e-9
#: Readings until the thread kept its CPU from the first to the last of them.
_TRIES = 10
#: Of ``/proc/stat``: user, nice, system, irq, softirq, steal.
_BUSY = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one piece of work took, in seconds; ``None`` for what this system does not count.

    Attributes
    ----------
    wall_s
        From its begin to its end.
    cpu_s
        CPU time of this process and of its children that have ended.
    queue_s
        For which the calling thread was ready to run and had no CPU.
    helpers_queue_s
        The same of the process's other threads.
    others_cores
        CPUs that other programs, or the hypervisor, took meanwhile, on average. The kernel counts in ticks of 10 ms.
    """

    wall_s: float
    cpu_s: float
    queue_s: float | None = None
    helpers_queue_s: float | None = None
    others_cores: float | None = None

    @property
    def own_s(self) -> float:
        """The wall without queueing for CPUs: what the work itself took, running and waiting for other things."""
        return max(self.wall_s - (self.queue_s or 0.0), 0.0)


class Stopwatch:
    """Started when it is made; `stop` reads it."""

    def __init__(self) -> None:
        self._busy = _busy()
        self._helpers = _queued_of_others()
        self._cpu = _cpu()
        self._queue, self._begin = _together()

    def stop(self) -> Reading:
        """Return what was taken since the start, by the thread that started it."""
        queue, end = _together()
        wall = end - self._begin
        cpu, helpers, busy = _cpu(), _queued_of_others(), _busy()
        used = cpu - self._cpu
        others = None
        if busy is not None and self._busy is not None and wall > 0:
            others = max(0.0, busy - self._busy - used) / wall
        return Reading(wall, used, _less(queue, self._queue), _less(helpers, self._helpers), others)


def _less(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else max(0.0, now - before)


def _cpu() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _together() -> tuple[float | None, float]:
    """Return what this thread has queued, and the time at which it had: it may lose its CPU between two readings."""
    before = _queued()
    for _ in range(_TRIES):
        now = time.perf_counter()
        behind = _queued()
        if behind == before:
            break
        before = behind
    return before, now


def _queued(task: str = "/proc/thread-self") -> float | None:
    """Seconds that a thread waited on a run queue (proc(5), ``schedstat``)."""
    try:
        with open(f"{task}/schedstat", "rb") as file:
            return int(file.read().split()[1]) * _NS
    except (OSError, IndexError, ValueError):
        return None


def _queued_of_others() -> float | None:
    """The same of this process's other threads that live."""
    try:
        own = os.path.basename(os.readlink("/proc/thread-self"))
        waits = [_queued(f"/proc/self/task/{tid}") for tid in os.listdir("/proc/self/task") if tid != own]
    except OSError:
        return None
    return sum(wait for wait in waits if wait is not None)


def _busy() -> float | None:
    """CPU seconds that the whole machine used since its start, with what a hypervisor took."""
    try:
        with open("/proc/stat", "rb") as file:
            fields = file.readline().split()[1:]
        return sum(int(fields[i]) for i in _BUSY) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
