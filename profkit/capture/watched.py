"""One process and one thread of the target as the sampler follows them: data of `process_tree`."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from profkit.capture.proc_files import TICKS


@dataclass(slots=True, eq=False)
class WatchedThread:
    """One thread's counters since the first reading (``before``); ``rows`` are triples (time, run, wait)."""

    tid: int
    born: int = 0
    name: str = ""
    fd: int = -1
    run: int = -1
    wait: int = -1
    slices: int = -1
    details_run: int = -2
    unchanged_ns: int = 0
    user: int | None = None
    system: int | None = None
    voluntary: int | None = None
    involuntary: int | None = None
    rows: array[int] = field(default_factory=lambda: array("q"))
    before: tuple[int, int, int] = (0, 0, 0)
    details_before: tuple[int, int, int | None, int | None] = (0, 0, 0, 0)

    def note(self, now_ns: int, run: int, wait: int, slices: int) -> int:
        """Take a reading; return the rows it took. An unchanged one is written only before a change."""
        if run == self.run and wait == self.wait:
            self.unchanged_ns = now_ns
            return 0
        added = 1
        if self.unchanged_ns:
            self.rows.extend((self.unchanged_ns, self.run, self.wait))
            self.unchanged_ns = 0
            added = 2
        self.rows.extend((now_ns, run, wait))
        self.run, self.wait, self.slices = run, wait, slices
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


@dataclass(slots=True, eq=False)
class WatchedProcess:
    """One process of the tree, and its threads, ended ones too; ``looks`` counts its descriptions."""

    pid: int
    parent: int
    born: int
    name: str
    ns_pid: int
    command: list[str] = field(default_factory=list)
    cpu_ticks: int = 0
    cpu_ticks_before: int = 0
    first_ns: int = 0
    last_ns: int = 0
    gone_ns: int = 0
    looks: int = 0
    peak_threads: int = 0
    alive: bool = True
    zombie: bool = False
    threads: dict[int, WatchedThread] = field(default_factory=dict)
    ended: list[WatchedThread] = field(default_factory=list)
    folded_threads: int = 0
    folded_run: int = 0
    folded_wait: int = 0


def every_thread(process: WatchedProcess) -> Iterable[WatchedThread]:
    yield from process.ended
    yield from process.threads.values()


def _seconds(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS


def process_record(process: WatchedProcess) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "ns_pid": process.ns_pid,
        "parent": process.parent,
        "born": process.born,
        "command": process.command or [process.name],
        "cpu_s": process.cpu_ticks / TICKS,
        "first_ns": process.first_ns,
        "last_ns": process.last_ns,
        "gone_ns": process.gone_ns,
        "peak_threads": process.peak_threads,
        "alive": process.alive and not process.zombie,
        "folded": [process.folded_threads, process.folded_run, process.folded_wait],
        "threads": [
            {
                "tid": thread.tid,
                "name": thread.name,
                "run_ns": thread.run,
                "wait_ns": thread.wait,
                "timeslices": thread.slices,
                "user_s": _seconds(thread.user),
                "system_s": _seconds(thread.system),
                "voluntary": thread.voluntary,
                "involuntary": thread.involuntary,
                "rows": _all_rows(thread),
            }
            for thread in every_thread(process)
        ],
    }


def _all_rows(thread: WatchedThread) -> bytes:
    """Return the rows, with the last reading if that was left out as unchanged."""
    if not thread.unchanged_ns:
        return thread.rows.tobytes()
    return thread.rows.tobytes() + array("q", (thread.unchanged_ns, thread.run, thread.wait)).tobytes()
