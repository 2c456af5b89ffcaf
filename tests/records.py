"""Records as agents, the sampler and the launcher write them, for tests: plain values, and the types made of them."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture import native, records
from profkit.capture.agent import process_facts, record_file, settings
from profkit.capture.record_types import Launch, Record, Sampled
from profkit.capture.thread_tables import TABLES, Codes, ThreadTable, rows
from tests.requirements import require

SECOND = 10**9

#: File, line, name and qualified name of the functions that a record has unless a test says otherwise.
CODES = (
    ("/lib/a.py", 1, "outer", "outer"),
    ("/lib/a.py", 5, "inner", ""),
    ("~", 0, "<built-in method x>", ""),
)


def codes_of(codes: Sequence[tuple[str, int, str, str]]) -> Codes:
    """Return functions as a tracer's file has them."""
    files = list(dict.fromkeys(file for file, *_ in codes))
    file, line, name, qualname = zip(*((files.index(file), *rest) for file, *rest in codes), strict=True)
    return Codes(tuple(files), np.array(file), np.array(line), name, qualname)


def table(**given: Any) -> ThreadTable:
    """Return the table of one thread; its tables are given as lists of rows."""
    found: dict[str, Any] = {"native": None, "name": "", **given}
    for name in TABLES.keys() & given.keys():
        found[name] = rows(name, *np.array(given[name], np.float64).T) if given[name] else rows(name)
    return ThreadTable(**found)


def record_bytes(**changes: Any) -> bytes:
    """Return the file of a record: what an agent writes of one process."""
    base: dict[str, Any] = {
        "pid": 10,
        "ppid": 1,
        "born": 77,
        "forked": False,
        "host": "here",
        "boot": "boot",
        "version": "3.11.2",
        "stdlib": "/usr/lib/python3.11",
        "state": "exited",
        "tracer": "native",
        "begin_time": 1_700_000_000.0,
        "begin_perf": 0.0,
        "time": 1_700_000_010.0,
        "perf": 10.0,
        "argv": ["python", "a.py"],
        "cwd": "/work",
        "path": ["/lib"],
        "environment": {"OMP_NUM_THREADS": "4"},
        "environment_at_start": {"OMP_NUM_THREADS": "4"},
        "rank": None,
        "world_size": None,
        "worker": "",
        "cpus": 4,
        "affinity": 4,
        "affinity_cpus": [0, 1, 2, 3],
        "tasks": [],
        "agent_tids": [],
        "pools": None,
        "notes": {},
    }
    return b"".join(record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, {**base, **changes}))


def record(
    threads: Sequence[ThreadTable] = (), codes: Sequence[tuple[str, int, str, str]] = CODES, **changes: Any
) -> Record:
    """Return a record, read as the packer reads it, with the functions of a tracer's file."""
    read = records.decode_record(record_bytes(**changes))
    return replace(read, codes=codes_of(codes), threads=tuple(threads))


def launch(**changes: Any) -> Launch:
    """Return the launcher's facts, read as the packer reads them."""
    facts = {"command": ["program", "10"], "cwd": "/work", "started": "2026-01-01T00:00:00+00:00", **changes}
    return records.decode_launch(json.dumps(facts).encode())


def samples_bytes(processes: Sequence[Mapping[str, Any]] = (), **changes: Any) -> bytes:
    """Return the file of the sampler."""
    base: dict[str, Any] = {
        "host": "here",
        "boot": "boot",
        "root": 10,
        "period_s": 0.05,
        "samples": 200,
        "cpu_s": 0.1,
        "notes": [],
        "machine": None,
        "processes": list(processes),
    }
    encoded = record_file.encode(record_file.SAMPLES_MAGIC, settings.SAMPLES_FORMAT, {**base, **changes})
    return b"".join(encoded)


def sampled(
    *processes: Mapping[str, Any],
    root: int = 10,
    time_ns: Sequence[int] | None = None,
    columns: Mapping[str, Sequence[float]] | None = None,
) -> Sampled:
    """Return what the sampler wrote, read as the packer reads it."""
    machine = None
    if time_ns is not None:
        machine = {
            "time_ns": array("q", time_ns).tobytes(),
            "columns": {name: array("d", column).tobytes() for name, column in (columns or {}).items()},
            "quota_cpus": None,
        }
    return records.decode_samples(samples_bytes(processes, root=root, machine=machine))


def thread(tid: int, run_s: float, wait_s: float = 0.0, times: tuple[float, ...] = (1.0,)) -> dict[str, Any]:
    """Return what the sampler saw of a thread that ran and queued evenly up to these seconds."""
    parts = [nth / len(times) for nth in range(1, len(times) + 1)]
    evenly = ((at, run_s * part, wait_s * part) for at, part in zip(times, parts, strict=True))
    return read_thread(tid, *evenly)


def read_thread(tid: int, *readings: tuple[float, float, float]) -> dict[str, Any]:
    """Return what the sampler saw of a thread: readings of time, run time and waiting, seconds."""
    _, run_s, wait_s = readings[-1]
    rows = array("q", [int(value * SECOND) for reading in readings for value in reading])
    return {
        "tid": tid,
        "name": f"t{tid}",
        "run_ns": int(run_s * SECOND),
        "wait_ns": int(wait_s * SECOND),
        "timeslices": 3,
        "user_s": run_s,
        "system_s": 0.0,
        "voluntary": 5,
        "involuntary": 2,
        "run_before_ns": 0,
        "wait_before_ns": 0,
        "rows": rows.tobytes(),
    }


def seen(pid: int, *threads: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return what the sampler saw of a process with these threads."""
    return {
        "pid": pid,
        "ns_pid": pid,
        "parent": 1,
        "born": 77,
        "command": ["program", str(pid)],
        "cpu_s": sum(t["run_ns"] for t in threads) / SECOND,
        "first_ns": SECOND,
        "last_ns": 9 * SECOND,
        "gone_ns": 0,
        "peak_threads": len(threads),
        "alive": False,
        "folded": [0, 0, 0],
        "threads": list(threads),
        **fields,
    }


def traced_spool(spool: Path) -> dict[str, str]:
    """Make a spool directory; returns the variables of a Python that leaves the tables of its tracer there."""
    require("native", any(Path(native.__file__).parent.glob("lib/_tracer*")), "the tracer was not compiled")
    spool.mkdir(exist_ok=True)
    (spool / settings.sampled_mark(process_facts.boot_id())).touch()
    (spool / "launch.json").write_text('{"command": ["x"], "cwd": "/", "started": "", "wall_s": 1.0}')
    inject = Path(records.__file__).parent / "agent" / "inject"
    environment = {**os.environ, "PYTHONPATH": str(inject), settings.SPOOL_VARIABLE: str(spool)}
    environment.pop(settings.DISABLE_NATIVE_VARIABLE, None)
    return environment
