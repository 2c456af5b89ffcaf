"""The record of one process: what is in it, and where it is written while the target may break that."""

from __future__ import annotations

import os
import sys
from time import perf_counter, process_time
from time import time as wall_time

from . import later, native, process_facts, record_file, settings
from .reserve import RESERVE_SUFFIX, Reserve, leave_end
from .undisturbed import with_collections

# Bound now: the target may replace what `os` holds, and count the calls.
_os_open, _os_write, _os_close, _os_replace = os.open, os.write, os.close, os.replace

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Set, Tuple

    from .native import Tracer


class ProcessRecord:
    """The facts of one process and their file; a forked child begins again with the same object.

    `module` is the loaded tracer, or ``None``.
    """

    def __init__(self, spool: str, module: Any) -> None:
        self._native = module
        self._usage = process_facts.usage_of(module)
        self._reserve, self._memory = Reserve(), Reserve()
        self._pools: Any = None  # until a library is loaded that may have one
        self._identity: Dict[str, Any] = {}
        self._path = ""
        self._beside_tables = False
        #: Whether the tracer's tables are in a file.
        self.mapped = False
        #: Import path entries that Python is about to add.
        self.starting: List[str] = []
        #: Multiprocessing's name of this process, if it forked it.
        self.worker = ""
        # Without a sampler on this machine, this process reads the counters. Later imports are impossible.
        self._machine: Any = None
        if not os.path.exists(os.path.join(spool, settings.sampled_mark(process_facts.boot_id()))):
            from . import machine

            self._machine = machine
        local = os.path.join(spool, process_facts.boot_id() + settings.LOCAL_SUFFIX)
        #: The directory of this process's files; a local one is absent e.g. in a container.
        self.spool = os.readlink(local) if os.path.isdir(local) else spool

    @property
    def forked(self) -> bool:
        return bool(self._identity["forked"])

    @property
    def in_memory(self) -> bool:
        """Whether nothing but this process keeps the tables."""
        return self._memory.descriptor >= 0

    def age(self) -> float:
        return float(perf_counter() - self._identity["begin_perf"])

    def begin(self, forked: bool, now: float, perf: float) -> None:
        """Begin the record of a process that began at these times."""
        self._identity = process_facts.identity()
        self._identity["forked"] = forked
        self._identity["begin_time"], self._identity["begin_perf"] = now, perf
        if not forked:  # libraries read it when loaded; in a fork they are loaded already
            self._environment_at_start = self._identity["environment_at_start"]
        self._identity["environment_at_start"] = self._environment_at_start
        if self._machine is not None:
            self._first_reading, self._quota = self._machine.reading(), self._machine.quota_cpus()
        name = self._identity["host"], self._identity["pid"], int(wall_time() * 1e6)
        self._path = os.path.join(self.spool, "%s-%d-%d" % name)

    def map_tables(self) -> bool:
        """Open the kept file, and map the tracer's tables there or in memory; return whether that works."""
        self._reserve.open(self._path)
        path, descriptor = self._path + RESERVE_SUFFIX, self._reserve.descriptor
        self.mapped = native.map_tables(self._native, path, descriptor)
        if self._native is not None and not self.mapped:
            self._memory.open_memory()
            descriptor = self._memory.descriptor
            self.mapped = native.map_tables(self._native, "/proc/self/fd/%d" % descriptor, descriptor)
        return self.mapped

    def leave_to_parent(self) -> None:
        """Leave the parent's files to it, in a forked child."""
        if self._pools is not None:
            self._pools.forget()
        self._reserve.close()
        self._memory.close()

    def write(
        self, state: str, own: Set[int], tracer: Tracer, notes: Dict[str, Any], overtaken: Callable[[], bool]
    ) -> str:
        """Replace the record; return why that failed. `overtaken`: the last one was written meanwhile."""
        record = process_facts.record(self._identity, state, self._usage, own, tracer)
        record["path"] = self.starting + record["path"]
        record["worker"] = record["worker"] or self.worker
        if self._machine is not None:
            record["machine"] = [self._first_reading, self._machine.reading()]
            record["quota_cpus"] = self._quota
        if self.mapped and state != "snapshot":
            with_collections(self._native.sync_tables)
        record["mapped"] = self.mapped
        record["pools"] = self._read_pools(state != "snapshot")
        record["notes"] = notes
        parts = record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, record)
        if self._beside_tables and self._native.keep(b"".join(parts)):
            return ""
        return self._replace(parts, state, record["perf"], overtaken)

    def beside_tables(self, beside: bool) -> None:
        """Have the next record stored beside the tables: most forked children end before a file pays off."""
        self._beside_tables = beside and self.mapped

    def _read_pools(self, final: bool) -> Any:
        if self._pools is None:
            if not final and "_ctypes" not in sys.modules:
                return None  # a snapshot could not ask them
            if not process_facts.may_have_pools():
                return []
            try:
                self._pools = later("thread_pools").Pools()
            except Exception:
                return None  # e.g. no file can be opened now
        return self._pools.read(final)

    def _replace(
        self, parts: Tuple[bytes, bytes], state: str, perf: float, overtaken: Callable[[], bool]
    ) -> str:
        try:
            if self.in_memory:
                self._put(self._memory.content(), RESERVE_SUFFIX, overtaken)
            self._put(parts, settings.RECORD_SUFFIX, overtaken)
        except OSError as error:
            if overtaken():
                return ""
            # Disk full or directory gone: keep the earlier record, and note it in a later one.
            in_file = self.mapped and not self.in_memory
            if not (self._native.keep(b"".join(parts)) if in_file else self._reserve.write(parts, error)):
                if state != "snapshot":
                    leave_end(self._path, state, error, perf, process_time())
                    if self.in_memory:
                        self._native.tell_parent()
                return "%s" % error
        return ""

    def _put(self, parts: Iterable[bytes], suffix: str, overtaken: Callable[[], bool]) -> None:
        temporary = self._path + ".writing"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
        fd = with_collections(_os_open, temporary, flags, 0o600)
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[with_collections(_os_write, fd, view) :]
        finally:
            with_collections(_os_close, fd)
        if not overtaken():
            with_collections(_os_replace, temporary, self._path + suffix)
