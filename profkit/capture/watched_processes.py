"""What the sampler knows of a process and its threads while it follows them; imports no numpy."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, field
from typing import Any

#: What is recorded as it stands.
_OF_THREAD = (
    *("tid", "name", "run_ns", "wait_ns", "timeslices", "user_s", "system_s"),
    *("voluntary", "involuntary"),
)
_OF_PROCESS = (
    *("pid", "ns_pid", "parent", "born", "cpu_s", "first_ns", "last_ns", "gone_ns", "peak_threads"),
    *("alive", "folded"),
)


@dataclass(slots=True, eq=False)
class WatchedThread:
    """One thread's counters since the first reading (``before``), named as in `record_types.SeenThread`.

    ``rows`` are triples (time, run, wait).
    """

    tid: int
    name: str = ""
    run_ns: int = -1
    wait_ns: int = -1
    timeslices: int = -1
    user_s: float | None = None
    system_s: float | None = None
    voluntary: int | None = None
    involuntary: int | None = None
    rows: array[int] = field(default_factory=lambda: array("q"))
    fd: int = -1
    details_run: int = -2
    unchanged_ns: int = 0
    before: tuple[int, int, int] = (0, 0, 0)
    details_before: tuple[int, int, int | None, int | None] = (0, 0, 0, 0)

    def note(self, now_ns: int, run: int, wait: int, slices: int) -> int:
        """Take a reading; return the rows it took. An unchanged one is written only before a change."""
        if run == self.run_ns and wait == self.wait_ns:
            self.unchanged_ns = now_ns
            return 0
        added = 1
        if self.unchanged_ns:
            self.rows.extend((self.unchanged_ns, self.run_ns, self.wait_ns))
            self.unchanged_ns = 0
            added = 2
        self.rows.extend((now_ns, run, wait))
        self.run_ns, self.wait_ns, self.timeslices = run, wait, slices
        return added

    def thin(self) -> int:
        """Keep the first, every second and the last row; return how many are left."""
        rows, n = self.rows, len(self.rows) // 3
        if n > 3:
            kept = array("q")
            for at in (*range(0, n - 1, 2), n - 1):
                kept.extend(rows[3 * at : 3 * at + 3])
            self.rows = kept
        return len(self.rows) // 3

    def close(self) -> bool:
        """Close the open counter; return whether there was one."""
        if self.fd < 0:
            return False
        os.close(self.fd)
        self.fd = -1
        return True

    def as_record(self) -> dict[str, Any]:
        """Return values that `marshal` writes; the rows with the last reading if that was left out as unchanged."""
        last = (self.unchanged_ns, self.run_ns, self.wait_ns) if self.unchanged_ns else ()
        known = {name: getattr(self, name) for name in _OF_THREAD}
        known["run_before_ns"], known["wait_before_ns"], _ = self.before
        return {**known, "rows": self.rows.tobytes() + array("q", last).tobytes()}


@dataclass(slots=True, eq=False)
class WatchedProcess:
    """One process of the tree, and its threads, ended ones too, named as in `record_types.SeenProcess`.

    ``looks`` counts its descriptions; ``folded`` are the sums of ended threads.
    """

    pid: int
    parent: int
    born: int
    name: str
    ns_pid: int
    command: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    cpu_ticks_before: int = 0
    first_ns: int = 0
    last_ns: int = 0
    gone_ns: int = 0
    looks: int = 0
    peak_threads: int = 0
    alive: bool = True
    threads: dict[int, WatchedThread] = field(default_factory=dict)
    ended: list[WatchedThread] = field(default_factory=list)
    folded: list[int] = field(default_factory=lambda: [0, 0, 0])

    def every_thread(self) -> list[WatchedThread]:
        return [*self.ended, *self.threads.values()]

    def as_record(self) -> dict[str, Any]:
        known = {name: getattr(self, name) for name in _OF_PROCESS}
        threads = [thread.as_record() for thread in self.every_thread()]
        return {**known, "command": self.command or [self.name], "threads": threads}
