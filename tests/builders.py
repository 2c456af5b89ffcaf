"""Small profiles and runs for the tests of the analysis, written as what a reader sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from profkit.model import (
    Edges,
    Host,
    Machine,
    Manifest,
    Process,
    Profile,
    Ranges,
    Run,
    RunSet,
    Thread,
    Yardstick,
)
from profkit.model.ranges import OPEN, PUSHED


@dataclass(frozen=True)
class Row:
    """One function."""

    file: str
    line: int
    name: str
    ncalls: int = 1
    tottime: float = 0.0
    cumtime: float | None = None
    qualname: str = ""
    source: str = ""
    wait: float | None = None
    cumwait: float | None = None


def profile(rows: Sequence[Row], edges: Sequence[tuple[int, int, int, float]] | None = None) -> Profile:
    """Build a profile; edges are (caller, callee, calls, self seconds)."""
    table: dict[str, int] = {"": 0}

    def column(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array([table.setdefault(t, len(table)) for t in texts], np.int32)

    files, names = column([r.file for r in rows]), column([r.name for r in rows])
    qualnames, sources = column([r.qualname for r in rows]), column([r.source for r in rows])
    calls = np.array([r.ncalls for r in rows], np.int64)
    tottime = np.array([r.tottime for r in rows], np.float64)
    waits, cumwaits = [r.wait for r in rows], [r.cumwait for r in rows]
    built = None
    if edges is not None:
        count = np.array([e[2] for e in edges], np.int64)
        times = np.array([e[3] for e in edges], np.float64)
        built = Edges(
            np.array([e[0] for e in edges], np.int32),
            np.array([e[1] for e in edges], np.int32),
            *(count, count, times, times),
        )
    return Profile(
        strings=tuple(table),
        file=files,
        line=np.array([r.line for r in rows], np.int32),
        name=names,
        qualname=qualnames,
        module=np.zeros(len(rows), np.int32),
        source_hash=sources,
        ncalls=calls,
        primitive_calls=calls,
        tottime=tottime,
        cumtime=np.array([r.tottime if r.cumtime is None else r.cumtime for r in rows], np.float64),
        edges=built,
        wait=None if any(w is None for w in waits) or not waits else np.array(waits, np.float64),
        cumwait=None if None in cumwaits or not rows else np.array(cumwaits, np.float64),
    ).validate()


def times_of(prof: Profile) -> dict[str, tuple[float, float]]:
    """Return self time, and time with what it called, of each function by name."""
    times = zip(prof.tottime.tolist(), prof.cumtime.tolist(), strict=True)
    return dict(zip([prof.strings[i] for i in prof.name], times, strict=True))


#: Calls with their limits, samples, and error of the self time.
Known = tuple[float, float, int, float]


def with_estimates(plain: Profile, known: Sequence[Known]) -> Profile:
    """Build the profile whose calls and times are known so well."""
    low, high, samples, error = zip(*known, strict=True)
    columns: dict[str, Any] = {
        "calls_low": np.array(low, np.float64),
        "calls_high": np.array(high, np.float64),
        "samples": np.array(samples, np.int64),
        "tottime_error": np.array(error, np.float64),
    }
    return replace(plain, **columns).validate()


class Told(NamedTuple):
    """One NVTX range as a program told it; times are nanoseconds."""

    name: str
    begin: int
    end: int = OPEN
    kind: int = PUSHED
    thread: int = 10
    domain: str = ""
    category: str = ""
    color: int = 0
    payload: tuple[int, int] = (0, 0)
    parent: int = -1


def ranges(rows: Sequence[Told]) -> Ranges:
    """Build the ranges of a process, in the order given."""
    texts = dict.fromkeys(["", *(text for row in rows for text in (row.name, row.domain, row.category))])
    at = {text: i for i, text in enumerate(texts)}
    return Ranges(
        strings=tuple(texts),
        name=np.array([at[row.name] for row in rows], np.int32),
        domain=np.array([at[row.domain] for row in rows], np.int32),
        category=np.array([at[row.category] for row in rows], np.int32),
        kind=np.array([row.kind for row in rows], np.uint8),
        thread=np.array([row.thread for row in rows], np.int64),
        begin_ns=np.array([row.begin for row in rows], np.int64),
        end_ns=np.array([row.end for row in rows], np.int64),
        parent=np.array([row.parent for row in rows], np.int32),
        color=np.array([row.color for row in rows], np.uint32),
        payload_type=np.array([row.payload[0] for row in rows], np.uint8),
        payload=np.array([row.payload[1] for row in rows], np.uint64),
    ).validate()


def foreign(*profiles: Profile) -> RunSet:
    """Build a side of plain profiles: no manifest, no counters."""
    runs = (Run(f"side-{i}.prof", (Process(threads=(Thread(p),)),)) for i, p in enumerate(profiles))
    return RunSet("side", tuple(runs))


def manifest(wall: float, host: Host, **known: Any) -> Manifest:
    """Build the manifest of a training that took so long on a host."""
    usual = {"schema": "profkit.run/1", "profkit": "0", "command": ("python", "train.py"), "cwd": "/w"}
    usual |= {"exit_status": 0, "started": "2026-01-01T00:00:00Z", "wall_s": wall, "host": host}
    return Manifest(**{**usual, **known})


def captured(
    prof: Profile,
    *,
    wall: float,
    run: float,
    wait: float,
    busy: float | None = None,
    cpus: int = 2,
    children: Sequence[tuple[float, float]] = (),
    throttled: tuple[int, int] = (0, 0),
    cpu_model: str = "cpu",
    host: str = "host",
    environment: dict[str, str] | None = None,
    command: tuple[str, ...] = ("python", "train.py"),
    python: str = "3.11.7",
) -> Run:
    """Build a run of one profiled process and unprofiled children (run, wait), with counters."""
    machine_host = Host(name=host, cpu_model=cpu_model, cpus=cpus, affinity=cpus)
    main = Process(
        pid=100,
        wall_s=wall,
        cpu_s=run,
        run_queue_wait_s=wait,
        python=python,
        threads=(Thread(prof, tid=100, run_s=run, run_queue_wait_s=wait),),
        host=machine_host,
    )
    workers = tuple(
        Process(pid=101 + i, parent=100, role="worker", cpu_s=r, run_queue_wait_s=w)
        for i, (r, w) in enumerate(children)
    )
    own = run + sum(r for r, _ in children)
    return Run(
        "run.prof",
        (main, *workers),
        manifest=manifest(wall, machine_host, command=command, environment=environment or {}),
        machine=Machine(
            cpus=cpus,
            wall_s=wall,
            busy_s=own if busy is None else busy,
            psi_some_s=wait / 2,
            throttled_periods=throttled[0],
            periods=throttled[1],
        ),
    )


def with_main(run: Run, **changes: Any) -> Run:
    """The run with these fields of its first process."""
    first, *others = run.processes
    return replace(run, processes=(replace(first, **changes), *others))


def with_thread(run: Run, **changes: Any) -> Run:
    """The run with these fields of its first process's first thread."""
    first, *others = run.processes[0].threads
    return with_main(run, threads=(replace(first, **changes), *others))


def timed(run: Run, factor: float = 1.0, scatter: float | None = 0.02) -> Run:
    """The run on a machine that took so many times as long for fixed work."""
    known = tuple(
        Yardstick(name, 1e-4 * factor, None, 1e-4 * factor, scatter, 18)
        for name in ("integer", "branches", "latency", "bytecode cpython 3.11")
    )
    return replace(run, manifest=replace(run.manifest, yardsticks=known))
