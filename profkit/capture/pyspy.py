"""Runs py-spy on processes whose Python cannot be asked to run the agent.

One py-spy reads each process, without stopping it (``--nonblocking``). If py-spy itself followed children, it
would list all of ``/proc`` ten times a second.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.sampled_stacks import Stacks, joined, lost_share, read_stacks, threads_of
from profkit.model import Thread

#: Part of one CPU that all py-spys together may take.
SHARE = 0.02
#: Seconds of a reading, per process and thread: 0.08 ms with two frames, 0.2 ms with 13, 0.7 ms with 53,
#: 0.016 ms if not Python's (py-spy 0.4.3, Python 3.11, AMD EPYC of family 25, model 17).
_PROCESS_S, _THREAD_S = 1e-4, 2e-4
#: Most readings a second, and the least that py-spy accepts.
_MOST_HZ, _LEAST_HZ = 100, 1
#: Least seconds that a py-spy reads, and least readings in them; two more are in no file.
_LEAST_S, _LEAST_READINGS = 2.0, 5
#: Seconds of its share that py-spy may take in advance.
_AHEAD_S = 5.0
#: Fruitless starts of py-spy for a process: a new process has no interpreter yet.
_ATTEMPTS = 3
#: Seconds for py-spy to write its file, which it does at its next reading.
_PATIENCE_S = 30.0
#: Seconds beyond the requested time after which py-spy, or an agent, ends by itself, in case profkit is killed.
LONGER_S = 60.0
_FAILED = re.compile(r"Errors: (\d+)")


def sampler_command() -> str | None:
    """Return py-spy beside this interpreter, else on the path; ``None`` if it is not installed."""
    return shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")


def _rate(cost_s: float) -> int:
    """Return how many readings of this cost can be made a second."""
    return min(_MOST_HZ, max(_LEAST_HZ, int(SHARE / max(cost_s, 1e-9))))


def _tasks(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


@dataclass(frozen=True, slots=True)
class Sampled:
    """What all py-spys have seen; `lost` is the share of failed or torn readings, `share` that of a CPU."""

    threads: Mapping[int, tuple[Thread, ...]]
    lost: Mapping[int, float]
    problems: Mapping[str, Sequence[int]]
    rate_hz: float
    share: float


class Sampling:
    """Reads processes until `finish`, after about `duration_s`; `command` is py-spy."""

    def __init__(self, command: str, directory: Path, duration_s: float) -> None:
        self._command = command
        self._directory = directory
        self._begin = time.monotonic()
        self._duration_s = duration_s
        self._ahead_s = min(_AHEAD_S, duration_s / 5)
        self._running: dict[int, _Spy] = {}
        self._ended: dict[int, list[_Spy]] = {}
        self._present: dict[int, float] = {}
        self._spent_s = 0.0
        #: The planned readings of a process a second; 0 if there is none to read.
        self.rate_hz = 0
        self._raised = self._pausing = False

    def look(self, pids: Collection[int]) -> None:
        """Read these processes from now on, within the budget; call it several times a second."""
        self._reap()
        self._present |= dict.fromkeys(pids, time.monotonic())
        spent = self._spent_s + sum(spy.cpu_s() for spy in self._running.values())
        elapsed = time.monotonic() - self._begin
        least = max(_LEAST_S, _LEAST_READINGS / self.rate_hz) if self.rate_hz else 0.0
        if self._running and not self._pausing:
            too_little = elapsed >= least and spent < SHARE * elapsed / 2
            self._pausing = spent > SHARE * (elapsed + self._ahead_s) or (too_little and not self._raised)
            self._raised |= self._pausing
        if self._pausing:
            for spy in self._running.values():
                if spy.seconds >= least:
                    spy.stop()
            if self._running or spent > SHARE * elapsed or elapsed + least > self._duration_s:
                return
            self._pausing = False
            self.rate_hz = _rate(sum(map(self._reading_s, pids)))
        new = [pid for pid in pids if pid not in self._running and self._is_worth(pid)]
        if new and not self.rate_hz:
            self.rate_hz = _rate(sum(map(self._reading_s, new)))
        longest = self._begin + self._duration_s + LONGER_S - time.monotonic()
        for pid in new:
            output = self._directory / f"stacks-{pid}-{len(self._ended.get(pid, ()))}.json"
            self._running[pid] = _Spy(self._command, pid, self.rate_hz, output, longest)

    def finish(self) -> Sampled:
        """Make every py-spy write its file; return what they have seen."""
        for spy in self._running.values():
            spy.stop()
        elapsed = time.monotonic() - self._begin
        deadline = time.monotonic() + _PATIENCE_S
        while self._running and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        for spy in self._running.values():
            spy.kill()
        self._reap()
        threads, lost, problems = {}, {}, dict[str, list[int]]()
        rounds, seconds = 0, 0.0
        for pid, spies in self._ended.items():
            stacks = joined([spy.stacks for spy in spies])
            if not stacks.rounds:
                if _tasks(pid):  # else it ended too soon
                    said = next((spy.problem for spy in spies if spy.problem), "no sample in that time")
                    problems.setdefault(said, []).append(pid)
                continue
            rounds += stacks.rounds
            tids = {thread: tid for spy in spies for thread, tid in spy.tids.items()}
            lived = self._present[pid] - spies[0].begin
            seconds += lived
            threads[pid] = threads_of(stacks, lived, tids)
            lost[pid] = lost_share(stacks)
        rate = round(rounds / seconds, 1) if seconds else 0.0
        return Sampled(threads, lost, problems, rate, self._spent_s / max(elapsed, 1e-9))

    def _reading_s(self, pid: int) -> float:
        ended = self._ended.get(pid)
        return ended[-1].reading_s() if ended else _PROCESS_S + _THREAD_S * len(_tasks(pid))

    def _is_worth(self, pid: int) -> bool:
        ended = self._ended.get(pid, ())
        return len(ended) < _ATTEMPTS or any(spy.stacks.rounds for spy in ended)

    def _reap(self) -> None:
        for pid, spy in [*self._running.items()]:
            if spy.has_ended():
                self._spent_s += spy.cpu_s()
                self._ended.setdefault(pid, []).append(self._running.pop(pid))


class _Spy:
    def __init__(self, command: str, pid: int, rate: int, output: Path, longest_s: float) -> None:
        self._pid = pid
        self._output = output
        self._log = output.with_suffix(".log")
        self._cpu_s: float | None = None
        self.begin = time.monotonic()
        self.stacks = Stacks({}, 0)
        self.tids: dict[str, int] = {}
        self.problem = ""
        words = ["record", "--pid", str(pid), "--nonblocking", "--rate", str(rate)]
        words += ["--duration", str(int(longest_s) + 1), "--format", "speedscope", "--output", str(output)]
        words += ["--idle", "--function", "--full-filenames"]
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C is for the launcher, which then asks it to end.
            self._process = subprocess.Popen(
                [command, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        # The CPU clock of another process (clock_getcpuclockid(3)).
        self._clock = (~self._process.pid << 3) | 2

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def cpu_s(self) -> float:
        if self._cpu_s is None:
            with contextlib.suppress(OSError):
                return time.clock_gettime(self._clock)
        return self._cpu_s or 0.0

    def reading_s(self) -> float:
        """Return the CPU time of a reading; two are in no file, one before the first and one at the end."""
        return self.cpu_s() / (self.stacks.rounds + self.stacks.failed + 2)

    def stop(self) -> None:
        """Ask it to end, which it does at its next reading; that reading is lost."""
        os.kill(self._process.pid, signal.SIGINT)  # Popen.send_signal would reap it

    def kill(self) -> None:
        """End it without a file."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._end(os.wait4(self._process.pid, 0))
        self.problem = f"no message within {_PATIENCE_S:g} s"

    def has_ended(self) -> bool:
        """Return whether it has ended; its output has then been read."""
        if self._process.returncode is None:
            done = os.wait4(self._process.pid, os.WNOHANG)
            if done[0] == 0:
                return False
            self._end(done)
            self._read()
        return True

    def _end(self, done: tuple[int, int, resource.struct_rusage]) -> None:
        _, status, usage = done
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._cpu_s = usage.ru_utime + usage.ru_stime

    def _read(self) -> None:
        log = self._log.read_text(encoding="utf-8", errors="replace")
        if self._output.is_file() and self._output.stat().st_size:
            failed = _FAILED.search(log)
            try:
                self.stacks = read_stacks(self._output, int(failed[1]) if failed else 0)
            except (OSError, ValueError) as error:
                self.problem = str(error)
            self.tids = _native_numbers(self._pid, self.stacks)
            return
        lines = [line for line in log.splitlines() if line.strip() and not line.startswith("py-spy>")]
        if lines:
            self.problem = lines[0].removeprefix("Error: ").strip()
        elif self._process.returncode != -signal.SIGINT:  # else it was asked to end before it had begun
            self.problem = f"it ended with status {self._process.returncode}"


def _native_numbers(pid: int, stacks: Stacks) -> dict[str, int]:
    """Return the kernel's thread numbers; up to Python 3.10 py-spy gives addresses of thread descriptors."""
    found = {thread: int(thread) for thread in stacks.threads if thread.isdecimal()}
    addresses = [thread for thread in stacks.threads if thread not in found]
    alive = {int(task) for task in _tasks(pid)}
    offset = _offset_of_number() if addresses else None
    if offset is not None:
        with (
            contextlib.suppress(OSError, OverflowError),
            open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
        ):
            for thread in addresses:
                with contextlib.suppress(OSError):
                    data = os.pread(memory.fileno(), 4, int(thread, 16) + offset)
                    number = int.from_bytes(data, sys.byteorder)
                    if number in alive:
                        found[thread] = number
    main = [thread for thread in addresses if stacks.threads[thread][0] == "MainThread"]
    if len(main) == 1:
        found[main[0]] = pid
    return found


@functools.cache
def _offset_of_number() -> int | None:
    """Return the offset of the kernel's number in a C library's thread descriptor, found in our own."""
    found: list[int] = []

    def look() -> None:
        number = threading.get_native_id().to_bytes(4, sys.byteorder)
        with contextlib.suppress(OSError), open("/proc/self/mem", "rb", buffering=0) as memory:
            descriptor = os.pread(memory.fileno(), 1024, threading.get_ident())
            found.extend(at for at in range(0, len(descriptor), 4) if descriptor[at : at + 4] == number)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0] if found else None
