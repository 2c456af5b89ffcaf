"""A background thread that calls one function now and then, unseen by the target and by its profilers.

It is started without ``threading`` (so `threading.enumerate` does not list it), takes none of the target's
signals, and is gone while a process forks. From Python 3.12 on two more things are needed. cProfile then receives
the events of *every* thread into one stack, so a thread of ours that ran ordinary Python would corrupt it: the
thread's work is done inside a `sys.monitoring` callback, where CPython raises no further events. And `os.fork`
warns when the process has a second thread: the thread is joined before a fork and comes back at the first
instruction after it.

Any thread of the target may fork, several at once: nothing here waits for a lock that another thread may hold,
and what a child inherits of its parent's threads is dropped in `Ticker.forget`.
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

#: Tools with a higher number are called first, and cProfile is tool 2: above it we run before it sees the event.
_TOOLS = (4, 3, 5)

#: The modules `gc` and `itertools`; whether the target uses them stays to be seen.
_modules: List[Any] = []
#: Thresholds that no program reaches.
_NEVER = (2**31 - 1, 2**31 - 1, 2**31 - 1)

#: Seconds until the first call.
_FIRST = 0.05

#: Seconds to wait for the thread before a fork; a fork must not hang on a stuck file system.
_JOIN_TIMEOUT = 2.0

#: Seconds to wait until a new thread runs; it always does, except in a process that is being torn down.
_ENTER_TIMEOUT = 2.0

#: Seconds to wait until the kernel has forgotten a joined thread.
_GONE_TIMEOUT = 0.05


class Ticker:
    """Calls ``tick()`` again and again; what it returns is the time until the next call, in seconds."""

    def __init__(self, tick: Callable[[], float], bells: Any) -> None:
        """`bells.bell()` makes a lock whose waiting ends for another reason, too, upon which `tick` is called."""
        self._tick = tick
        self._bells = bells
        self.forget()

    def forget(self) -> None:
        """In a forked child: no thread of the parent's is there, and their locks and tools are worth nothing."""
        for tool, (code, event) in getattr(self, "_tools", {}).items():
            _release_tool(tool, code, event)
        _Collections.put_back()
        self._tools: Dict[int, Tuple[Any, int]] = {}
        self._running: List[Tuple[Any, Any]] = []
        self._starting = _thread.allocate_lock()
        self._tid: Optional[int] = None
        #: Kernel's ids of the thread, for leaving it out of what is recorded of the target: forks end it, and it
        #: comes back as another.
        self.tids: Set[int] = set()
        self._due = 0.0
        #: Whether the interpreter leaves no way to run the thread unseen.
        self.failed = False

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._running or not self._starting.acquire(False):
            return  # the second: another thread of the target is just here
        try:
            if not self._due:
                self._due = monotonic() + _FIRST
            stop, done = self._bells.bell(), _thread.allocate_lock()
            done.acquire()
            try:
                self.failed = not self._start_thread(stop, done)
            except RuntimeError:
                self.failed = True  # a limit of the process, or it is shutting down
            if not self.failed:
                self._running.append((stop, done))
        finally:
            self._starting.release()

    def stop(self) -> None:
        """Wait for a tick in progress and end the thread; it can be started again."""
        try:
            stop, done = self._running.pop()  # in one step: another thread may be about to fork, too
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
        """Start at the next instruction of `frame`, the one that has called `os.fork`."""
        if _MONITORING is None or frame is None:
            self.start()
            return
        event = _MONITORING.events.INSTRUCTION

        def resume(tool: int) -> None:
            try:
                self._release(tool)
                self.start()
            except Exception:
                pass  # what a callback raises is raised in the target

        if self._take_tool(frame.f_code, event, resume) is None:
            self.start()

    def _start_thread(self, stop: Any, done: Any) -> bool:
        entered = _thread.allocate_lock()
        entered.acquire()

        def work() -> None:
            # The kernel gives a process's signal to any thread that does not block it. One that the target
            # blocks in its own threads, to wait for it, must not find ours.
            if hasattr(_signal, "pthread_sigmask"):
                _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
            self._tid = _thread.get_native_id()
            self.tids.add(self._tid)
            entered.release()
            self._run(stop, done)

        if _MONITORING is None:
            _thread.start_new_thread(work, ())
        else:
            # A code object of its own, so that nothing that is left of another start can be meant.
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
        """Have ``callback(tool)`` called at an event of one code object; ``None`` if the target has all tools."""
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
                    pass  # a snapshot that fails must not show in the target; the next one may succeed
                self._due = monotonic() + delay
        finally:
            done.release()


class _Collections:
    """Keeps the garbage collector out of this thread, in which it would run finalisers of the target's objects.

    Its thresholds are raised but while the thread waits, and put back unless the target has set others. Switching it
    off and on again would undo what the target does to that switch at the same time.
    """

    #: The target's thresholds, once they were raised.
    _before: Any = None

    def __init__(self) -> None:
        self._known = hasattr(_modules[0], "set_threshold")
        if self._known:
            _Collections._before = _modules[0].get_threshold()
            _modules[0].set_threshold(*_NEVER)

    @classmethod
    def put_back(cls) -> None:
        """Put the thresholds back, unless the target has set others: the thread is no more."""
        if cls._before is not None and _modules[0].get_threshold() == _NEVER:
            _modules[0].set_threshold(*cls._before)

    def wait(self, stop: Any, seconds: float) -> bool:
        """Wait for a lock, at most so long, with collections as they were; return whether it is ours."""
        if not self._known:
            taken: bool = stop.acquire(True, seconds)
            return taken
        collector, each = _modules[0], _modules[1].starmap
        own = collector.get_threshold() == _NEVER
        steps = [
            each(collector.set_threshold, [self._before]) if own else each(collector.get_threshold, [()]),
            each(stop.acquire, [(True, seconds)]),
            each(collector.get_threshold, [()]),
            each(collector.set_threshold, [_NEVER]),
        ]
        # In one piece: nothing is allocated between the steps, so that no collection comes to be due here.
        _, taken, _Collections._before, _ = list(map(next, steps))
        if taken:
            self.put_back()
        return bool(taken)


def without_collections(call: Callable[[str], float], argument: str) -> float:
    """Call a function of ours in a thread of the target's, and leave collections to what the target does itself."""
    collector = _modules[0]
    if not hasattr(collector, "set_threshold"):
        return call(argument)
    before = collector.get_threshold()
    collector.set_threshold(*_NEVER)
    try:
        return call(argument)
    finally:
        if collector.get_threshold() == _NEVER:
            collector.set_threshold(*before)


def _load_modules() -> None:
    for name in ("gc", "itertools"):
        known = sys.modules.get(name)
        _modules.append(__import__(name))
        if known is None:
            sys.modules.pop(name, None)


def _carrier() -> None:
    """Exists for the event at its start, in which the thread's work is done."""


def _release_tool(tool: int, code: Any, event: int) -> None:
    _MONITORING.set_local_events(tool, code, 0)
    _MONITORING.register_callback(tool, event, None)
    _MONITORING.free_tool_id(tool)


_load_modules()
