"""Run-queue wait and off-CPU time of Python functions where no native tracer runs: sampled, up to 50 times a second.

A sample, taken in the ticker's thread, first asks the CPU clock of each thread whether it ran since the last one.
Of a thread that did, it takes what the kernel has counted for it since then (`/proc/self/task/TID/schedstat`), and
charges it to the function that is on top of its stack now, and to those that called it. A thread that did not run is
where it was seen last, so that its sleep is charged there, however long ago that was.

What it cannot see: C functions have no frame, so what they wait is charged to the Python function that called
them (`profkit.capture.tables` divides it among them by their time); and a wait that began and ended between two
samples goes to where the thread was found after it. All of it is charged to some function: the sums are the
kernel's own figures.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from time import perf_counter, thread_time

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    from .tracer import Codes

#: Seconds between two samples, at best and at worst.
PERIOD, LONGEST_PERIOD = 0.02, 0.1

#: Most CPU time that sampling may take, as a part of what the sampled threads use.
SHARE = 0.01

#: Most of the time that the sampling thread may itself be queued for a CPU. While it is, a thread that has handed it
#: the GIL waits: without this, a program among three busy processes on one CPU is slowed by its own observer.
QUEUED_SHARE = 0.05

#: CPU seconds for waking a thread and passing it the GIL and back, which are not on its own clock.
_WAKING_S = 30e-6

#: Weight of the newest value in a running mean.
_NEWEST = 0.2

#: Threads that are read in one sample, as the GIL is held meanwhile: 20 take less than half a millisecond.
_MOST_THREADS = 20

#: Bytes of a schedstat: three decimal numbers of 64 bits.
_SIZE = 80

_clock_gettime: Any = getattr(time, "clock_gettime", None)


class Followed:
    """One thread: its last reading, where it was then, and what has been charged so far."""

    __slots__ = (
        "_at",
        "_base_depth",
        "_clock",
        "_debt",
        "_off",
        "_run",
        "_stack",
        "_sums",
        "_wait",
        "ident",
        "measured",
        "name",
        "tid",
    )

    def __init__(self, ident: int, tid: int, base_depth: int) -> None:
        self.ident = ident
        self.tid = tid
        self.name = ""
        #: Whether a sample has found it in a function.
        self.measured = False
        # As Linux makes a clock id of a thread's id: bit 2 for "a thread", the low bits 2 for CPU time.
        self._clock = (~tid << 3) | 6
        self._base_depth = base_depth
        self._at: Optional[float] = None
        self._run = self._wait = 0.0
        self._off = 0.0  # seconds until the last sample during which it did not run at all
        self._debt = 0.0  # seconds off the CPU that are not charged: negative when clocks disagree a little
        self._stack: List[Any] = []  # code objects, innermost first
        self._sums: Dict[
            int, List[Any]
        ] = {}  # by identity of the code: code, wait, cumwait, blocked, cumblocked

    def begin(self, wait: Optional[float]) -> None:
        """Count from now on; a thread that has just begun needs no call of this."""
        try:
            self._at, self._run, self._wait = perf_counter(), _clock_gettime(self._clock), wait or 0.0
        except OSError:
            pass  # it has ended
        self._off = self._debt = 0.0

    def ran(self, now: float) -> Optional[float]:
        """Return its CPU time if that has grown since the last reading; ``None`` if it slept, or has ended."""
        try:
            run: float = _clock_gettime(self._clock)
        except OSError:
            return None
        if run != self._run or self._at is None:
            return run
        self._off = now - self._at
        return None

    def used(self, run: float) -> float:
        """Return how much CPU time that is since the last reading."""
        return run - self._run

    def find(self, frame: Any) -> List[Any]:
        """Return the codes of its open functions, innermost first, without what was open before tracing."""
        codes = []
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        self._base_depth = min(self._base_depth, len(codes))
        return codes[: len(codes) - self._base_depth]

    def advance(self, now: float, run: float, wait: float, stack: Optional[List[Any]]) -> None:
        """Take a reading, of a thread that is in `stack` now; without one it is believed to be where it was."""
        waited = max(0.0, wait - self._wait)
        if self._at is not None:  # else it was found late: it did not sleep, as far as is known
            self._debt += now - self._at - (run - self._run) - waited
        here = self._stack if stack is None else stack
        blocked = max(0.0, self._debt)
        self._debt -= blocked
        if self._off > 0.0:
            # It was off the CPU when it was last looked at, and slept as far as the kernel says so; if that is less,
            # it was in the queue.
            queued = min(waited, max(0.0, self._off - blocked))
            _charge(self._sums, self._stack, queued, blocked)
            waited -= queued
            blocked = 0.0
        _charge(self._sums, here, waited, blocked)
        self.measured = self.measured or bool(here)
        self._at, self._run, self._wait, self._off, self._stack = now, run, wait, 0.0, here

    def rows(self, codes: Codes) -> List[Tuple[Any, ...]]:
        """Return ``(function, wait, cumwait, blocked, cumblocked)``, a sleep so far included."""
        sums = {key: list(row) for key, row in list(self._sums.items())}
        if self._off > 0.0:
            _charge(sums, self._stack, 0.0, max(0.0, self._off + self._debt))
        rows: Dict[int, List[Any]] = {}
        for code, *seconds in sums.values():
            number = codes.number(code)
            if number not in codes.hidden:
                rows[number] = seconds
        return [(number, *seconds) for number, seconds in rows.items()]


def _charge(sums: Dict[int, List[Any]], stack: List[Any], wait: float, blocked: float) -> None:
    if not stack or not (wait or blocked):
        return
    seen: Set[int] = set()
    for code in stack:
        key = id(code)  # the row keeps the code, so that its address is not used twice
        if key in seen:
            continue  # of a recursive function, once
        row = sums.get(key)
        if row is None:
            row = sums[key] = [code, 0.0, 0.0, 0.0, 0.0]
        if not seen:
            row[1] += wait
            row[3] += blocked
        seen.add(key)
        row[2] += wait
        row[4] += blocked


class Sampling:
    """Takes the samples of one process, and decides how often."""

    def __init__(self, wait_of: Callable[[int], Optional[float]]) -> None:
        self.wait_of = wait_of
        #: How many were taken, in how many seconds, and what they cost: CPU seconds.
        self.samples = 0
        self.cost_s = 0.0
        self.failed = ""
        self._begun = self._last = perf_counter()
        self._period = PERIOD
        self._rate = 1.0  # CPUs that the sampled threads use
        self._took = 0.0
        self._queued = 0.0  # seconds that this thread was queued before a sample
        self._own: Tuple[int, float] = (0, 0.0)
        self._first = 0
        self._busy = _thread.allocate_lock()

    @classmethod
    def possible(cls) -> Optional[Sampling]:
        """Return one where the kernel counts waiting and the interpreter lets a thread look at another."""
        gil = getattr(sys, "_is_gil_enabled", None)
        if _clock_gettime is None or not hasattr(_thread, "get_native_id") or (gil is not None and not gil()):
            return None
        if not os.path.exists("/proc/self/schedstat"):
            return None  # not Linux, or one that keeps no such counters
        tid = _thread.get_native_id()
        try:
            _clock_gettime((~tid << 3) | 6)
        except (OSError, OverflowError):
            return None
        wait_of = _readers[0] if _readers else _wait_reader(_best_read())
        if wait_of(tid) is None:
            return None
        _readers[:] = [wait_of]
        return cls(wait_of)

    @property
    def rate(self) -> float:
        """Samples a second so far."""
        return self.samples / max(PERIOD, self._last - self._begun)

    def look(self, threads: List[Tuple[Followed, bool]], last: bool) -> float:
        """Take a sample of threads, each with whether it counts; return the seconds until the next.

        The `last` one, from any thread, charges to where threads were seen last: it comes when their work is done.
        """
        if not self.failed and self._busy.acquire(False):
            try:
                self._look(threads, last)
            except Exception as error:
                self.failed = repr(error)
            finally:
                self._busy.release()
        return self._period

    def _look(self, threads: List[Tuple[Followed, bool]], last: bool) -> None:
        begun = thread_time()
        found = []
        used = 0.0
        if len(threads) > _MOST_THREADS and not last:
            self._first = (self._first + 1) % len(threads)
            threads = threads[self._first :] + threads[: self._first]
        for followed, counts in threads:
            now = perf_counter()
            if not counts:  # the target's own profiler is on
                followed.begin(self.wait_of(followed.tid))
                continue
            run = followed.ran(now)
            wait = None if run is None else self.wait_of(followed.tid)
            if run is not None and wait is not None:
                used += followed.used(run)
                found.append((followed, now, run, wait))
                if len(found) == _MOST_THREADS and not last:
                    break
        # From here to the last stack nothing releases the GIL: threads are where their counters were read.
        frames = sys._current_frames() if found and not last else {}
        for followed, now, run, wait in found:
            frame = frames.get(followed.ident)
            followed.advance(now, run, wait, None if frame is None else followed.find(frame))
        frame = None
        del frames  # frames keep the target's objects alive
        if not last:
            self._pace(perf_counter(), used, begun)

    def _pace(self, now: float, used: float, begun: float) -> None:
        """Choose the time until the next sample."""
        tid = _thread.get_native_id()
        wait = self.wait_of(tid) or 0.0
        if tid == self._own[0]:
            self._queued += _NEWEST * (wait - self._own[1] - self._queued)
        self._own = tid, wait
        took = thread_time() - begun + _WAKING_S
        self._rate += _NEWEST * (used / max(now - self._last, 1e-6) - self._rate)
        self._took += _NEWEST * (took - self._took)
        self.cost_s += took
        self.samples += 1
        self._last = now
        affordable = self._took / (SHARE * max(self._rate, 1e-3))
        self._period = min(LONGEST_PERIOD, max(PERIOD, affordable, self._queued / QUEUED_SHARE))


def _wait_reader(read: Callable[[bytes], bytes]) -> Callable[[int], Optional[float]]:
    def wait_of(tid: int) -> Optional[float]:
        """Return the seconds that a thread has been queued for a CPU; ``None`` if it has ended."""
        try:
            fields = read(b"/proc/self/task/%d/schedstat" % tid).split()
            return int(fields[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    return wait_of


#: The function that reads, once it is known to work: a forked child shall import nothing.
_readers: List[Callable[[int], Optional[float]]] = []


def _best_read() -> Callable[[bytes], bytes]:
    try:
        return _without_releasing_the_gil()
    except Exception:
        return _read  # a Python without libffi


def _read(path: bytes) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, _SIZE)
    finally:
        os.close(fd)


def _without_releasing_the_gil() -> Callable[[bytes], bytes]:
    """Return a function that reads a file as `_read` does, in one piece.

    What `os` has for it releases the GIL three times, and each time a computing thread of the target takes it and
    keeps it for 5 ms. A descriptor that were kept instead could be closed, and its number used again, by the target.
    """
    known = sys.modules.get("_ctypes")
    module: Any = __import__("_ctypes")
    if known is None:
        sys.modules.pop("_ctypes", None)  # whether the target uses it is asked there
    flags = module.FUNCFLAG_CDECL | module.FUNCFLAG_PYTHONAPI
    number = type("_Int", (module._SimpleCData,), {"_type_": "i"})
    character = type("_Char", (module._SimpleCData,), {"_type_": "c"})
    size = type("_Size", (module._SimpleCData,), {"_type_": "L"})(_SIZE)
    text = type("_Text", (module.Array,), {"_type_": character, "_length_": _SIZE})()
    function = type("_Function", (module.CFuncPtr,), {"_flags_": flags, "_restype_": number})
    here = module.dlopen(None, 2)  # RTLD_NOW
    open_file, read_file, close_file = (
        function(module.dlsym(here, name)) for name in ("open", "read", "close")
    )
    mode = os.O_RDONLY | os.O_CLOEXEC

    def read(path: bytes) -> bytes:
        fd = open_file(path, mode)
        if fd < 0:
            return b""
        got = read_file(fd, text, size)
        close_file(fd)
        found: bytes = text.raw[: max(0, got)]
        return found

    return read
