"""Which processes of a run are compared with those of other runs: its ranks, its workers, or its first one."""

from __future__ import annotations

import os
from dataclasses import replace

from profkit.model import Process, Run


def processes_of(run: Run, *, alone: bool) -> list[tuple[Process, tuple[Process, ...], str]]:
    """Return the processes to compare, each with its helpers and its label."""
    name = os.path.basename(run.path.rstrip("/"))
    ranks = [p for p in run.processes if p.role == "rank" and p.profiled]
    if len(ranks) > 1:
        return [(p, _helpers(run, p), f"rank {p.rank}") for p in ranks]
    workers = [p for p in run.processes if p.role == "worker" and p.profiled]
    if alone and not ranks and len(workers) > 1:
        return [(p, _helpers(run, p), f"worker {p.pid}") for p in workers]
    first = ranks[0] if ranks else run.processes[0]
    job = run.job
    rank = first.rank if first.rank is not None else job.get("rank")
    if first.rank is None and rank is not None:
        first = replace(first, rank=rank, local_rank=job.get("local_rank"), node=job.get("node"))
    others = tuple(p for p in run.processes if p.pid != first.pid or p.parent != first.parent)
    return [(first, others, name if rank is None else f"rank {rank}")]


def _helpers(run: Run, process: Process) -> tuple[Process, ...]:
    """Return the descendants of a process on its host."""
    host = process.host and process.host.name
    found, known = [], {process.pid}
    for other in sorted(run.processes, key=lambda p: p.pid or 0):
        if other is not process and other.parent in known and (other.host and other.host.name) == host:
            known.add(other.pid)
            found.append(other)
    return tuple(found)
