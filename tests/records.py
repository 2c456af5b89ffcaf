"""Records as agents, the sampler and the launcher write them, for tests: plain values, and the types made of them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.capture import records
from profkit.capture.agent import record_file, settings
from profkit.capture.record_types import Launch, Record, Sampled

#: File, line, name and qualified name of the functions that a record has unless a test says otherwise.
CODES = (
    ("/lib/a.py", 1, "outer", "outer"),
    ("/lib/a.py", 5, "inner", ""),
    ("~", 0, "<built-in method x>", ""),
)


def packed_codes(codes: Sequence[tuple[str, int, str, str]]) -> dict[str, Any]:
    """Return functions as they are in a record."""
    files = list(dict.fromkeys(file for file, *_ in codes))
    places = [value for file, line, *_ in codes for value in (files.index(file), line)]
    return record_file.pack_codes(files, places, [text for code in codes for text in code[2:]])


def table(**rows: Any) -> dict[str, Any]:
    """Return the packed table of one thread; tables are given as lists of rows."""
    found: dict[str, Any] = {"native": None, "name": "", "measured": False}
    for name, value in rows.items():
        found[name] = record_file.flat(value) if name in record_file.WIDTHS else value
    return record_file.pack(found)


def raw_record(**changes: Any) -> dict[str, Any]:
    """Return what an agent writes of one process, before it is packed."""
    base: dict[str, Any] = {
        "pid": 10,
        "ppid": 1,
        "born": 77,
        "forked": False,
        "host": "here",
        "boot": "boot",
        "implementation": "cpython",
        "version": "3.11.2",
        "executable": "/usr/bin/python3",
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
        "nvtx": False,
        "cpus": 4,
        "affinity": 4,
        "affinity_cpus": [0, 1, 2, 3],
        "tasks": [],
        "agent_tids": [],
        "pools": None,
        "notes": {},
        "codes": packed_codes(CODES),
        "threads": [],
    }
    return {**base, **changes}


def record_bytes(**changes: Any) -> bytes:
    """Return the file of a record."""
    return b"".join(record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, raw_record(**changes)))


def record(**changes: Any) -> Record:
    """Return a record, read as the packer reads it."""
    return records.decode_record(record_bytes(**changes))


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
