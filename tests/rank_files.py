"""Jobs of many ranks as files: what each rank did is given function by function."""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from profkit.formats.load import join_ranks
from profkit.formats.runfile import write_run
from profkit.model import Host, Process, Run, Thread
from profkit.model.pauses import Pause
from tests.builders import Row, Told, manifest, profile, ranges

SECOND = 1_000_000_000
PROJECT = "/home/someone/project"


class Did(NamedTuple):
    """What one function did in one rank: calls, seconds on a CPU, queueing, and off it; of the first, collecting."""

    calls: int = 100
    run: float = 0.0
    queue: float = 0.0
    blocked: float = 0.0
    collecting: float = 0.0


def rank_run(
    rank: int,
    did: Mapping[str, Did],
    *,
    size: int = 8,
    job: str = "4711",
    host: str = "node1",
    steps: Sequence[float] = (),
    started: str = "2026-01-01T00:00:00+00:00",
    wall: float = 10.0,
    collected: bool = True,
) -> Run:
    """Build the run of one rank; `steps` are seconds of its NVTX ranges ``forward``; `collected` are collections."""
    pauses = tuple(Pause(i, "gc-2", d.collecting, 10) for i, d in enumerate(did.values()) if d.collecting > 0)
    rows = []
    for i, (name, d) in enumerate(did.items()):
        file = "~" if name.startswith("<") else f"{PROJECT}/train.py"
        rows.append(Row(file, 10 * i, name, d.calls, d.run + d.queue + d.blocked))
    queue, blocked = (np.array([getattr(d, name) for d in did.values()]) for name in ("queue", "blocked"))
    own = replace(profile(rows), wait=queue, blocked=blocked, cumwait=queue, cumblocked=blocked).validate()
    ends = np.cumsum(steps)
    told = [
        Told(f"forward {i}", int((end - step) * SECOND), int(end * SECOND), thread=100)
        for i, (step, end) in enumerate(zip(steps, ends, strict=True))
    ]
    process = Process(
        pid=100,
        rank=rank,
        role="rank",
        command=("python", "train.py"),
        wall_s=wall,
        threads=(Thread(own, tid=100, pauses=pauses if collected else None),),
        host=Host(name=host),
        ranges=ranges(told) if told else None,
    )
    known = {"cwd": PROJECT, "started": started, "job": {"id": job, "rank": rank, "world_size": size}}
    return Run("run.prof", (process,), manifest(wall, Host(name=host), **known))


def job(
    changes: Mapping[int, Mapping[str, Did]] | None = None, *, size: int = 8, **options: object
) -> list[Run]:
    """Build a job whose ranks do the same, but for what is given for single ranks."""
    usual = {
        "load": Did(100, 1.0),
        "gradient": Did(100, 4.0),
        "<method 'Allreduce' of 'mpi4py.MPI.Comm' objects>": Did(100, 0.5, 0.0, 0.5),
    }
    return [
        rank_run(r, {**usual, **(changes or {}).get(r, {})}, size=size, **options)  # type: ignore[arg-type]
        for r in range(size)
    ]


def noisy_job(size: int, seed: int, slow: Mapping[int, float] | None = None) -> list[Run]:
    """Build a job whose ranks scatter; of those in `slow` the gradient takes so many times as long."""
    random = np.random.default_rng(seed)
    found = []
    for r in range(size):
        load, gradient = random.normal(1.0, 0.01, 2)
        gradient *= (slow or {}).get(r, 1.0)
        did = {"load": Did(100, float(load)), "gradient": Did(100, 4.0 * float(gradient))}
        did["all_reduce"] = Did(100, 0.5, 0.0, max(0.0, 4.5 - load - did["gradient"].run))
        found.append(rank_run(r, did, size=size))
    return found


def write_job(directory: Path, runs: Sequence[Run], *, joined: bool = False) -> Path:
    """Write one file for each rank, or one for all; returns the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if joined:
        write_run(directory / "job.prof", join_ranks(runs))
    else:
        for i, run in enumerate(runs):
            write_run(directory / f"run-rank{i}.prof", run)
    return directory


def write_plain(path: Path, times: Mapping[tuple[str, str], float]) -> None:
    """Write a plain profile: seconds by file and function."""
    stats = {(file, 1, name): (10, 10, t, t, {}) for (file, name), t in times.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(marshal.dumps(stats))
