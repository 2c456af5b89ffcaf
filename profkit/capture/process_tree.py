"""The target's process tree and its kernel counters, from ``/proc``; nothing is stopped or signalled.

Daemons whose parents are gone are found by session, process group, or the spool in their environment.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from typing import Any

from profkit.capture.agent.process_facts import read_file, read_stat, status_words, switches, words_of
from profkit.capture.proc_files import TICKS, file_budget, last_pid, process_numbers
from profkit.capture.watched_processes import WatchedProcess, WatchedThread

#: Most rows of thread samples, 24 bytes each; beyond, every second one is dropped.
MOST_ROWS = 1 << 17
#: Most threads and processes that are followed; the rest are summed up.
MOST_THREADS = 20_000
MOST_PROCESSES = 5_000
#: Most open files of the tree; reading an open file costs a quarter of opening it too.
MOST_FILES = 4_096
#: Seconds between readings of ``stat`` and ``status`` (10 × ``schedstat``), and their part of one core.
DETAIL_INTERVAL, DETAIL_SHARE = 0.25, 0.0015
#: Readings that look at a new process's name and command again: it may be between fork and exec.
FIRST_LOOKS = 5
#: Seconds between full scans (numbers are reused, daemons set sessions late), and their part of one core.
FULL_SCAN_INTERVAL, FULL_SCAN_SHARE = 10.0, 0.001

_PROC = "/proc"


class ProcessTree:
    """The descendants of `root`, and processes with `marker` (``NAME=value``) in their environment.

    With `running`, what the kernel had counted at the first reading is left out.
    """

    def __init__(self, root: int, marker: str, *, running: bool = False) -> None:
        self._root = root
        self._before = running  # until the first reading is done
        self._marker = os.fsencode(marker) + b"\0"
        self._members: dict[int, WatchedProcess] = {}
        self._gone: list[WatchedProcess] = []
        self._known: set[int] = set()  # processes that were looked at, in the tree or not
        self._young: set[int] = set()  # looked at once: they may be between fork and exec
        self._founders: set[int] = {root}
        self._of_shell = root if running else 0  # a shell may have put others into its group
        self._last_pid = b""
        self._next_scan = self._next_details = 0.0
        self._details_s = 0.0  # CPU seconds of this reading's details
        self._root_born = 0
        self._files = 0
        self._most_files = file_budget(MOST_FILES)
        self._rows = 0
        self._followed = 0
        self._folded = False  # in this scan
        #: Ended processes that were forgotten, their CPU seconds, and the most threads not followed at once.
        self.forgotten_processes = self.unfollowed_threads = 0
        self.forgotten_cpu_s = 0.0
        #: How often the rows were thinned, which halves the resolution of older ones.
        self.thinned = 0
        #: Run time and run-queue wait of all threads, ns.
        self.ran_ns = self.queued_ns = 0
        #: Whether the kernel reports run time and run-queue wait per thread; ``None`` until known.
        self.has_schedstat: bool | None = None

    def __contains__(self, pid: object) -> bool:
        return pid in self._members

    def counts(self) -> tuple[int, int]:
        """Return the numbers of live processes and threads in the tree."""
        return len(self._members), sum(len(process.threads) for process in self._members.values())

    def read(self, *, final: bool = False) -> None:
        """Find new processes and threads, and read all counters; `final` reads every detail."""
        self._discover(final)
        now = time.monotonic()
        details = final or now >= self._next_details
        self._details_s = 0.0
        for process in list(self._members.values()):
            self._read_process(process, details)
        self._before = False
        if details:
            self._next_details = now + max(DETAIL_INTERVAL, self._details_s / DETAIL_SHARE)
        while self._rows > MOST_ROWS:
            before = self._rows
            self.thinned += 1
            self._rows = sum(thread.thin() for process in self._all() for thread in process.every_thread())
            if self._rows > before // 2 + before // 4:  # many threads with a few rows each: nothing to halve
                break

    def close(self) -> None:
        for process in self._members.values():
            for thread in process.threads.values():
                self._files -= thread.close()

    def _discover(self, force: bool) -> None:
        """Find new processes and threads; there are none unless the kernel assigned a new number."""
        newest = last_pid()
        now = time.monotonic()
        if not force and newest and newest == self._last_pid and not self._young:
            return
        self._last_pid = newest
        if not self._root_born:
            self._adopt(self._root)
        try:
            present = process_numbers(_PROC)
        except OSError:
            return
        full = now >= self._next_scan
        begun = time.thread_time()
        if full:
            self._known = set(self._members)
        self._known &= present
        new = sorted((present - self._known) | (self._young & present))
        self._young = set()
        while new:
            outside = [pid for pid in new if not self._adopt(pid)]
            if len(outside) == len(new):
                break
            new = outside  # parents have higher numbers if these wrapped around
        if full:
            took = time.thread_time() - begun
            self._next_scan = now + max(FULL_SCAN_INTERVAL, took / FULL_SCAN_SHARE)
        self._folded, unfollowed = False, 0
        for process in list(self._members.values()):
            unfollowed += self._find_threads(process)
        self.unfollowed_threads = max(self.unfollowed_threads, unfollowed)

    def _adopt(self, pid: int) -> bool:
        first = pid not in self._known
        self._known.add(pid)
        if pid == os.getpid():
            return False  # the target may be the shell that started us
        if pid != self._root:
            self._founders.discard(pid)  # the PID is reused, so no group or session has this ID now
        try:
            name, fields = read_stat(f"{_PROC}/{pid}/stat")
            parent, group, session, born = int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])
        except (OSError, ValueError, IndexError):
            return False
        if pid == self._root:
            self._root_born = born
        elif born < self._root_born:
            return False  # older than the whole tree
        inside = (
            pid == self._root
            or parent in self._members
            or (group in self._founders and group != self._of_shell)
            or session in self._founders
            or self._is_marked(pid)
        )
        if not inside:
            if first:
                self._young.add(pid)
            return False
        if len(self._members) + len(self._gone) >= MOST_PROCESSES:
            self._forget_least()
        process = WatchedProcess(pid, parent, born, name, ns_pid=pid)
        self._members[pid] = process
        self._founders.add(pid)
        self._describe(process, name, fields)
        return True

    def _is_marked(self, pid: int) -> bool:
        try:
            # The marker may be anywhere in a long environment.
            with open(f"{_PROC}/{pid}/environ", "rb") as file:
                return self._marker in file.read(1 << 21)
        except OSError:
            return False  # another user's, or gone

    def _find_threads(self, process: WatchedProcess) -> int:
        """Follow the new threads of a process; return how many are not followed."""
        try:
            names = os.listdir(f"{_PROC}/{process.pid}/task")
        except OSError:
            self._end_process(process)
            return 0
        threads, unfollowed = process.threads, 0
        for name in names:
            tid = int(name)
            if tid not in threads:
                if self._followed >= MOST_THREADS:
                    if not self._folded:
                        self._folded = True
                        self._fold_threads()
                    if self._followed >= MOST_THREADS and tid != process.pid:
                        unfollowed += 1
                        continue
                threads[tid] = WatchedThread(tid)
                self._followed += 1
        process.peak_threads = max(process.peak_threads, len(names))
        return unfollowed

    def _read_process(self, process: WatchedProcess, details: bool) -> None:
        for thread in list(process.threads.values()):
            if not self._read_thread(process, thread, details):
                self._end_thread(process, thread)
                if thread.tid == process.pid:
                    self._end_process(process)
                    return
        if details or process.looks < FIRST_LOOKS:
            process.looks += 1
            with contextlib.suppress(OSError, ValueError, IndexError):
                name, fields = read_stat(f"{_PROC}/{process.pid}/stat")
                if int(fields[19]) == process.born:
                    self._describe(process, name, fields)

    def _read_thread(self, process: WatchedProcess, thread: WatchedThread, details: bool) -> bool:
        """Read a thread's counters; return false if it has ended."""
        try:
            data = self._schedstat(process, thread)
            now_ns = time.monotonic_ns()
            run, wait, slices = map(int, data.split())
        except FileNotFoundError:
            if not os.path.exists(f"{_PROC}/{process.pid}/task/{thread.tid}/stat"):
                return False
            self.has_schedstat = bool(self.has_schedstat)
            now_ns, run, wait, slices = time.monotonic_ns(), -1, -1, -1
        except (OSError, ValueError):
            return False  # ESRCH: it ended
        if run >= 0:
            if self._before:
                thread.before = run, wait, slices
            run, wait, slices = (
                now - then for now, then in zip((run, wait, slices), thread.before, strict=True)
            )
            if run < thread.run_ns:  # another thread with this number
                self._end_thread(process, thread)
                process.threads[thread.tid] = WatchedThread(thread.tid)
                return True
            self.ran_ns += run - max(0, thread.run_ns)
            self.queued_ns += wait - max(0, thread.wait_ns)
            self._rows += thread.note(now_ns, run, wait, slices)
            if run or wait:
                self.has_schedstat = True
        process.first_ns = process.first_ns or now_ns
        process.last_ns = now_ns
        first = thread.details_run == -2
        if first or (details and (thread.details_run != thread.run_ns or run < 0)):
            self._read_details(process, thread, everything=details)
        return True

    def _schedstat(self, process: WatchedProcess, thread: WatchedThread) -> bytes:
        if thread.fd >= 0:
            return os.pread(thread.fd, 96, 0)
        path = f"{_PROC}/{process.pid}/task/{thread.tid}/schedstat"
        if self._files >= self._most_files:
            return read_file(path, 96)
        thread.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._files += 1
        return os.pread(thread.fd, 96, 0)

    def _read_details(self, process: WatchedProcess, thread: WatchedThread, *, everything: bool) -> None:
        begun = time.thread_time()
        base = f"{_PROC}/{process.pid}/task/{thread.tid}/"
        try:
            thread.name, fields = read_stat(base + "stat")
            user, system = int(fields[11]), int(fields[12])
            counts = switches(read_file(base + "status")) if everything else (None, None)
            if self._before:
                thread.details_before = user, system, *counts
            thread.user_s = (user - thread.details_before[0]) / TICKS
            thread.system_s = (system - thread.details_before[1]) / TICKS
            if everything:
                thread.voluntary = _rise(counts[0], thread.details_before[2])
                thread.involuntary = _rise(counts[1], thread.details_before[3])
        except (OSError, ValueError, IndexError):
            return
        thread.details_run = thread.run_ns if everything else -1
        self._details_s += time.thread_time() - begun

    def _describe(self, process: WatchedProcess, name: str, fields: list[bytes]) -> None:
        """Read what a process is, and its totals, which include ended threads."""
        process.alive = fields[0] not in (b"Z", b"X")
        if not process.alive:
            process.gone_ns = process.gone_ns or time.monotonic_ns()
            parent = self._members.get(process.parent)
            if parent is not None and name != process.name and process.command == parent.command:
                process.command = []  # it is from before an unseen exec, after which only the name is known
        process.name = name
        if process.pid in process.threads:
            process.threads[process.pid].name = name
        ticks = int(fields[11]) + int(fields[12])
        if self._before:
            process.cpu_ticks_before = ticks
        process.cpu_s = max(process.cpu_s, (ticks - process.cpu_ticks_before) / TICKS)
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"{_PROC}/{process.pid}/cmdline", "rb") as file:
                words = words_of(file.read(1 << 16))
            if any(words):  # a zombie has none
                process.command = words
            if not process.last_ns:
                numbers = status_words(read_file(f"{_PROC}/{process.pid}/status"), b"NSpid")
                if numbers:
                    process.ns_pid = int(numbers[-1])

    def _end_thread(self, process: WatchedProcess, thread: WatchedThread) -> None:
        self._files -= thread.close()
        process.threads.pop(thread.tid, None)
        if thread.run_ns > 0 or thread.user_s is not None:
            process.ended.append(thread)
        else:
            self._drop([thread])

    def _end_process(self, process: WatchedProcess) -> None:
        for thread in list(process.threads.values()):
            self._end_thread(process, thread)
        process.alive = False
        process.gone_ns = process.gone_ns or time.monotonic_ns()
        if self._members.pop(process.pid, None) is not None:
            self._gone.append(process)
        self._known.discard(process.pid)

    def _forget_least(self) -> None:
        """Sum up the half of the ended processes that used the CPU least."""
        self._gone.sort(key=lambda process: -process.cpu_s)
        kept = len(self._gone) // 2
        for process in self._gone[kept:]:
            self.forgotten_processes += 1
            self.forgotten_cpu_s += process.cpu_s
            self._drop(process.ended)
        del self._gone[kept:]

    def _fold_threads(self) -> None:
        """Sum up the half of the ended threads that used the CPU least, per process."""
        ended = sorted(thread.run_ns for process in self._all() for thread in process.ended)
        if not ended:
            return
        middle = ended[len(ended) // 2]
        for process in self._all():
            folded = [thread for thread in process.ended if thread.run_ns <= middle]
            process.ended = [thread for thread in process.ended if thread.run_ns > middle]
            for thread in folded:
                number, run, wait = process.folded
                process.folded = [number + 1, run + max(0, thread.run_ns), wait + max(0, thread.wait_ns)]
            self._drop(folded)

    def _drop(self, threads: list[WatchedThread]) -> None:
        self._followed -= len(threads)
        self._rows -= sum(len(thread.rows) // 3 for thread in threads)

    def _all(self) -> Iterable[WatchedProcess]:
        yield from self._gone
        yield from self._members.values()

    def as_records(self) -> list[dict[str, Any]]:
        """Return values that `marshal` writes, processes in the order of first sight."""
        seen = (process for process in self._all() if process.first_ns)
        return [process.as_record() for process in sorted(seen, key=lambda p: p.first_ns)]


def _rise(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before
