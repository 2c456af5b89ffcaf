"""What a reader must know before trusting a captured run, in sentences: one place for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profkit.model import Process

__all__ = ["launch", "notes", "processes"]


def notes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what one process's agent had to say of itself."""
    found: list[str] = []
    said = record["notes"]
    if "agent_failed" in said:
        found.append(f"profkit's agent failed in this process: {said['agent_failed']}")
    if "not_cpython" in said:
        found.append(f"functions of {said['not_cpython']} are not profiled")
    if "write_failed" in said:
        found.append(f"some snapshots could not be written: {said['write_failed']}")
    if "displaced" in said:
        found.append(
            "the target installed a profile function of its own (sys.setprofile); profkit's records of its "
            "main thread end there"
        )
    if "no_snapshots" in said:
        found.append("no snapshots could be taken: had this process been killed, its data were lost")
    for begin, end in said.get("own_profiler", ()):
        start = max(0.0, begin - record["begin_perf"])
        until = f"{end - record['begin_perf']:.1f} s" if end is not None else "its end"
        found.append(
            f"the target used cProfile itself from {start:.1f} s to {until}; "
            "what ran meanwhile is in its own profile and not in this run"
        )
    return tuple(found)


def launch(facts: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield what is wrong with the run as a whole."""
    if facts.get("wall_s") is None:
        yield (
            "profkit itself was killed during this capture; the run was put together from what the processes "
            "had written"
        )
    if not records:
        yield (
            "no Python process was profiled: the command starts none, or starts it in a way that drops the "
            "environment (python -I, -E or -S, env -i, a remote host without this file system)"
        )
    expected = {r["world_size"] for r in records if (r["world_size"] or 1) > 1}
    job = facts.get("job")
    if len(expected) == 1 and not job:
        size = expected.pop()
        missing = sorted(set(range(size)) - {r["rank"] for r in records})
        if missing:
            ranks = ", ".join(str(rank) for rank in missing[:8]) + (", …" if len(missing) > 8 else "")
            yield (
                f"ranks without a record: {ranks} of {size}; on other hosts, launch profkit inside "
                "(mpirun … profkit capture -- python …) and join the files with profkit merge"
            )


def processes(records: Sequence[Mapping[str, Any]], found: Sequence[Process]) -> Iterable[str]:
    """Yield what is wrong with single processes; both sequences are in the same order."""
    yield from _killed(records, found)
    for record in records:
        version = tuple(int(part) for part in record["version"].split(".")[:2])
        if version >= (3, 12) and _ran_threads(record):
            yield (
                f"process {record['pid']} ran several threads under Python {version[0]}.{version[1]}, where "
                "cProfile mixes the calls of all threads in one stack: its times per function are not reliable"
            )
    for process in found:
        if process.exit == "running":
            yield f"process {process.pid} still ran when the run was written"
        for note in process.notes:
            yield f"process {process.pid}: {note}"


def _killed(records: Sequence[Mapping[str, Any]], found: Sequence[Process]) -> Iterable[str]:
    killed = [(r, p) for r, p in zip(records, found, strict=True) if p.exit == "killed"]
    workers = [r for r, p in killed if p.role == "worker"]
    if workers:
        worst = max(r["interval"] for r in workers)
        count = "1 worker process was" if len(workers) == 1 else f"{len(workers)} worker processes were"
        yield (
            f"{count} ended by a signal, as multiprocessing.Pool does when it is closed by `with` or terminate(); "
            f"at most the last {worst:.2g} s of each are not in the run"
        )
    for record, process in killed:
        if process.role != "worker":
            yield (
                f"process {process.pid} was killed; at most the last {record['interval']:.2g} s before its end "
                "are not in the run, and calls that had not returned have estimated times"
            )


def _ran_threads(record: Mapping[str, Any]) -> bool:
    """Whether a second Python thread was started: that shows in the profile itself."""
    codes = record["codes"]
    for table in record["threads"]:
        for row in table["functions"]:
            file, _, name, _ = codes[row[0]]
            if name in ("_bootstrap_inner", "start") and file.endswith("threading.py"):
                return True
    return False
