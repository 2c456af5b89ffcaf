"""Turns a spool directory, with one record per process image, into a `profkit.model.Run`.

Reads what agents wrote (of processes that ended, were killed or still run), names functions, hashes their
source, finds each process's role, and notes what is not as a reader would expect. Writes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from profkit import __version__
from profkit.capture import counters, machines, nvtx, record_notices, records
from profkit.capture import host as host_facts
from profkit.capture.agent import settings
from profkit.capture.packages import installed_packages
from profkit.capture.pool_records import pools_of
from profkit.capture.record_types import Launch, Record
from profkit.capture.tables import ThreadTables
from profkit.errors import FormatError
from profkit.formats.runfile import SCHEMA
from profkit.model import Host, Manifest, Notice, Process, Roots, Run, Thread

__all__ = ["pack_spool"]

#: Seconds to wait for processes that outlive the target by a moment and are about to write their last record.
_STRAGGLER_WAIT = 0.3


def pack_spool(spool: Path, *, wait_for_stragglers: bool = False) -> Run:
    """Return the run that a spool directory holds.

    Parameters
    ----------
    spool
        Directory that ``profkit capture`` made (``.run.prof.spool-…``), with ``launch.json`` and records.
    wait_for_stragglers
        Give processes that are still alive a moment to end.

    Raises
    ------
    FormatError
        The directory is not one, or its ``launch.json`` cannot be read. A damaged record is a warning.
    """
    launch = _read_launch(spool)
    reader = _Reader(spool)
    found = reader.read()
    if wait_for_stragglers and _any_running(found):
        deadline = time.monotonic() + _STRAGGLER_WAIT
        while time.monotonic() < deadline and _any_running(found):
            time.sleep(0.02)
            found = reader.read()
    found.sort(key=lambda record: (record.begin_time, record.pid))
    machine_host = launch.host or host_facts.read_host()
    tables = ThreadTables()
    cores = host_facts.physical_cores()
    processes = [_process(record, machine_host, tables, cores) for record in found]
    processes = _with_roles(processes, found)
    warnings = [
        *reader.damaged,
        *record_notices.of_launch(launch, found),
        *record_notices.of_processes(found, processes),
    ]
    processes, thread_names, of_ranges = nvtx.attach(spool, found, processes)
    warnings += of_ranges
    sampled, of_samples = counters.read_sampled(spool)
    warnings += of_samples
    processes = counters.attach(sampled, launch, found, processes, machine_host)
    processes = nvtx.with_thread_names(processes, thread_names)
    machine = machines.of_run(launch, sampled, machine_host)
    manifest = Manifest(
        schema=SCHEMA,
        profkit=__version__,
        command=launch.command,
        cwd=launch.cwd,
        exit_status=launch.exit_status,
        started=launch.started,
        wall_s=launch.wall_s or _span(found),
        host=machine_host,
        environment=launch.environment,
        packages=installed_packages(entry for record in found[:1] for entry in record.path),
        git=launch.git,
        job=launch.job,
        clocks=launch.clocks,
        sampler=counters.summary(sampled, counters.unseen(machine, processes)),
    )
    return Run(
        path=str(spool),
        processes=tuple(_primary_first(processes))
        or (Process(command=manifest.command, exit="not profiled", profiled=False),),
        manifest=manifest,
        machine=machine,
        warnings=tuple(dict.fromkeys(warnings)),
        series=sampled.series if sampled is not None else None,
        machines=machines.by_host(machine, machine_host, found),
    )


def _read_launch(spool: Path) -> Launch:
    path = spool / "launch.json"
    try:
        return records.read_launch(path)
    except OSError as error:
        raise FormatError(spool, f"is not a spool directory: {error.strerror}: launch.json") from None
    except ValueError as error:
        raise FormatError(path, f"is damaged ({error})") from None


class _Reader:
    """Reads a spool's records; one that has not changed since is not read again.

    Attributes
    ----------
    damaged
        What was wrong at the last reading.
    """

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        self._known: dict[str, tuple[tuple[int, ...], Record | Notice]] = {}
        self.damaged: list[Notice] = []

    def read(self) -> list[Record]:
        """Return the records that are whole, as they are now."""
        found = []
        for path in sorted(self._spool.glob("*" + settings.RECORD_SUFFIX)):
            try:
                about = path.stat()
                state = (about.st_ino, about.st_size, about.st_mtime_ns)
            except OSError:
                continue  # replaced by its next snapshot while the directory was listed
            before = self._known.get(path.name)
            if before is None or before[0] != state:
                self._known[path.name] = state, _read_record(path)
            found.append(self._known[path.name][1])
        self.damaged = [notice for notice in found if isinstance(notice, Notice)]
        return [record for record in found if isinstance(record, Record)]


def _read_record(path: Path) -> Record | Notice:
    try:
        return records.read_record(path)
    except OSError as error:
        problem = error.strerror or str(error)
    except ValueError as error:
        problem = str(error)
    return Notice("record-unreadable", path.name, {"problem": problem})


def _any_running(found: Sequence[Record]) -> bool:
    return any(_alive(record) for record in found if record.state == "snapshot")


def _alive(record: Record) -> bool:
    """Whether the process of a record runs on this host, as itself and not as another with its number."""
    return counters.is_alive(record.kernel, record.pid, record.born)


def _span(found: Sequence[Record]) -> float:
    """Seconds from the first record's beginning to the last one's end: for a launcher that was killed."""
    if not found:
        return 0.0
    return max(0.0, max(record.time for record in found) - min(record.begin_time for record in found))


# Processes


def _process(record: Record, launch_host: Host, tables: ThreadTables, cores: int | None) -> Process:
    tasks = {task.tid: task for task in record.tasks}
    state: str = record.state
    if state == "snapshot":
        state = "running" if _alive(record) else "killed"
    threads = []
    for index, table in enumerate(record.threads):
        profile, open_calls, inside = tables.profile(record, table)
        # A table without functions is kept for the main thread alone: its counters belong there.
        if len(profile) == 0 and index > 0:
            continue
        task = tasks.pop(table.native, None) if table.native is not None else None
        known = counters.of_task(task) if task is not None else {}
        threads.append(
            Thread(profile, table.native, table.name, open_calls=open_calls, range_calls=inside, **known)
        )
    for task in tasks.values():  # threads of native libraries
        threads.append(Thread(tables.empty(), task.tid, task.name, **counters.of_task(task)))
    here = record.host in ("", launch_host.name)
    host = replace(
        launch_host if here else Host(name=record.host, system=launch_host.system),
        cpus=record.cpus,
        affinity=record.affinity,
        affinity_cpus=record.affinity_cpus,
    )
    return Process(
        pid=record.pid,
        parent=record.ppid,
        role="child",
        rank=record.rank,
        command=record.argv,
        exit=state,
        python=record.version,
        wall_s=record.wall_s,
        cpu_s=record.cpu_s,
        run_queue_wait_s=sum(task.wait_ns for task in record.tasks) / 1e9 if record.tasks else None,
        voluntary_switches=record.voluntary_switches,
        involuntary_switches=record.involuntary_switches,
        peak_memory_bytes=record.peak_memory_bytes,
        page_faults=record.page_faults,
        read_bytes=record.read_bytes,
        threads=tuple(threads),
        roots=_roots(record),
        host=host,
        environment=record.environment,
        notes=record_notices.of_process(record),
        pools=pools_of(record, host, cores if here else None),
    )


def _roots(record: Record) -> Roots:
    """Where this interpreter finds code: standard library, installed packages, and the rest of its path."""
    site, project = [], []
    for entry in record.path:
        if not entry or entry.endswith(".zip"):
            continue
        name = os.path.basename(entry.rstrip("/"))
        if name in ("site-packages", "dist-packages"):
            site.append(entry)
        elif not _is_within(entry, record.stdlib):
            project.append(entry)
    if record.cwd:
        project.append(record.cwd)
    return Roots((record.stdlib,), tuple(dict.fromkeys(site)), tuple(dict.fromkeys(project)))


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _with_roles(processes: Sequence[Process], found: Sequence[Record]) -> list[Process]:
    """Name what each process is: the first of each rank is that rank, the first of all is main."""
    by_pid: dict[int | None, int] = {}
    has_ranks = any(record.of_job and record.rank is not None for record in found)
    result: list[Process] = []
    for index, (process, record) in enumerate(zip(processes, found, strict=True)):
        parent = by_pid.get(process.parent)
        of_rank = process.rank is not None and record.of_job
        if record.worker:
            role = "worker"
        elif of_rank and (parent is None or result[parent].rank != process.rank):
            role = "rank"
        elif (
            parent is None and by_pid.get(process.pid) is None and index == 0 and not (has_ranks and of_rank)
        ):
            role = "main"
        else:
            previous = by_pid.get(process.pid)  # the same process after an exec keeps its role
            role = result[previous].role if previous is not None else "child"
        result.append(replace(process, role=role, rank=process.rank if of_rank else None))
        by_pid[process.pid] = index
    return result


def _primary_first(processes: list[Process]) -> list[Process]:
    """Put first what viewers shall see: the ranks of a job in order, else the main process's last image."""

    def order(indexed: tuple[int, Process]) -> tuple[int, int]:
        index, process = indexed
        if process.role == "rank" and process.rank is not None and process.exit != "replaced":
            return 0, process.rank
        if process.role == "main":
            return (1 if process.exit != "replaced" else 2), index
        return 3, index

    return [process for _, process in sorted(enumerate(processes), key=order)]
