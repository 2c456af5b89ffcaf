"""What a piece of work took in this process: wall, CPU, queueing. Imports the standard library only."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from profkit.capture.agent import machine

_NS = 1e-9
#: Most readings, until the thread kept its CPU from the first to the last.
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Reading:
    """What one piece of work took, in seconds; ``None`` for what this system does not count.

    `cpu_s` includes ended children; `helpers_queue_s` is of the process's other threads; `others_cores` of
    other programs and the hypervisor, in ticks of 10 ms.
    """

    wall_s: float
    cpu_s: float
    queue_s: float | None = None
    helpers_queue_s: float | None = None
    others_cores: float | None = None

    @property
    def own_s(self) -> float:
        """Return the wall without queueing for CPUs, which other programs cause."""
        return max(self.wall_s - (self.queue_s or 0.0), 0.0)


class Stopwatch:
    """A stopwatch that runs from its creation on; `stop` reads it."""

    def __init__(self) -> None:
        self._busy = _busy()
        self._helpers = _queued_of_others()
        self._cpu = _cpu()
        self._queue, self._begin = _together()

    def stop(self) -> Reading:
        """Return what was taken since the start; call it in the thread that started it."""
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
    """Return this thread's queueing and the time, read while it kept its CPU."""
    before = _queued()
    for _ in range(_TRIES):
        now = time.perf_counter()
        behind = _queued()
        if behind == before:
            break
        before = behind
    return before, now


def _queued(task: str = "/proc/thread-self") -> float | None:
    """Return the seconds that a thread waited on a run queue (``schedstat``, proc(5))."""
    try:
        with open(f"{task}/schedstat", "rb") as file:
            return int(file.read().split()[1]) * _NS
    except (OSError, IndexError, ValueError):
        return None


def _queued_of_others() -> float | None:
    try:
        own = os.path.basename(os.readlink("/proc/thread-self"))
        waits = [_queued(f"/proc/self/task/{tid}") for tid in os.listdir("/proc/self/task") if tid != own]
    except OSError:
        return None
    return sum(wait for wait in waits if wait is not None)


def _busy() -> float | None:
    """Return the CPU seconds of the machine since its start, steal by a hypervisor included."""
    found = machine.read_fields(machine.cpu_seconds, "/proc/stat")
    return sum(found.values()) if found else None
