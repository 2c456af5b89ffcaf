"""The kernel's counters of a running command, read from outside: what decides whether a run was really contended.

Independent of what profkit records: this is the yardstick. A process that lives shorter than one reading is missed.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

#: Between two readings. One takes two or three milliseconds.
PERIOD_S = 0.1
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU seconds of all CPUs since boot, idle and stolen time left out."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq = map(int, words[1:8])
    return (user + nice + system + irq + softirq) * _TICK_S


def throttling(group: Path | None) -> float:
    """Throttled part of a cgroup's periods."""
    if group is None:
        return 0.0
    fields = dict(line.split(" ", 1) for line in (group / "cpu.stat").read_text().splitlines())
    periods = int(fields.get("nr_periods", 0))
    return int(fields.get("nr_throttled", 0)) / periods if periods else 0.0


def wait_until_idle(most: float, patience_s: float) -> float:
    """Wait until all others use less than so many cores; returns what they used last."""
    until = time.monotonic() + patience_s
    while True:
        before, begin = busy_seconds(), time.monotonic()
        time.sleep(0.2)
        used = (busy_seconds() - before) / (time.monotonic() - begin)
        if used <= most or time.monotonic() > until:
            return used


def cpu_seconds(pids: list[int]) -> float:
    """CPU seconds that processes have used; those that are gone count nothing."""
    total = 0.0
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(words[11]) + int(words[12])) * _TICK_S
    return total


def _children() -> dict[int, list[int]]:
    """Processes by their parent."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found.setdefault(int(words[1]), []).append(int(name))
    return found


class Watch:
    """Reads run and wait times of all threads below a process, again and again, until it is left.

    Attributes
    ----------
    target_pids
        Processes of the target that lived at the last reading.
    """

    def __init__(self, root: int, script: str) -> None:
        self.target_pids: list[int] = []
        self._root, self._script = root, script
        self._seen: dict[tuple[int, int], tuple[bool, int, int]] = {}
        self._is_target: dict[int, bool] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def total(self, *, target: bool) -> tuple[float, float]:
        """Seconds run and waited, of the target only or of the capturing command too."""
        rows = [row for row in self._seen.values() if row[0] or not target]
        return sum(row[1] for row in rows) * 1e-9, sum(row[2] for row in rows) * 1e-9

    def by_process(self) -> list[tuple[int, int, float, float, float, float]]:
        """The target's processes: pid, threads seen, seconds run and waited, and those of its first thread."""
        found: dict[int, list[float]] = {}
        for (pid, tid), (target, run, wait) in sorted(self._seen.items()):
            if target:
                row = found.setdefault(pid, [0, 0.0, 0.0, 0.0, 0.0])
                row[0] += 1
                row[1] += run * 1e-9
                row[2] += wait * 1e-9
                if tid == pid:
                    row[3:] = [run * 1e-9, wait * 1e-9]
        return [
            (pid, int(row[0]), *(round(v, 4) for v in row[1:]))  # type: ignore[misc]
            for pid, row in found.items()
        ]

    def _loop(self) -> None:
        while not self._over.wait(PERIOD_S):
            self._read()

    def _read(self) -> None:
        alive = []
        below, queue = _children(), [(self._root, False)]
        while queue:
            pid, within = queue.pop()
            target = within or self._target(pid)
            queue += [(child, target) for child in below.get(pid, ())]
            try:
                tids = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            if target:
                alive.append(pid)
            for tid in tids:
                try:
                    run, wait = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[:2]
                except (OSError, ValueError):
                    continue
                self._seen[pid, int(tid)] = (target, int(run), int(wait))
        self.target_pids = alive

    def _target(self, pid: int) -> bool:
        """Whether a process runs the program's script itself, rather than profkit or mpirun that starts it.

        What that one starts belongs to it.
        """
        known = self._is_target.get(pid)
        if known:
            return True
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        self._is_target[pid] = words[1:2] == [self._script.encode()] and b"python" in words[0]
        return self._is_target[pid]
