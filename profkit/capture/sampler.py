"""Samples the target without touching it, in a thread of the launcher, at a rate that follows the cost."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profkit.capture import host, yardsticks
from profkit.capture.agent import process_facts, record_file, settings
from profkit.capture.meters import Meters
from profkit.capture.neighbourhood import Neighbours
from profkit.capture.process_tree import ProcessTree
from profkit.capture.yardsticks import Yardsticks
from profkit.formats.atomic import replacing

SAMPLES_NAME = "sampler.samples"

#: Part of one core that looking may take. 0.01 is promised; the first samples have no known cost yet.
SHARE = 0.005
#: Least seconds between two samples, by the time that the run has lasted, and the most.
PACE = ((5.0, 0.05), (30.0, 0.1), (float("inf"), 0.2))
LONGEST_PERIOD = 2.0
#: Most readings of the machine; beyond, every second one is dropped, and the pace is halved.
MOST_READINGS = 1 << 14
#: Seconds between saves, in case the launcher is killed: the first, and later; and their part of one core.
SAVE_FIRST, SAVE_INTERVAL, SAVE_SHARE = 2.0, 10.0, 0.001
#: Seconds without yardsticks, since the target starts, and CPUs that must be free for work beside it.
YARDSTICKS_FIRST, SPARE_CPUS = 0.25, 0.8
#: Weight of the newest sample in the mean cost.
_NEWEST = 0.2
#: Seconds to wait at the end for the last look.
_LAST_LOOK = 5.0


class Sampler:
    """Samples the process tree of `target` until `finish`, also at `edges` (seconds of ``CLOCK_MONOTONIC``).

    With `running`, what the kernel has counted by now is left out. `yardsticks` are read if a CPU is free.
    """

    def __init__(
        self,
        target: int,
        spool: Path,
        edges: Sequence[float] = (),
        *,
        running: bool = False,
        yardsticks: Yardsticks | None = None,
    ) -> None:
        self._yardsticks = yardsticks
        self._due = time.monotonic() + YARDSTICKS_FIRST
        self._running = running
        self._target = target
        self._spool = spool
        self._edges = edges
        self._bell = _Bell(spool / settings.SAMPLER_BELL)
        self._stopping = False
        self._notes: list[dict[str, Any]] = []
        self._samples = 0
        self._slowdown = 1
        self._cpu_s = 0.0
        self._begin = time.monotonic()
        self._thread: threading.Thread | None = None
        self._unsaved = ""
        self._meters: Meters | None = None
        if not sys.platform.startswith("linux") or not os.path.exists("/proc/self/stat"):
            self._notes.append({"code": "sampler-no-proc"})
            self._save(None)
            return
        self._thread = threading.Thread(target=self._run, name="profkit-sampler", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the user's limit on threads: the run matters more
            self._thread = None
            self._notes.append({"code": "sampler-not-started", "subject": str(error)})
            self._save(None)

    def finish(self) -> list[dict[str, Any]]:
        """Take the last sample, write everything and stop; return notices of what was not written."""
        if self._thread is not None:
            self._stopping = True
            self._bell.ring()
            self._thread.join(_LAST_LOOK)
            if self._thread.is_alive():
                self._unsaved = f"not done after {_LAST_LOOK:g} s"
            self._thread = None
        return [{"code": "samples-not-saved", "subject": self._unsaved}] if self._unsaved else []

    def _run(self) -> None:
        watch = None
        try:
            watch = _Watch(self._target, self._spool, self._running)
            self._meters = watch.meters
            self._watch(watch)
        except Exception as error:  # the target's run must not be lost for this
            self._notes.append({"code": "sampler-stopped", "subject": repr(error)})
        finally:
            with contextlib.suppress(Exception):
                self._save(watch)
                self._bell.close()
                if watch is not None:
                    watch.close()

    def _watch(self, watch: _Watch) -> None:
        cost = 0.0
        last_save, save_interval = self._begin, SAVE_FIRST
        while True:
            final = self._stopping
            begun = time.thread_time()
            watch.look(final=final)
            self._samples += 1
            took = time.thread_time() - begun
            watch.look_around(final=final)  # has its own share of a core
            if not final:
                self._measure_machine()
            if self._samples > 1:  # the first finds everything
                cost = max(took, cost + _NEWEST * (took - cost))  # slower at once, faster little by little
            if final:
                return
            if len(watch.meters) >= MOST_READINGS:
                watch.meters.thin()
                self._slowdown *= 2
            now = time.monotonic()
            if now - last_save >= save_interval:
                begun = time.thread_time()
                self._save(watch)
                last_save = now
                save_interval = max(SAVE_INTERVAL, (time.thread_time() - begun) / SAVE_SHARE)
            until = now + self._period(now - self._begin, cost)
            self._bell.wait(min([until, *(edge for edge in self._edges if edge > now)]) - now)

    def has_cpu_to_spare(self) -> bool:
        """Return whether a CPU was free for a while, since threads that share work are not always ready."""
        if self._meters is None or self._meters.idle_cpus() < SPARE_CPUS:
            return False
        return host.has_free_cpu(host.cpus_to_use())

    def _measure_machine(self) -> None:
        if self._yardsticks is None or time.monotonic() < self._due or not self.has_cpu_to_spare():
            return
        begun = time.thread_time()
        self._yardsticks.read_next()
        self._due = time.monotonic() + (time.thread_time() - begun) / yardsticks.SHARE

    def _period(self, elapsed: float, cost: float) -> float:
        least = next(period for until, period in PACE if elapsed < until) * self._slowdown
        return max(least, min(LONGEST_PERIOD * self._slowdown, cost / SHARE))

    def _save(self, watch: _Watch | None) -> None:
        elapsed = time.monotonic() - self._begin
        if self._thread is not None and threading.current_thread() is self._thread:
            self._cpu_s = time.thread_time()
        record = {
            "host": os.uname().nodename if hasattr(os, "uname") else "",
            "boot": process_facts.boot_id(),
            "root": self._target,
            "period_s": elapsed / self._samples if self._samples else None,
            "samples": self._samples,
            "cpu_s": self._cpu_s,
            "notes": [*self._notes, *(watch.notes() if watch is not None else ())],
            "machine": watch.meters.as_record() if watch is not None else None,
            "processes": watch.tree.as_records() if watch is not None else [],
            "neighbours": watch.neighbours.as_record() if watch is not None else None,
        }
        self._unsaved = ""
        try:  # a slow disk must not keep the sampler waiting
            with replacing(self._spool / SAMPLES_NAME, durable=False) as file:
                file.writelines(
                    record_file.encode(record_file.SAMPLES_MAGIC, settings.SAMPLES_FORMAT, record)
                )
        except OSError as error:
            self._unsaved = error.strerror or str(error)


class _Bell:
    """Ends a wait early: rung by the launcher, or through a pipe by agents at a window's edge."""

    def __init__(self, path: Path) -> None:
        self._event = threading.Event()
        try:
            # Also for writing: a pipe without a writer is always readable.
            self._pipe = os.open(path, os.O_RDWR | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            self._pipe = -1  # no windows are captured

    def ring(self) -> None:
        self._event.set()
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"\n")

    def wait(self, seconds: float) -> None:
        if self._pipe < 0:
            self._event.wait(seconds)
        elif not self._event.is_set() and select.select([self._pipe], [], [], max(0.0, seconds))[0]:
            with contextlib.suppress(OSError):
                os.read(self._pipe, 1 << 16)

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


class _Watch:
    """What is read, and in which order."""

    def __init__(self, target: int, spool: Path, running: bool) -> None:
        self.tree = ProcessTree(target, f"{settings.SPOOL_VARIABLE}={spool}", running=running)
        self.meters = Meters(target)
        self.neighbours = Neighbours(target)

    def look(self, *, final: bool) -> None:
        self.meters.find_cgroup()
        self.tree.read(final=final)
        self.meters.read(time.monotonic_ns(), *self.tree.counts(), self.tree, final=final)

    def look_around(self, *, final: bool) -> None:
        tree, busy = self.tree, self.meters.columns.get("busy_s")
        self.neighbours.look(
            tree, tree.queued_ns / 1e9, tree.ran_ns / 1e9, busy[-1] if busy else None, final=final
        )

    def notes(self) -> list[dict[str, Any]]:
        """Return notices of what was not seen, in JSON form, since their class needs numpy."""
        tree = self.tree
        found: list[dict[str, Any]] = list(self.meters.notes)
        if tree.has_schedstat is False:
            found.append({"code": "sampler-no-schedstat"})
        if tree.thinned:
            found.append({"code": "samples-thinned", "numbers": {"times": tree.thinned}})
        if tree.forgotten_processes:
            numbers = {"processes": tree.forgotten_processes, "cpu_s": tree.forgotten_cpu_s}
            found.append({"code": "processes-not-listed", "numbers": numbers})
        if tree.unfollowed_threads:
            found.append({"code": "threads-not-followed", "numbers": {"threads": tree.unfollowed_threads}})
        return found

    def close(self) -> None:
        self.tree.close()
        self.meters.close()
