"""Reads the records of a spool directory, wherever they are kept, and the tables of each process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from profkit.capture import endings, gathered, mapped_layout, records
from profkit.capture.agent import settings
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.mapped_tables import MappedTables, ThreadEnd, read_tables
from profkit.capture.proc_files import is_alive
from profkit.capture.record_types import ProcessKey, Record, SeenProcess
from profkit.capture.spool import files, kept_files
from profkit.formats.regular_file import read_regular
from profkit.model import Effect, Notice, Tier


class SpoolRecords:
    """Reads a spool's records, each again only if it changed; `files` are names without suffix."""

    def __init__(self, spool: Path, *, attached: bool) -> None:
        self._spool = spool
        self._attached = attached
        self._known: dict[str, tuple[tuple[int, ...], Record | Notice]] = {}
        self.damaged: list[Notice] = []
        self.files: set[str] = set()
        self._tables: dict[str, Path] = {}  # those in files of their own
        self._names: dict[int, str] = {}  # by id of the record
        self._gathered: dict[str, gathered.Gathered] = {}

    def read(self) -> list[Record]:
        """Return the undamaged records as they are now."""
        found: dict[str, Record | Notice] = {}
        for path in files(self._spool, settings.RECORD_SUFFIX):
            with contextlib.suppress(OSError):  # replaced by the next snapshot meanwhile
                about = path.stat()
                state: tuple[int, ...] = about.st_ino, about.st_size, about.st_mtime_ns
                found[path.stem] = self._decoded(
                    path.name, state, partial(read_regular, path, records.MOST_BYTES)
                )
        for path in kept_files(self._spool):
            self._tables[path.stem] = path
            before = found.get(path.stem)
            last = isinstance(before, Record) and before.state != "snapshot"
            for kept in _kept(path, last=last):
                if not isinstance(before, Record) or kept.perf > before.perf:
                    found[path.stem] = before = kept
        # After the files, since processes may have been gathered meanwhile.
        for ended in gathered.gathered(self._spool):
            self._gathered[ended.name] = ended
            state = (ended.at, ended.compressed)
            found[ended.name] = self._decoded(ended.name + settings.RECORD_SUFFIX, state, ended.record)
        self.files = set(found)
        self.damaged = [notice for notice in found.values() if isinstance(notice, Notice)]
        self._names = {id(read): name for name, read in found.items()}
        return [record for record in found.values() if isinstance(record, Record)]

    def leave_out(self, record: Record, problem: str) -> None:
        """Count a record that was read as damaged."""
        name = self._names[id(record)]
        self.damaged.append(
            Notice("record-unreadable", f"{name}{settings.RECORD_SUFFIX}", {"problem": f"damaged: {problem}"})
        )

    def with_tables(
        self, record: Record, end: endings.Ending, sampled: SeenProcess | None, *, growing: bool
    ) -> Record:
        """Return a record with the functions from its tracer's file; if that is damaged, add a notice."""
        if not record.mapped:
            return record
        name = self._names[id(record)]
        until_s = record.perf if record.state != "snapshot" else None
        if end.lost_s is not None:
            until_s = record.perf + end.lost_s
        names = {known.tid: known.name for known in record.thread_names}
        try:
            if name in self._gathered:
                tables = MappedTables(self._gathered[name].read()[1])
            else:
                path = self._tables.get(name, self._spool / (name + RESERVE_SUFFIX))
                tables = read_tables(path, growing=growing)
            threads = tables.threads(until_s, names, self._thread_ends(record, sampled))
        except (OSError, ValueError) as error:
            self.damaged.append(_unreadable(name + RESERVE_SUFFIX, error))
            return record
        if until_s is None and tables.last_event_s is not None:
            record = replace(record, perf=max(record.perf, tables.last_event_s))
        return replace(
            record,
            codes=tables.codes,
            threads=threads,
            notes=replace(record.notes, tables_full=tables.missed, lost_forks=tables.lost_forks),
            tiers=tuple(Tier(kind, max(0.0, at - record.begin_perf)) for kind, at in tables.tiers),
            effect=None if tables.effect is None else Effect(*tables.effect),
        )

    def _thread_ends(self, record: Record, sampled: SeenProcess | None) -> dict[int, ThreadEnd]:
        """Return the kernel's last known counters of the threads of a process, all since they began."""
        if record.state != "snapshot" and not self._attached:  # those of an attached agent start at 0 with it
            at_ns = int(record.perf * 1e9)
            return {task.tid: ThreadEnd(at_ns, task.run_ns, task.wait_ns) for task in record.tasks}
        ends = {}
        for thread in () if sampled is None else sampled.threads:
            if len(thread.rows):
                at_ns, run_ns, wait_ns = (int(value) for value in thread.rows[-1])
                ends[thread.tid] = ThreadEnd(
                    at_ns, thread.run_before_ns + run_ns, thread.wait_before_ns + wait_ns
                )
        return ends

    def _decoded(self, name: str, state: tuple[int, ...], read: Callable[[], bytes]) -> Record | Notice:
        """Return a record, or a notice if it is damaged; decoded again only if its file's `state` changed."""
        known = self._known.get(name)
        if known is not None and known[0] == state:
            return known[1]
        found: Record | Notice
        try:
            found = records.decode_record(read())
        except (OSError, ValueError) as error:
            found = _unreadable(name, error)
        self._known[name] = state, found
        return found


def _kept(path: Path, *, last: bool) -> Iterator[Record]:
    """Yield the records in a kept file, oldest first; of a tracer's file none if `last` is known."""
    try:
        with path.open("rb") as file:
            of_tracer = file.read(len(mapped_layout.MAGIC)) == mapped_layout.MAGIC
        if not of_tracer:
            found = [read_regular(path, records.MOST_BYTES)]
        else:
            found = [] if last else [*read_tables(path, growing=True).records()]
    except (OSError, ValueError):
        return  # gone, or damaged, which is noted when its tables are read
    for data in found:
        # A damaged one was being written when the process ended; the record before it stands.
        with contextlib.suppress(ValueError):
            yield records.decode_record(data)


def _unreadable(name: str, error: OSError | ValueError) -> Notice:
    problem = getattr(error, "strerror", None) or str(error)
    return Notice("record-unreadable", name, {"problem": problem})


def last_records(
    reader: SpoolRecords, found: list[Record], seen: Mapping[ProcessKey, SeenProcess], seconds: float
) -> tuple[list[Record], dict[ProcessKey, bool | None]]:
    """Return the last records and which processes live, checked first: agents write before they end."""
    deadline = time.monotonic() + seconds
    while True:
        alive = {record.process: _alive(record, seen) for record in found}
        unended = [record for record in found if record.state == "snapshot"]
        if unended:
            found = reader.read()
        if time.monotonic() >= deadline or not any(alive[record.process] for record in unended):
            break
        time.sleep(0.02)
    for record in found:  # new in the last reading
        if record.process not in alive:
            alive[record.process] = _alive(record, seen)
    return found, alive


def _alive(record: Record, seen: Mapping[ProcessKey, SeenProcess]) -> bool | None:
    """Return whether a record's process runs; in another PID namespace it knows itself by another number."""
    process = seen.get(record.process)
    return is_alive(record.kernel, record.pid if process is None else process.pid, record.born)
