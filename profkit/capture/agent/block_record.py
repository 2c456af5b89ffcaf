"""A block of a program that goes on afterwards: traced from its begin to its end, and then one record of it.

The counterpart of ``session``, for ``profkit.capture``: the record is that of a process which has lived as long as
the block. The kernel's counters are therefore differences, and nothing of the process is wrapped or replaced: there
are no snapshots, and processes that the block starts are not followed.
"""

from __future__ import annotations

import _thread
import os
import sys
from time import perf_counter
from time import time as wall_time

from . import native, process_facts, record_file, settings
from .thread_pools import Pools
from .tracer import PER_THREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

#: Facts of `process_facts.state` that the kernel counts from the start of the process on.
_COUNTED = ("cpu_s", "voluntary_switches", "involuntary_switches", "page_faults", "read_bytes")

#: Columns of a task that are counted from the start of the thread on: all behind its number and its name.
_TASK_COUNTERS = 2


def taken_by() -> str:
    """Return what traces this process already, so that no block of it can be; empty where nothing does."""
    if os.path.isdir(os.environ.get(settings.SPOOL_VARIABLE, "")):
        return "profkit capture"
    if _active:
        return "another block"
    if PER_THREAD:
        function = sys.getprofile()
        return "" if function is None else "a profile function (%s)" % type(function).__name__
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    return monitoring.get_tool(monitoring.PROFILER_ID) or ""


class Recording:
    """Traces the calling thread, and as far as the tracer can the others, until it is stopped.

    `tracers` is what `native.load` takes.
    """

    def __init__(self, tracers: str = "") -> None:
        if not _loaded:
            _loaded.append(native.load(tracers))
            native.take_out_costs(_loaded[0])
        self._tracer = native.tracer(_loaded[0])
        self._usage = process_facts.usage_of(_loaded[0])
        self._code: Any = None
        self._hook: Any = None
        self._begin: Dict[str, Any] = {}

    def start(self, code: Any, hidden: Any) -> None:
        """Begin.

        Parameters
        ----------
        code
            Code object of the function that the block stands in: time that it spends itself is charged to it.
            ``None`` charges it to no function.
        hidden
            Code objects of profkit's that will run before `stop` does.
        """
        global _registered
        codes = self._tracer.codes
        codes.hidden.update([codes.number(own) for own in hidden])
        self._code = code
        if not _registered and hasattr(os, "register_at_fork"):
            _registered = True
            os.register_at_fork(after_in_child=_after_fork_in_child)
        self._identity = process_facts.identity()
        self._identity["forked"] = False
        self._identity["environment_at_start"] = settings.thread_environment(os.environ)
        self._identity["begin_time"] = wall_time()
        self._begin = process_facts.state(True, self._usage)
        _active.append(self)
        if PER_THREAD:
            import threading

            # Since Python 3.10, which is what profkit itself needs.
            self._hook = threading.getprofile()  # type: ignore[attr-defined,unused-ignore]
        self._identity["begin_perf"] = perf_counter()
        try:
            self._tracer.start()
        except BaseException:
            self._leave()
            raise

    def stop(self) -> Optional[Dict[str, Any]]:
        """End, and return the record; ``None`` in a forked child, which is another process."""
        end = perf_counter()
        displaced = self._tracer.displaced()
        self._tracer.finish()
        if self not in _active:
            return None
        self._leave()
        record = dict(self._identity)
        state = process_facts.state(True, self._usage)
        state["perf"] = end
        own = _thread.get_native_id()
        subtract(state, self._begin)
        record.update(state)
        tables = self._tracer.read()
        mine = [table for table in tables if table["native"] == own] or [record_file.pack(_empty_table(own))]
        if self._code is not None and self._tracer.kind == "native":
            task = [row for row in state["tasks"] if row[0] == own]
            wall = end - self._identity["begin_perf"]
            self._charge(mine[0], wall, task[0] if task else None)
        record["threads"] = mine[:1] + [table for table in tables if table is not mine[0]]
        record["codes"] = self._tracer.codes.packed()
        record["state"] = "exited"
        record["agent_tids"] = []
        record["tracer"] = self._tracer.kind
        record["pools"] = _pools()
        record["notes"] = self._notes(displaced)
        return record

    def _leave(self) -> None:
        """Put back what `start` has changed."""
        if self in _active:
            _active.remove(self)
        self._restore_hook()
        self._tracer.leave()

    def _restore_hook(self) -> None:
        if PER_THREAD:
            import threading

            threading.setprofile(self._hook)

    def _charge(self, table: Dict[str, Any], wall: float, task: Optional[List[Any]]) -> None:
        """Count the function that the block stands in as one call that has not returned.

        No call that was traced holds what it did itself. What it called is known from the calls that no other
        function has made.
        """
        number = self._tracer.codes.number(self._code)
        rows = {
            name: list(record_file.rows(table, name)) for name in ("functions", "edges", "waiting", "open")
        }
        called: Dict[int, List[Any]] = {row[0]: list(row[1:]) for row in rows["functions"]}
        for caller, callee, calls, recursive, cumtime, tottime in rows["edges"]:
            rest = called.get(callee)
            if rest is not None:
                rest[0] -= calls
                rest[1] -= recursive
                rest[3] -= tottime
                if caller != callee:  # a recursive call's time is within that of the outer one
                    rest[2] -= cumtime
        for function, (calls, recursive, cumtime, tottime) in called.items():
            if calls > 0 and function != number:
                tottime = max(0.0, tottime)
                edge = [number, function, calls, max(0, recursive), max(tottime, cumtime), tottime]
                rows["edges"].append(edge)
        elsewhere = sum(row[4] for row in rows["functions"])
        rows["open"].insert(0, [number, wall, max(0.0, wall - elsewhere)])
        if table["measured"] and task is not None:
            wait = task[3] / 1e9
            blocked = max(0.0, wall - task[2] / 1e9 - wait)
            charged = [sum(row[column] for row in rows["waiting"]) for column in (1, 3)]
            row = [number, max(0.0, wait - charged[0]), wait, max(0.0, blocked - charged[1]), blocked]
            rows["waiting"].append(row)
        table.update({name: record_file.packed(record_file.flat(values)) for name, values in rows.items()})

    def _notes(self, displaced: bool) -> Dict[str, Any]:
        notes: Dict[str, Any] = {}
        if displaced:
            notes["displaced"] = True
        if self._tracer.kind != "native":
            notes["no_tracer"] = True
        return notes

    # Forks

    def after_fork_in_child(self) -> None:
        """Do nothing in the child, which is none of the block's."""
        self._tracer.finish()
        self._tracer.leave()
        self._restore_hook()


#: The type of the compiled collector, ``None`` where there is none; loaded once, as each time takes memory.
_loaded: List[Any] = []
#: The recording that is on, if any.
_active: List[Recording] = []
_registered = False


def _after_fork_in_child() -> None:
    while _active:
        _active.pop().after_fork_in_child()


def write(record: Dict[str, Any], spool: str) -> None:
    """Write a record where the packer finds it."""
    name = "%s-%d%s" % (record["host"], record["pid"], settings.RECORD_SUFFIX)
    with open(os.path.join(spool, name), "wb") as file:
        for part in record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, record):
            file.write(part)


def subtract(state: Dict[str, Any], begin: Dict[str, Any]) -> None:
    """Take out of the kernel's counters, in place, what they were at the begin."""
    for name in _COUNTED:
        if state.get(name) is not None and begin.get(name) is not None:
            state[name] = max(0, state[name] - begin[name])
    before = {task[0]: task for task in begin["tasks"]}
    for task in state["tasks"]:
        earlier = before.get(task[0])
        if earlier is None:
            continue
        risen = [now - then for now, then in zip(task[_TASK_COUNTERS:], earlier[_TASK_COUNTERS:])]
        if risen and min(risen) >= 0:  # else the number is another thread's by now
            task[_TASK_COUNTERS:] = risen


def _pools() -> Any:
    try:
        return Pools().read(True)
    except Exception:
        return None  # the libraries are the program's, in any version


def _empty_table(own: Optional[int]) -> Dict[str, Any]:
    """A table of a thread that has called nothing."""
    return {"native": own, "name": "", "measured": False, "total": 0.0}
