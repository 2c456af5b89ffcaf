"""Read one run file into rows of a store's tables, which are defined here. Unknown values are null."""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from profkit.errors import FormatError, UsageError
from profkit.identity.function_keys import function_keys
from profkit.measure.machine_speed import speeds
from profkit.measure.range_stats import range_rows
from profkit.model import ROOTS, Host, Machine, Process, Run
from profkit.model.arrays import Floats
from profkit.model.merge import merge_profiles
from profkit.model.surrogates import spelled_out
from profkit.study.workers import addressed, load, local

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

#: Name and version of the tables; a store of another version must be made again.
SCHEMA = "profkit.fleet/1"
#: Columns of each table, without `job` and `day`, which are in the directories. `run` is the file's SHA-256.
TABLES: Mapping[str, str] = {
    "runs": "run:string path:string bytes:int64 modified_ns:int64 started:timestamp command:string revision:string "
    "dirty:bool exit_status:int64 launcher_job:string rank:int32 world_size:int32 host:string cpu_model:string "
    "cpus:int32 available_cpus:double python:string profkit:string processes:int32 wall_s:double cpu_s:double "
    "run_queue_wait_s:double total_s:double",
    "processes": "run:string process:int32 pid:int64 parent:int64 role:string rank:int32 local_rank:int32 "
    "node:int32 host:string cpu_model:string available_cpus:double command:string exit:string python:string "
    "threads:int32 peak_threads:int32 wall_s:double cpu_s:double run_queue_wait_s:double voluntary_switches:int64 "
    "involuntary_switches:int64 peak_memory_bytes:int64 page_faults:int64 read_bytes:int64 total_s:double "
    "sampled:bool",
    "functions": "run:string process:int32 function:int64 root:string file:string line:int32 name:string "
    "ncalls:int64 primitive_calls:int64 tottime:double cumtime:double wait:double blocked:double share:float",
    "ranges": "run:string process:int32 domain:string name:string mark:bool count:int64 total_s:double "
    "median_s:double p95_s:double wait_s:double",
    "counters": "run:string host:string name:string value:double",
}
#: Part (1) of its process's time below which a function is small. Small rows have their own row groups, which
#: queries about heavy functions skip.
SMALL = 0.0005
#: Columns whose strings repeat from row to row.
_REPEATED = frozenset(("run", "root", "file", "name", "domain", "host"))
#: Modules after ``-m`` that start the program named after them.
_STARTERS = (
    "torch.distributed.",
    "accelerate.commands.",
    "deepspeed.launcher.",
    "mpi4py",
    "cProfile",
    "profkit",
)


def needed(name: str) -> Any:
    """Import a module of the extra; raises `UsageError` if that is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise UsageError("fleet needs DuckDB and pyarrow: pip install 'profkit[fleet]'") from None


def arrow() -> Any:
    """Return pyarrow, with its readers and writers of Parquet."""
    needed("pyarrow.parquet")
    return needed("pyarrow")


def schema_of(table: str) -> pa.Schema:
    pa = arrow()
    # The other kinds are pyarrow's own names of types.
    kinds = {"timestamp": pa.timestamp("us", "UTC"), "repeated": pa.dictionary(pa.int32(), pa.string())}
    columns = [column.split(":") for column in TABLES[table].split()]
    named = [(name, "repeated" if name in _REPEATED else kind) for name, kind in columns]
    return pa.schema([(name, kinds.get(kind, kind)) for name, kind in named])


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file's content; raises `FormatError` if it cannot be read."""
    found = hashlib.sha256()
    try:
        with local(path) as name, open(name, "rb") as file:
            while chunk := file.read(1 << 20):
                found.update(chunk)
    except OSError as error:
        raise FormatError(path, f"cannot be read: {error.strerror}", "check path and permissions") from None
    return found.hexdigest()


def stamp_of(path: str) -> tuple[str, int, int | None]:
    """Return path or address, bytes, and ns of modification if known; raises `FormatError` if unreadable."""
    if "://" in path:
        with addressed(path, "read") as (system, inside):
            size = int(system.size(inside))
            try:
                return path, size, round(system.modified(inside).timestamp() * 1e9)
            except NotImplementedError:  # such as HTTP
                return path, size, None
    try:
        known = os.stat(path)
    except OSError as error:
        raise FormatError(path, f"cannot be read: {error.strerror}") from None
    return os.path.abspath(path), known.st_size, known.st_mtime_ns


def read_rows(path: str, digest: str, job: str) -> tuple[str, str, dict[str, pa.Table]]:
    """Read a file with this digest; return its job (`job` or its command's), its day and its tables.

    Raises `FormatError` if it is unreadable.
    """
    run = load(path)
    whole, size, modified_ns = stamp_of(path)
    manifest = run.manifest
    started = None if manifest is None else _moment(manifest.started)
    moment = started or datetime.datetime.fromtimestamp((modified_ns or 0) / 1e9, datetime.timezone.utc)
    processes = [_process(run, number, process) for number, process in enumerate(run.processes)]
    git = (manifest.git if manifest is not None else None) or {}
    row = {
        "run": digest,
        "path": whole,
        "bytes": size,
        "modified_ns": modified_ns,
        "started": started,
        "command": shlex.join(run.command) or None,
        "revision": git.get("revision"),
        "dirty": git.get("dirty"),
        "exit_status": run.exit_status,
        "launcher_job": run.job.get("id"),
        "rank": run.job.get("rank"),
        "world_size": run.job.get("world_size"),
        **_host(run.host),
        "cpus": run.host and run.host.cpus,
        "python": processes[0]["python"] if processes else None,
        "profkit": None if manifest is None else manifest.profkit,
        "processes": len(processes),
        "wall_s": run.wall_s,
        **{name: _sum(p[name] for p in processes) for name in ("cpu_s", "run_queue_wait_s", "total_s")},
    }
    tables = {
        "runs": _table("runs", [row]),
        "processes": _table("processes", [{"run": digest, **p} for p in processes]),
        "functions": _functions(run, digest),
        "ranges": _table("ranges", [{"run": digest, **r} for r in _ranges(run)]),
        "counters": _table("counters", [{"run": digest, **c} for c in _counters(run)]),
    }
    return job or job_of(run.command, path), moment.date().isoformat(), tables


#: What distinguishes the files of one job: dates, numbers and ranks at the end, behind ``-`` or ``_``.
_NUMBERED = re.compile(r"(?:[-_](?:rank)?\d[\dT]*)+$|^\d[\dT_-]*$")


def job_of(command: Sequence[str], path: str = "") -> str:
    """Return the job's name: a command's script or module, or the leading words of the file's name."""
    for at, word in enumerate(command):
        if word.endswith((".py", ".pyc", ".ipynb")):
            return PurePath(word.replace("\\", "/")).stem or "unknown"
        module = command[at + 1] if word == "-m" and at + 1 < len(command) else ""
        if module and not module.startswith(_STARTERS):
            return module
    if command:
        return PurePath(command[0].replace("\\", "/")).name or "unknown"
    # train-2026-03-01.rank3.prof belongs to the job train.
    return _NUMBERED.sub("", PurePath(path).name.partition(".")[0]) or "unknown"


def _moment(text: str) -> datetime.datetime | None:
    """Return a timestamp in UTC, ``None`` if it is invalid."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        known = moment.tzinfo or datetime.timezone.utc
        return moment.replace(tzinfo=known).astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        return None


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _process(run: Run, number: int, process: Process) -> dict[str, Any]:
    same = (
        "pid parent role rank local_rank node wall_s cpu_s run_queue_wait_s voluntary_switches involuntary_switches "
        "peak_threads peak_memory_bytes page_faults read_bytes"
    )
    return {
        "process": number,
        **{name: getattr(process, name) for name in same.split()},
        **_host(process.host or run.host),
        "command": shlex.join(process.command) or None,
        "exit": process.exit or None,
        "python": process.python or None,
        "threads": len(process.threads),
        "total_s": math.fsum(thread.profile.total for thread in process.threads),
        "sampled": any(thread.profile.calls_low is not None for thread in process.threads),
    }


def _host(host: Host | None) -> dict[str, Any]:
    return {
        "host": host and (host.name or None),
        "cpu_model": host and (host.cpu_model or None),
        "available_cpus": host and host.available_cpus,
    }


def _ranges(run: Run) -> list[dict[str, Any]]:
    numbers = "count total_s median_s p95_s wait_s"
    return [
        {
            "process": number,
            "domain": row.key.domain,
            "name": row.key.name,
            "mark": row.key.mark,
            **{name: getattr(row, name) for name in numbers.split()},
        }
        for number, process in enumerate(run.processes)
        for row in range_rows([process])
    ]


def _counters(run: Run) -> list[dict[str, Any]]:
    """Return the machine's counters by their names in the run file, and yardsticks as ``yardstick NAME``."""
    host = "" if run.host is None else run.host.name
    machines = dict(run.machines) or ({host: run.machine} if run.machine is not None else {})
    found = [
        {"host": of or None, "name": field.name, "value": float(value)}
        for of, machine in machines.items()
        for field in fields(Machine)
        if isinstance(value := getattr(machine, field.name), int | float)
    ]
    found += [
        {"host": host or None, "name": f"yardstick {name}", "value": speed.seconds}
        for name, speed in speeds((run,)).items()
    ]
    return found


def _functions(run: Run, digest: str) -> pa.Table:
    pa = arrow()
    parts = []
    for number, process in enumerate(run.processes):
        profile = merge_profiles([thread.profile for thread in process.threads], edges=False)
        keys = function_keys(profile, process.roots)
        n, total = len(profile), profile.total

        def texts(index: npt.NDArray[Any], table: Sequence[str]) -> Any:
            return pa.DictionaryArray.from_arrays(
                index.astype(np.int32), pa.array(list(map(spelled_out, table)))
            )

        def known(values: Floats | None, n: int = n) -> Any:
            return pa.nulls(n, pa.float64()) if values is None else pa.array(values, from_pandas=True)

        unseen = None if profile.calls_low is None else np.isnan(profile.calls_low)
        parts.append(
            [
                texts(np.zeros(n), [digest]),
                pa.array(np.full(n, number, np.int32)),
                pa.array([_identity(key.root, key.path, key.qualname) for key in keys], pa.int64()),
                texts(keys.root, ROOTS),
                texts(keys.file, [path for _, path in keys.places]),
                pa.array(profile.line),
                texts(keys.name.which, keys.name.values),
                pa.array(profile.ncalls, mask=unseen),
                pa.array(profile.primitive_calls, mask=unseen),
                *map(known, (profile.tottime, profile.cumtime, profile.wait, profile.blocked)),
                pa.array((profile.tottime / total if total > 0 else np.zeros(n)).astype(np.float32)),
            ]
        )
    schema = schema_of("functions")
    made = [pa.Table.from_arrays(part, schema=schema) for part in parts]
    return pa.concat_tables(made) if made else schema.empty_table()


@lru_cache(1 << 17)
def _identity(root: str, path: str, name: str) -> int:
    """Return a function's number, the same in all runs; tables are grouped by it."""
    text = "\0".join((root, path, name)).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    plain = [{k: spelled_out(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
    return arrow().Table.from_pylist(plain, schema=schema_of(name))
