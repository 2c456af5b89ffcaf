"""Trace a process that is already running, for ``profkit attach``.

`begin` runs through ``sys.remote_exec`` (Python 3.14 on) and needs the compiled tracer. Tracing ends at the
first call that any thread makes after the time is over or the "go on" file is gone; a thread that stays in
one call costs nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import os
import sys
from time import perf_counter
from time import time as wall_time

from . import event_costs, native, process_facts, settings
from .block_record import subtract, write
from .reserve import RESERVE_SUFFIX
from .thread_pools import Pools
from .tier_changes import Tiers
from .undisturbed import need_room

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict

#: Frames of the script that calls `begin`: its function and its module.
_FRAMES_OF_SCRIPT = 2

# Bound now: the target may replace what `os` holds.
_access = os.access

#: Seconds between two checks whether to go on.
_LOOK_S = 0.2


def begin(spool: str, until: float, tracers: str = "") -> None:
    """Trace this process and its forks until `until` (`perf_counter` seconds) or the launcher's end.

    Raise nothing. `tracers` is the argument of `native.load`.
    """
    try:
        goes_on = perf_counter() < until and os.path.exists(os.path.join(spool, settings.ATTACHED_NAME))
        if goes_on and not os.path.exists(_mark(spool)):  # else its traced parent forked it
            _Attached(spool, until, tracers).start()
    except Exception as error:
        _leave_word(spool, repr(error))


def _mark(spool: str) -> str:
    return os.path.join(spool, "%d%s" % (os.getpid(), settings.TRACED_SUFFIX))


def _leave_word(spool: str, problem: str) -> None:
    try:
        path = os.path.join(spool, "%d%s" % (os.getpid(), settings.REFUSED_SUFFIX))
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(problem)
    except OSError:
        pass


def _in_main_interpreter() -> bool:
    try:
        _signal.signal(_signal.SIGKILL, _signal.SIG_DFL)
    except ValueError:
        return False
    except OSError:
        pass
    return True


class _Attached:
    def __init__(self, spool: str, until: float, tracers: str) -> None:
        self._spool = spool
        self._tracers = tracers
        self._until = until
        self._go_on = os.path.join(spool, settings.ATTACHED_NAME)
        self._ending = _thread.allocate_lock()
        self._over = False
        self._leaving: Any = None
        self._forks = False
        self._notes: Dict[str, Any] = {}
        self._worker = ""

    def start(self) -> None:
        """Begin, or write to the spool why not."""
        problem = self._problem()
        if problem:
            _leave_word(self._spool, problem)
            return
        if self._trace(forked=False):
            self._watch_ends()

    def _problem(self) -> str:
        if not _in_main_interpreter():
            return "Python ran the agent in the latest of its interpreters, not in the main one"
        if os.path.isdir(os.environ.get(settings.SPOOL_VARIABLE, "")):
            return "profkit capture traces it already"
        holder = sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)  # type: ignore[attr-defined,unused-ignore]
        if holder:
            return "%s traces it already" % holder
        self._module = native.load(self._tracers)
        if self._module is None:
            return "profkit has no compiled tracer for it"
        if self._module.is_serving():  # a process that is sampled does not hold the profiler's tool id
            return "an earlier profkit attach has not ended in it"
        event_costs.take_out_costs(self._module)
        return ""

    def _watch_ends(self) -> None:
        atexit.register(self._end, "exited")
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._after_fork_in_child,
        )

    def _after_fork(self) -> None:
        self._forks = False

    def _before_fork(self) -> None:
        """Have no thread beside a fork, which Python would warn of."""
        self._forks = True  # else one may begin at the end of this very call
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.join()

    def _trace(self, forked: bool) -> bool:
        self._identity = process_facts.identity()
        self._before = process_facts.state(True, self._module.usage)
        name = "%s-%d-%d" % (self._identity["host"], self._identity["pid"], int(wall_time() * 1e6))
        self._path = os.path.join(self._spool, name)
        if not native.map_tables(self._module, self._path + RESERVE_SUFFIX, -1):
            _leave_word(self._spool, "its tables cannot be kept in %s" % self._spool)
            self._over = True
            return False
        self._tracer: Any = native.tracer(self._module, True)
        self._mark = _mark(self._spool)
        open(self._mark, "wb").close()
        main = _thread.get_ident()
        self._tiers = Tiers(self._module, self._tracer, main, lambda: not self._over)
        self._write("snapshot")
        self._module.serve(self._look, _LOOK_S)
        self._module.limit(settings.DEFAULT_OVERHEAD)
        # Open calls are recorded as if they began now.
        behind = 0 if forked else _FRAMES_OF_SCRIPT
        self._tracer.open(native.threads_to_trace(main), False, False, behind)
        self._tiers.watch(False)
        return True

    def _look(self) -> float:
        """Continue or end; called by the tracer in the middle of a call of the target."""
        need_room()
        if self._over:
            return 0.0
        left = self._until - perf_counter()
        # Not by an exception: with little stack, Python 3.14 lets it pass `except` of several types.
        if left > 0 and _access(self._go_on, os.F_OK, effective_ids=True):
            return min(left, _LOOK_S)
        if self._forks:
            return _LOOK_S / 20
        try:
            # Not in this thread: the tracer is still handling the event that called this.
            self._leaving = _thread.start_joinable_thread(lambda: self._end("detached"))  # type: ignore[attr-defined]
        except RuntimeError:  # the user's limit on threads: try again later
            return _LOOK_S
        return 0.0

    def _end(self, state: str) -> None:
        """Stop tracing, and write the last record if the spool directory still exists."""
        with self._ending:
            if self._over:
                return
            self._over = True
        try:
            self._tiers.stop()
            if not self._tiers.sampled:
                if self._tracer.displaced():
                    self._notes["displaced"] = True
                self._tracer.finish()
        except Exception as error:
            self._notes["agent_failed"] = repr(error)
        try:
            if os.path.isdir(self._spool):
                self._write(state)
                os.unlink(self._mark)
        except Exception:
            pass
        self._module.let_go(False)  # some thread may be in `_look`
        atexit.unregister(self._end)

    def _write(self, state: str) -> None:
        own = self._tiers.threads()
        if state == "detached":
            own.add(_thread.get_native_id())
        record = process_facts.record(self._identity, state, self._module.usage, own, self._tracer)
        subtract(record, self._before)
        record["worker"] = record["worker"] or self._worker
        record["mapped"] = True
        # Without `_ctypes`, which a reading would load, and so keep a file open, there are no sizes.
        asks_pools = state != "exited" and "_ctypes" in sys.modules
        record["pools"] = Pools().read(True) if asks_pools else None
        record["notes"] = self._notes
        write(self._path + settings.RECORD_SUFFIX, record)

    def _after_fork_in_child(self) -> None:
        if self._over:
            return
        try:
            atexit.unregister(self._end)
            self._tracer.finish()  # its data belongs to the parent
            child = _Attached(self._spool, self._until, self._tracers)
            child._module = self._module
            self._over = True
            child._worker = process_facts.name_of_worker(sys._getframe())
            goes_on = perf_counter() < self._until and os.path.exists(self._go_on)
            if goes_on and child._trace(forked=True):
                child._watch_ends()
        except Exception as error:
            _leave_word(self._spool, repr(error))
