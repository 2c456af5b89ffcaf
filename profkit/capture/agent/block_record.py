"""Record one block of a program, for ``profkit.capture``, as if it were a process of its own.

Kernel counters are differences. There are no snapshots, and child processes are not followed.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import perf_counter

from . import event_costs, native, process_facts, record_file, settings
from .native import PER_THREAD, Tracer
from .reserve import RESERVE_SUFFIX
from .thread_pools import Pools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

#: Facts of `process_facts.state` that the kernel counts from the start of the process.
_COUNTED = (
    *("cpu_s", "voluntary_switches", "involuntary_switches"),
    *("page_faults", "read_bytes", "storage_bytes"),
)

#: Leading columns of a task: its number and its name.
_TASK_COUNTERS = 2

#: Seconds until the tracer calls what it serves: longer than any process lives.
_NEVER_S = 1e9


def taken_by(tracers: str = "") -> str:
    """Return what already traces this process and so prevents a block; empty if nothing does.

    `tracers` is the argument of `native.load`.
    """
    if os.path.isdir(os.environ.get(settings.SPOOL_VARIABLE, "")):
        return "profkit capture"
    if _active:
        return "another block"
    if PER_THREAD:
        function = sys.getprofile()
        holder = "" if function is None else "a profile function (%s)" % type(function).__name__
    else:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        holder = monitoring.get_tool(monitoring.PROFILER_ID) or ""
    # A program that `profkit capture` traces may have lost the variable, and one that is sampled holds no place.
    return holder or ("profkit" if _module(tracers) is not None and _module(tracers).is_serving() else "")


def _module(tracers: str) -> Any:
    """Return the compiled tracer's module, or ``None``; loaded once, since each load takes memory."""
    if not _loaded:
        _loaded.append(native.load(tracers))
    return _loaded[0]


class Recording:
    """A tracer of the calling thread, and of others where the tracer can follow them, until it is stopped.

    The record will be in the file `path` + `RECORD_SUFFIX`, and tables beside it. `tracers` is the argument of
    `native.load`.
    """

    def __init__(self, path: str, tracers: str = "") -> None:
        self._path = path
        self._module = _module(tracers)
        if not _prepared:
            _prepared.append(True)
            event_costs.take_out_costs(self._module)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork_in_child)
        self._tracer = Tracer()
        self._usage = process_facts.usage_of(self._module)
        self._hook: Any = None
        self._mapped = False
        self._begin: Dict[str, Any] = {}

    def start(self, behind: int = 1, most: int = 0) -> None:
        """Begin to trace, with `most` calls in progress that do not end, from the function `behind` frames out."""
        self._identity = process_facts.identity()
        self._begin = process_facts.state(True, self._usage)
        _active.append(self)
        if PER_THREAD:
            import threading

            self._hook = threading.getprofile()  # type: ignore[attr-defined,unused-ignore]
            threading.setprofile(None)  # type: ignore[arg-type,unused-ignore]
        self._mapped = native.map_tables(self._module, self._path + RESERVE_SUFFIX, -1)
        if self._mapped:
            self._tracer = native.tracer(self._module)
            self._module.serve(lambda: _NEVER_S, _NEVER_S)  # it names threads
        threads = {_thread.get_ident(): _thread.get_native_id()}
        self._identity["begin_perf"] = perf_counter()
        try:
            self._tracer.open(threads, False, False, behind, most)
        except BaseException:
            self._leave()
            _active.remove(self)
            raise

    def stop(self) -> Optional[Dict[str, Any]]:
        """Stop, write the record and return it; ``None`` in a forked child."""
        end = perf_counter()
        displaced = self._tracer.displaced()
        self._tracer.finish()
        if self not in _active:
            return None
        self._leave()
        _active.remove(self)
        record = process_facts.record(self._identity, "exited", self._usage, set(), self._tracer)
        record["perf"] = end
        subtract(record, self._begin)
        record["pools"] = Pools().read(True)
        record["mapped"] = self._mapped
        record["notes"] = {"displaced": True} if displaced else {}
        if self._module is None:
            record["notes"]["no_tracer"] = True
        elif not self._mapped:
            record["notes"]["tables_full"] = True
        write(self._path + settings.RECORD_SUFFIX, record)
        return record

    def _leave(self) -> None:
        if PER_THREAD:
            import threading

            threading.setprofile(self._hook)
        self._tracer.close()
        if self._mapped and self in _active:
            self._module.let_go(True)

    def leave_in_child(self) -> None:
        """Stop tracing in a forked child, which does not belong to the block."""
        self._tracer.finish()
        self._leave()


class Leaving:
    """Stops a recording at the end of a `with` statement: functions of this file are none of the program's."""

    _recording: Optional[Recording] = None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        recording, self._recording = self._recording, None
        assert recording is not None
        record = recording.stop()
        if record is not None:  # else a forked process: its parent writes the file
            self._left(record, kind is not None)

    def _left(self, record: Dict[str, Any], failed: bool) -> None:
        raise NotImplementedError


_loaded: List[Any] = []
_prepared: List[bool] = []
_active: List[Recording] = []


def _after_fork_in_child() -> None:
    while _active:
        _active.pop().leave_in_child()


def write(path: str, record: Dict[str, Any]) -> None:
    """Write a process's record, replacing the earlier one atomically."""
    with open(path + ".writing", "wb") as file:
        for part in record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, record):
            file.write(part)
    os.replace(path + ".writing", path)


def subtract(state: Dict[str, Any], begin: Dict[str, Any]) -> None:
    """Subtract the kernel's counters at the start of the block, in place."""
    for name in _COUNTED:
        if state.get(name) is not None and begin.get(name) is not None:
            state[name] = max(0, state[name] - begin[name])
    before = {task[0]: task for task in begin["tasks"]}
    for task in state["tasks"]:
        earlier = before.get(task[0])
        if earlier is None:
            continue
        risen = [now - then for now, then in zip(task[_TASK_COUNTERS:], earlier[_TASK_COUNTERS:])]
        if risen and min(risen) >= 0:  # else the kernel has reused the number for another thread
            task[_TASK_COUNTERS:] = risen
