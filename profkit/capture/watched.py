"""One process and one thread of the target as the sampler follows them: counters so far, and stored rows.

Plain, growing data of `process_tree`, which reads; this module adds a reading, and gives the packer its data.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from typing import Any

from profkit.capture.proc_files import TICKS


class WatchedThread:
    """One thread's counters so far; ``rows`` is a flat sequence of time, run and wait.
    ``before`` and ``details_before`` are the kernel's counts when the tree was first read, which the counters
    exclude: run, wait and slices; user, system, voluntary and involuntary switches."""

    __slots__ = (
        "before",
        "born",
        "details_before",
        "details_run",
        "fd",
        "involuntary",
        "name",
        "rows",
        "run",
        "slices",
        "system",
        "tid",
        "unchanged_ns",
        "user",
        "voluntary",
        "wait",
    )

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.born = 0
        self.name = ""
        self.fd = -1
        self.run = self.wait = self.slices = -1
        self.details_run = -2
        self.unchanged_ns = 0
        self.user: int | None = None
        self.system: int | None = None
        self.voluntary: int | None = None
        self.involuntary: int | None = None
        self.rows = array("q")
        self.before = (0, 0, 0)
        self.details_before: tuple[int, int, int | None, int | None] = (0, 0, 0, 0)

    def note(self, now_ns: int, run: int, wait: int, slices: int) -> int:
        """Take a reading; return how many rows it took. An unchanged one is written only before a change."""
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


class WatchedProcess:
    """One process of the tree and its threads, ended threads included."""

    __slots__ = (
        "alive",
        "born",
        "command",
        "cpu_ticks",
        "cpu_ticks_before",
        "ended",
        "first_ns",
        "folded_run",
        "folded_threads",
        "folded_wait",
        "gone_ns",
        "last_ns",
        "looks",
        "name",
        "ns_pid",
        "parent",
        "peak_threads",
        "pid",
        "threads",
        "zombie",
    )

    def __init__(self, pid: int, parent: int, born: int, name: str) -> None:
        self.pid = self.ns_pid = pid
        self.parent, self.born, self.name = parent, born, name
        self.command: list[str] = []
        self.cpu_ticks = self.cpu_ticks_before = 0
        self.first_ns = self.last_ns = 0
        self.gone_ns = 0  # when it was first seen to have ended
        self.looks = 0  # how often it was described since it was found
        self.peak_threads = 0
        self.alive = True
        self.zombie = False
        self.threads: dict[int, WatchedThread] = {}
        self.ended: list[WatchedThread] = []
        self.folded_threads = self.folded_run = self.folded_wait = 0


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
    """Return the rows with the last reading, if that was left out as unchanged."""
    if not thread.unchanged_ns:
        return thread.rows.tobytes()
    return thread.rows.tobytes() + array("q", (thread.unchanged_ns, thread.run, thread.wait)).tobytes()
