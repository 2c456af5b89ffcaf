"""Turns a spool directory, with one record per process image, into a `profkit.model.Run`.

Reads what agents wrote (of processes that ended, were killed or still run), names functions, hashes their
source, finds each process's role, and notes what is not as a reader would expect. Writes nothing.
"""

from __future__ import annotations

import json
import marshal
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from profkit import __version__
from profkit.capture import counters, machines, nvtx, record_notices
from profkit.capture import host as host_facts
from profkit.capture.agent import settings
from profkit.capture.packages import installed_packages
from profkit.capture.pool_records import pools_of
from profkit.capture.tables import ThreadTables
from profkit.errors import FormatError
from profkit.formats.codec import Codec
from profkit.formats.run_notices import read_notices
from profkit.formats.runfile import SCHEMA
from profkit.model import Host, Manifest, Notice, Process, Roots, Run, Thread

__all__ = ["pack_spool"]

#: Seconds to wait for processes that outlive the target by a moment and are about to write their last record.
_STRAGGLER_WAIT = 0.3

#: A record larger than this is not one of ours.
_MOST_BYTES = 2**30

_HOST = Codec(Host)


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
    records, damaged = _read_records(spool)
    if wait_for_stragglers and any(_alive(r) for r in records if r["state"] == "snapshot"):
        deadline = time.monotonic() + _STRAGGLER_WAIT
        while time.monotonic() < deadline and any(_alive(r) for r in records if r["state"] == "snapshot"):
            time.sleep(0.02)
            records, damaged = _read_records(spool)
    records.sort(key=lambda r: (r["begin_time"], r["pid"]))
    machine_host = launch["host"] or host_facts.read_host()
    tables = ThreadTables()
    cores = host_facts.physical_cores()
    processes = [_process(record, machine_host, tables, cores) for record in records]
    processes = _with_roles(processes, records)
    warnings = [
        *damaged,
        *record_notices.of_launch(launch, records),
        *record_notices.of_processes(records, processes),
    ]
    processes, thread_names, of_ranges = nvtx.attach(spool, records, processes)
    warnings += of_ranges
    sampled, of_samples = counters.read_sampled(spool)
    warnings += of_samples
    processes = counters.attach(sampled, launch, records, processes, machine_host)
    processes = nvtx.with_thread_names(processes, thread_names)
    machine = machines.of_run(launch, sampled, machine_host)
    unseen = counters.unseen(machine, processes)
    if sampled is not None and unseen:
        sampled.summary["notes"] += (unseen,)
    manifest = Manifest(
        schema=SCHEMA,
        profkit=__version__,
        command=tuple(launch["command"]),
        cwd=launch["cwd"],
        exit_status=launch.get("exit_status"),
        started=launch["started"],
        wall_s=float(launch.get("wall_s") or _span(records)),
        host=machine_host,
        environment=launch.get("environment") or {},
        packages=installed_packages(entry for r in records[:1] for entry in r["path"]),
        git=launch.get("git"),
        job=launch.get("job"),
        clocks=launch.get("clocks") or {},
        sampler=sampled.summary if sampled is not None else None,
    )
    return Run(
        path=str(spool),
        processes=tuple(_primary_first(processes))
        or (Process(command=manifest.command, exit="not profiled", profiled=False),),
        manifest=manifest,
        machine=machine,
        warnings=tuple(dict.fromkeys(warnings)),
        series=sampled.series if sampled is not None else None,
        machines=machines.by_host(machine, machine_host, records),
    )


def _read_launch(spool: Path) -> dict[str, Any]:
    """Return what the launcher wrote; ``host`` is a `Host`, ``None`` where it did not come to that."""
    path = spool / "launch.json"
    try:
        launch = json.loads(path.read_text(encoding="utf-8"))
        launch["command"], launch["cwd"], launch["started"]
        launch["host"] = _HOST.read("host", launch["host"]) if launch.get("host") else None
        launch["warnings"] = read_notices("warnings", launch.get("warnings", []))
    except OSError as error:
        raise FormatError(spool, f"is not a spool directory: {error.strerror}: launch.json") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(path, f"is damaged ({error})") from None
    return dict(launch)


def _read_records(spool: Path) -> tuple[list[dict[str, Any]], list[Notice]]:
    records: list[dict[str, Any]] = []
    damaged: list[Notice] = []
    for path in sorted(spool.glob("*" + settings.RECORD_SUFFIX)):
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("too large")
            record = marshal.loads(path.read_bytes())
            if record["format"] != settings.RECORD_FORMAT:
                raise ValueError(f"format {record['format']}")
            records.append(record)
        except FileNotFoundError:
            continue  # replaced by its next snapshot while the directory was listed
        except (OSError, ValueError, EOFError, TypeError, KeyError) as error:
            damaged.append(Notice("record-unreadable", path.name, {"problem": str(error)}))
    return records, damaged


def _alive(record: Mapping[str, Any]) -> bool:
    """Whether the process of a record runs on this host, as itself and not as another with its number."""
    return counters.is_alive(counters.kernel_of(record), record["pid"], record["born"])


def _span(records: Iterable[Mapping[str, Any]]) -> float:
    """Seconds from the first record's beginning to the last one's end: for a launcher that was killed."""
    begins, ends = [], []
    for record in records:
        begins.append(record["begin_time"])
        ends.append(record["time"])
    return max(ends) - min(begins) if begins else 0.0


# Processes


def _process(
    record: Mapping[str, Any], launch_host: Host, tables: ThreadTables, cores: int | None
) -> Process:
    tasks = {task[0]: task for task in record["tasks"]}
    state = record["state"]
    if state == "snapshot":
        state = "running" if _alive(record) else "killed"
    threads = []
    for index, table in enumerate(record["threads"]):
        tid = table["native"]
        profile, open_calls, inside = tables.profile(record, table)
        # A table without functions is kept for the main thread alone: its counters belong there.
        if len(profile) == 0 and index > 0:
            continue
        task = tasks.pop(tid, None)
        known = counters.of_task(task) if task else {}
        threads.append(
            Thread(profile, tid, table["name"], open_calls=open_calls, range_calls=inside, **known)
        )
    for task in tasks.values():  # threads of native libraries
        threads.append(Thread(tables.empty(), task[0], task[1], **counters.of_task(task)))
    waits = [task[3] for task in record["tasks"]]
    here = record["host"] in ("", launch_host.name)
    host = replace(
        launch_host if here else Host(name=record["host"], system=launch_host.system),
        cpus=record["cpus"],
        affinity=record["affinity"],
        affinity_cpus=tuple(record.get("affinity_cpus") or ()),
    )
    return Process(
        pid=record["pid"],
        parent=record["ppid"],
        role="child",
        rank=record["rank"],
        command=tuple(record["argv"]),
        exit=state,
        python=record["version"],
        wall_s=record["perf"] - record["begin_perf"],
        cpu_s=record.get("cpu_s"),
        run_queue_wait_s=sum(waits) / 1e9 if waits else None,
        voluntary_switches=record.get("voluntary_switches"),
        involuntary_switches=record.get("involuntary_switches"),
        peak_memory_bytes=record.get("peak_memory_bytes"),
        page_faults=record.get("page_faults"),
        read_bytes=record.get("read_bytes"),
        threads=tuple(threads),
        roots=_roots(record),
        host=host,
        environment=record["environment"],
        notes=record_notices.of_process(record),
        pools=pools_of(record, host, cores if here else None),
    )


def _roots(record: Mapping[str, Any]) -> Roots:
    """Where this interpreter finds code: standard library, installed packages, and the rest of its path."""
    site, project = [], []
    stdlib = record["stdlib"]
    for entry in record["path"]:
        if not entry or entry.endswith(".zip"):
            continue
        name = os.path.basename(entry.rstrip("/"))
        if name in ("site-packages", "dist-packages"):
            site.append(entry)
        elif not _is_within(entry, stdlib):
            project.append(entry)
    if record["cwd"]:
        project.append(record["cwd"])
    return Roots((stdlib,), tuple(dict.fromkeys(site)), tuple(dict.fromkeys(project)))


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _with_roles(processes: Sequence[Process], records: Sequence[Mapping[str, Any]]) -> list[Process]:
    """Name what each process is: the first of each rank is that rank, the first of all is main."""
    by_pid: dict[int | None, int] = {}
    has_ranks = len({r["rank"] for r in records if (r["world_size"] or 1) > 1 and r["rank"] is not None}) > 0
    result: list[Process] = []
    for index, (process, record) in enumerate(zip(processes, records, strict=True)):
        parent = by_pid.get(process.parent)
        of_rank = process.rank is not None and (record["world_size"] or 1) > 1
        if record["worker"]:
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
