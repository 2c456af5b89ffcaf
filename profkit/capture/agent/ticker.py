"""A background thread that calls one function now and then, unseen by the target and by its profilers.

It is started without ``threading`` (so `threading.enumerate` does not list it) and is gone while a process
forks. From Python 3.12 on two more things are needed. cProfile then receives the events of *every* thread into
one stack, so a thread of ours that ran ordinary Python would corrupt it: the thread's work is done inside a
`sys.monitoring` callback, where CPython raises no further events. And `os.fork` warns when the process has a
second thread: the thread is joined before a fork and comes back at the first instruction after it.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from typing import Any, Callable, Optional

from . import settings

_MONITORING: Any = getattr(sys, "monitoring", None)

#: Tools with a higher number are called first, and cProfile is tool 2: above it we run before it sees the event.
_TOOLS = (4, 3, 5)

#: Seconds to wait for the thread before a fork; a fork must not hang on a stuck file system.
_JOIN_TIMEOUT = 2.0

#: Seconds to wait until the kernel has forgotten a joined thread.
_GONE_TIMEOUT = 0.05


class Ticker:
    """Calls ``tick()`` again and again; what it returns is the time until the next call, in seconds."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._due = 0.0
        self._stop: Any = None
        self._done: Any = None
        self._tid: Optional[int] = None

    @property
    def tid(self) -> Optional[int]:
        """Kernel's id of the thread, for leaving it out of what is recorded of the target."""
        return self._tid

    def start(self) -> bool:
        """Start the thread; False where the interpreter leaves no way to do so unseen."""
        if self._stop is not None:
            return True
        if not self._due:
            self._due = time.monotonic() + settings.SHORTEST_INTERVAL
        stop, done = _thread.allocate_lock(), _thread.allocate_lock()
        stop.acquire()
        done.acquire()
        self._stop, self._done = stop, done
        try:
            if _MONITORING is None:
                _thread.start_new_thread(self._run, (stop, done))
                return True
            if self._start_unobserved(lambda: self._run(stop, done)):
                return True
        except RuntimeError:
            pass  # no thread can be started (a limit of the process, or it is shutting down)
        self._stop = self._done = None
        return False

    def stop(self) -> None:
        """Wait for a tick in progress and end the thread; it can be started again."""
        if self._stop is None:
            return
        self._stop.release()
        finished = self._done.acquire(True, _JOIN_TIMEOUT)
        self._stop = self._done = None
        if finished and self._tid is not None and _MONITORING is not None:
            deadline = time.monotonic() + _GONE_TIMEOUT
            while os.path.exists("/proc/self/task/%d" % self._tid) and time.monotonic() < deadline:
                time.sleep(0.0001)

    def forget(self) -> None:
        """In a forked child: the thread is not there, nor are its locks worth anything."""
        self._stop = self._done = self._tid = None
        self._due = 0.0

    def start_after(self, frame: Any) -> None:
        """Start at the next instruction of `frame`, the one that has called `os.fork`."""
        tool = _free_tool()
        if _MONITORING is None or frame is None or tool is None:
            self.start()
            return
        events = _MONITORING.events

        def resume(code: Any, _offset: int) -> None:
            _release_tool(tool, code, events.INSTRUCTION)
            self.start()

        _MONITORING.use_tool_id(tool, "profkit")
        _MONITORING.register_callback(tool, events.INSTRUCTION, resume)
        _MONITORING.set_local_events(tool, frame.f_code, events.INSTRUCTION)

    def _run(self, stop: Any, done: Any) -> None:
        self._tid = _thread.get_native_id()
        try:
            while not stop.acquire(True, max(0.0, self._due - time.monotonic())):
                delay = settings.LONGEST_INTERVAL
                try:
                    delay = self._tick()
                except Exception:
                    pass  # a snapshot that fails must not show in the target; the next one may succeed
                self._due = time.monotonic() + delay
        finally:
            done.release()

    @staticmethod
    def _start_unobserved(work: Callable[[], None]) -> bool:
        tool = _free_tool()
        if tool is None:
            return False
        events = _MONITORING.events
        entered = _thread.allocate_lock()
        entered.acquire()

        def carrier() -> None:
            """Exists for the event at its start, in which the work is done."""

        def on_start(code: Any, _offset: int) -> None:
            _release_tool(tool, code, events.PY_START)
            entered.release()
            work()

        _MONITORING.use_tool_id(tool, "profkit")
        _MONITORING.register_callback(tool, events.PY_START, on_start)
        _MONITORING.set_local_events(tool, carrier.__code__, events.PY_START)
        try:
            _thread.start_new_thread(carrier, ())
        except RuntimeError:
            _release_tool(tool, carrier.__code__, events.PY_START)
            raise
        entered.acquire()
        return True


def _free_tool() -> Optional[int]:
    if _MONITORING is None:
        return None
    for tool in _TOOLS:
        if _MONITORING.get_tool(tool) is None:
            return tool
    return None


def _release_tool(tool: int, code: Any, event: int) -> None:
    _MONITORING.set_local_events(tool, code, 0)
    _MONITORING.register_callback(tool, event, None)
    _MONITORING.free_tool_id(tool)
