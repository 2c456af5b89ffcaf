"""Machine-wide counters over time, from files that stay open; a missing file has no column."""

from __future__ import annotations

import contextlib
import math
import os
import time
from array import array
from collections.abc import Container
from typing import Any

from profkit.capture.agent import machine
from profkit.capture.gpu import Gpus
from profkit.capture.proc_files import lives

#: Columns that rise: the rise since the first reading is kept.
RISING = frozenset(
    (
        *("busy_s", "steal_s", "throttled_s", "throttled_periods", "periods", "refaulted_bytes"),
        *("psi_some_s", "psi_io_some_s", "cgroup_psi_some_s"),  # pressure (PSI)
    )
)
#: Bytes read of a file; of ``/proc/stat`` the first line, the sum, suffices.
_SIZE = 512
#: Bytes read of ``memory.stat``, and nanoseconds between two readings: the kernel sums up all CPUs for each.
_MEMORY_SIZE, _MEMORY_NS = 4096, 250_000_000
#: Nanoseconds over which CPUs must have been idle: the kernel counts ticks of 10 ms.
_IDLE_NS = 100_000_000


class Meters:
    """Readings of the machine under the target, and of the cgroup of the process `target`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._files: dict[str, int] = {}
        self._base: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._cgroups: dict[str, list[str]] = {}
        self._membership = b""
        self._gpus = Gpus()
        self.time_ns = array("q")
        self.columns: dict[str, array[float]] = {}
        #: Least CPU quota seen of the target's cgroup, in cores.
        self.quota_cpus: float | None = None
        #: Least memory limit seen of the target's cgroup, in bytes.
        self.memory_limit_bytes: int | None = None
        self._memory_due_ns = 0
        for name in ("stat", "loadavg", "pressure/cpu", "pressure/io"):
            self._open(name, f"/proc/{name}")
        self._open("cgroup", f"/proc/{target}/cgroup")

    @property
    def notes(self) -> list[dict[str, str]]:
        """Return notices, in JSON form, of what could not be read."""
        missing = [] if "pressure/cpu" in self._files else [{"code": "sampler-no-pressure"}]
        return [*missing, *self._gpus.notes]

    def __len__(self) -> int:
        return len(self.time_ns)

    def _open(self, name: str, path: str) -> None:
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._files[name] = fd
            try:
                os.pread(fd, 1, 0)
            except OSError:  # PSI may be switched off: then only reading fails
                os.close(self._files.pop(name))

    def close(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files = {}
        self._gpus.close()

    def find_cgroup(self) -> None:
        """Look up the target's cgroup again, since ``systemd-run`` and the like change it."""
        try:
            membership = os.pread(self._files["cgroup"], 4096, 0)
        except (KeyError, OSError):
            return
        if membership == self._membership or not lives(self._target):
            return  # an ended process is in no cgroup
        self._membership = membership
        for controller, follow in (("cpu", self._follow_cpu), ("memory", self._follow_memory)):
            directories = machine.cgroup_directories(controller, self._target)
            if directories and directories != self._cgroups.get(controller):
                self._cgroups[controller] = directories
                follow(directories)

    def _follow_cpu(self, directories: list[str]) -> None:
        quota = machine.quota_cpus(directories)
        if quota is not None:
            self.quota_cpus = quota if self.quota_cpus is None else min(quota, self.quota_cpus)
        limited = machine.limiting(directories)
        self._reopen("cpu.stat", [] if limited is None else [limited])
        self._reopen("cpu.pressure", directories)
        self._count_on("throttled_s", "throttled_periods", "periods", "cgroup_psi_some_s")

    def _follow_memory(self, directories: list[str]) -> None:
        limit = machine.memory_limit(directories)
        if limit is not None:
            self.memory_limit_bytes = min(limit, self.memory_limit_bytes or limit)
        self._reopen("memory.stat", directories)
        self._count_on("refaulted_bytes")
        self._memory_due_ns = 0

    def _reopen(self, name: str, directories: list[str]) -> None:
        """Open a file of a cgroup in the first directory that has it."""
        if name in self._files:
            os.close(self._files.pop(name))
        for directory in directories:
            self._open(name, f"{directory}/{name}")
            if name in self._files:
                break

    def _count_on(self, *names: str) -> None:
        """Continue from the last values: another cgroup counts from another start."""
        for name in names:
            self._base.pop(name, None)

    def read(
        self, now_ns: int, processes: int, threads: int, own: Container[int], *, final: bool = False
    ) -> None:
        """Append a reading at `now_ns` (``CLOCK_MONOTONIC``); the `final` one has all columns.

        `processes` and `threads` are numbers of the target's, and `own` has its processes.
        """
        values: dict[str, float] = {"processes": processes, "threads": threads}
        memory = final or now_ns >= self._memory_due_ns
        if memory:
            self._memory_due_ns = now_ns + _MEMORY_NS
        for name, read in (
            ("stat", machine.cpu_seconds),
            ("loadavg", machine.load),
            ("pressure/cpu", lambda text: {"psi_some_s": machine.pressure_s(text)}),
            ("pressure/io", lambda text: {"psi_io_some_s": machine.pressure_s(text)}),
            ("cpu.stat", machine.throttling),
            ("cpu.pressure", lambda text: {"cgroup_psi_some_s": machine.pressure_s(text)}),
            *((("memory.stat", machine.refaulted),) if memory else ()),
        ):
            if name in self._files:
                size = _MEMORY_SIZE if name == "memory.stat" else _SIZE
                with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
                    values.update(read(os.pread(self._files[name], size, 0).decode("ascii", "replace")))
        if "busy_s" in values:
            values["busy_s"] -= time.process_time()
        values.update(self._gpus.read(now_ns, own))
        for name in values.keys() & RISING:
            values[name] = self._risen(name, values[name])
        n = len(self.time_ns)
        self.time_ns.append(now_ns)
        for name in values:
            if name not in self.columns:
                self.columns[name] = array("d", [math.nan]) * n
        for name, column in self.columns.items():
            column.append(values.get(name, math.nan))

    def idle_cpus(self) -> float:
        """Return how many CPUs were idle over the last readings, 0 if unknown."""
        busy = self.columns.get("busy_s")
        at = len(self.time_ns) - 1
        while at > 0 and self.time_ns[-1] - self.time_ns[at] < _IDLE_NS:
            at -= 1
        span_s = (self.time_ns[-1] - self.time_ns[at]) / 1e9 if at >= 0 else 0.0
        if busy is None or span_s * 1e9 < _IDLE_NS:
            return 0.0
        used = (busy[-1] - busy[at]) / span_s
        return 0.0 if math.isnan(used) else (os.cpu_count() or 1) - used

    def _risen(self, name: str, value: float) -> float:
        base = self._base.setdefault(name, value - self._last.get(name, 0.0))
        # Some kernels' counters fall back by a tick now and then.
        self._last[name] = max(value - base, self._last.get(name, 0.0))
        return self._last[name]

    def thin(self) -> None:
        """Keep the first, every second and the last reading; of momentary values keep the greatest."""
        n = len(self.time_ns)
        kept = [*range(0, n - 1, 2), n - 1]
        self.time_ns = array("q", [self.time_ns[at] for at in kept])
        for name, column in self.columns.items():
            if name in RISING:
                self.columns[name] = array("d", [column[at] for at in kept])
            else:
                ends = [*kept[1:], n]
                self.columns[name] = array(
                    "d", [_greatest(column[at:end]) for at, end in zip(kept, ends, strict=True)]
                )

    def as_record(self) -> dict[str, Any]:
        return {
            "time_ns": self.time_ns.tobytes(),
            "columns": {name: column.tobytes() for name, column in self.columns.items()},
            "quota_cpus": self.quota_cpus,
            "memory_limit_bytes": self.memory_limit_bytes,
        }


def _greatest(values: array[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
