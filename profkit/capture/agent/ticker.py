"""Run one function periodically in a background thread that the target and its profilers do not see.

From Python 3.12 on, cProfile takes all threads' events into one stack, so the work is done in a
`sys.monitoring` callback, which makes no events; and `os.fork` warns of threads, so ours is joined before a
fork and restarted after it. Several threads may fork at once: nothing here waits for a lock that another
thread may hold.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
from time import monotonic, sleep  # bound now: the target may replace what the module `time` holds

from . import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

_MONITORING: Any = getattr(sys, "monitoring", None)

#: Tools with higher numbers are called first; above 2 (cProfile) we run before it sees the event.
_TOOLS = (4, 3, 5)

#: The modules `gc` and `itertools`, private until the target imports them.
_modules: List[Any] = []

#: Seconds until the first call.
_FIRST = 0.05

#: Seconds to wait for the thread before a fork, which must not hang on a stuck file system.
_JOIN_TIMEOUT = 2.0

#: Seconds to wait until a new thread runs; it always does, unless the process is being torn down.
_ENTER_TIMEOUT = 2.0

#: Seconds to wait until the kernel has forgotten a joined thread.
_GONE_TIMEOUT = 0.05


class Ticker:
    """Calls ``tick()`` repeatedly; it returns the seconds until the next call."""

    def __init__(self, tick: Callable[[], float], native: Any) -> None:
        """Take the native tracer, whose ``Bell`` is a lock that can also wake the waiting thread for a tick."""
        self._tick = tick
        self._native = native
        self.forget()

    def forget(self) -> None:
        """Drop the parent's threads, locks and tools, in a forked child."""
        for tool, (code, event) in getattr(self, "_tools", {}).items():
            _release_tool(tool, code, event)
        _Collections.put_back()
        self._tools: Dict[int, Tuple[Any, int]] = {}
        self._running: List[Tuple[Any, Any]] = []
        self._starting = _thread.allocate_lock()
        self._tid: Optional[int] = None
        #: All kernel ids of the thread, which is a new one after each fork, so that records leave them out.
        self.tids: Set[int] = set()
        self._due = 0.0
        #: Whether the thread cannot run unseen.
        self.failed = False

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._running or not self._starting.acquire(False):
            return  # in the second case another thread is starting it
        try:
            if not self._due:
                self._due = monotonic() + _FIRST
            stop, done = self._native.Bell(), _thread.allocate_lock()
            done.acquire()
            try:
                self.failed = not self._start_thread(stop, done)
            except RuntimeError:
                self.failed = True  # a limit of the process, or the interpreter is shutting down
            if not self.failed:
                self._running.append((stop, done))
        finally:
            self._starting.release()

    def stop(self) -> None:
        """Wait for a tick in progress and end the thread; it can be started again."""
        try:
            stop, done = self._running.pop()  # atomic: another thread may be about to fork, too
        except IndexError:
            return
        stop.release()
        finished = done.acquire(True, _JOIN_TIMEOUT)
        tid = self._tid
        if finished and tid is not None and _MONITORING is not None:
            deadline = monotonic() + _GONE_TIMEOUT
            while os.path.exists("/proc/self/task/%d" % tid) and monotonic() < deadline:
                sleep(0.0001)

    def start_after(self, frame: Any) -> None:
        """Start at the next instruction of `frame`, which called `os.fork`."""
        if _MONITORING is None or frame is None:
            self.start()
            return
        event = _MONITORING.events.INSTRUCTION

        def resume(tool: int) -> None:
            try:
                self._release(tool)
                self.start()
            except Exception:
                pass  # the target would get a callback's exception

        if self._take_tool(frame.f_code, event, resume) is None:
            self.start()

    def _start_thread(self, stop: Any, done: Any) -> bool:
        entered = _thread.allocate_lock()
        entered.acquire()

        def work() -> None:
            # The kernel gives a signal to any thread that does not block it, and the target may block it in
            # its own threads to wait for it.
            if hasattr(_signal, "pthread_sigmask"):
                _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
            self._tid = _thread.get_native_id()
            self.tids.add(self._tid)
            entered.release()
            self._run(stop, done)

        if _MONITORING is None:
            _thread.start_new_thread(work, ())
        else:
            # A fresh code object, so that no event set for an earlier start applies.
            function: Any = type(_carrier)
            carrier = function(_carrier.__code__.replace(), {})
            event = _MONITORING.events.PY_START

            def on_start(tool: int) -> None:
                self._release(tool)
                work()

            tool = self._take_tool(carrier.__code__, event, on_start)
            if tool is None:
                return False
            try:
                _thread.start_new_thread(carrier, ())
            except RuntimeError:
                self._release(tool)
                raise
        return entered.acquire(True, _ENTER_TIMEOUT)

    def _take_tool(self, code: Any, event: int, callback: Callable[[int], None]) -> Optional[int]:
        """Have ``callback(tool)`` called at an event of one code object; ``None`` if all tools are taken."""
        for tool in _TOOLS:
            try:
                _MONITORING.use_tool_id(tool, "profkit")
            except ValueError:
                continue
            self._tools[tool] = code, event
            _MONITORING.register_callback(tool, event, lambda _code, _offset, tool=tool: callback(tool))
            _MONITORING.set_local_events(tool, code, event)
            return tool
        return None

    def _release(self, tool: int) -> None:
        held = self._tools.pop(tool, None)
        if held is not None:
            _release_tool(tool, *held)

    def _run(self, stop: Any, done: Any) -> None:
        try:
            collections = _Collections()
            while not collections.wait(stop, max(0.0, self._due - monotonic())):
                delay = settings.USUAL_INTERVAL
                try:
                    delay = self._tick()
                except Exception:
                    pass  # a failed snapshot must not show in the target; the next may succeed
                self._due = monotonic() + delay
        finally:
            done.release()


class _Collections:
    """Raises the garbage collector's thresholds, so that no finaliser of the target runs in this thread.

    Disabling the collector instead would race with the target.
    """

    #: The target's thresholds.
    _before: Any = None

    def __init__(self) -> None:
        self._known = hasattr(_modules[0], "set_threshold")
        if self._known:
            _Collections._before = _modules[0].get_threshold()
            _modules[0].set_threshold(*settings.NEVER_COLLECT)

    @classmethod
    def put_back(cls) -> None:
        """Restore the thresholds when the thread is gone, unless the target has changed them."""
        if cls._before is not None and _modules[0].get_threshold() == settings.NEVER_COLLECT:
            _modules[0].set_threshold(*cls._before)

    def wait(self, stop: Any, seconds: float) -> bool:
        """Wait at most so long for a lock, with the original thresholds; return whether it is ours."""
        if not self._known:
            taken: bool = stop.acquire(True, seconds)
            return taken
        collector, each = _modules[0], _modules[1].starmap
        own = collector.get_threshold() == settings.NEVER_COLLECT
        steps = [
            each(collector.set_threshold, [self._before]) if own else each(collector.get_threshold, [()]),
            each(stop.acquire, [(True, seconds)]),
            each(collector.get_threshold, [()]),
            each(collector.set_threshold, [settings.NEVER_COLLECT]),
        ]
        # In one expression: nothing is allocated between the steps, so no collection becomes due.
        _, taken, _Collections._before, _ = list(map(next, steps))
        if taken:
            self.put_back()
        return bool(taken)


def _load_modules() -> None:
    for name in ("gc", "itertools"):
        known = sys.modules.get(name)
        _modules.append(__import__(name))
        if known is None:
            sys.modules.pop(name, None)


def _carrier() -> None:
    """Do nothing: the thread's work is done in the event at this function's start."""


def _release_tool(tool: int, code: Any, event: int) -> None:
    _MONITORING.set_local_events(tool, code, 0)
    _MONITORING.register_callback(tool, event, None)
    _MONITORING.free_tool_id(tool)


_load_modules()
