"""What a reader must know before trusting a captured run, in sentences: one place for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from profkit.capture.agent import settings
from profkit.model import Process

__all__ = ["launch", "notes", "processes"]

#: How the note of a process begins whose waiting was sampled. It is no warning: the figures are good.
_SAMPLED = "waiting was sampled"

#: Rates that sampling is said to have had, a second; the nearest is named, so that many processes say the same.
_RATES = (50, 20, 10, 5)


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
    if "sampled" in said:
        rate = min(_RATES, key=lambda known: abs(known - said["sampled"][1]))
        found.append(
            f"{_SAMPLED} about {rate} times a second, not traced; what a Python function and the C "
            "functions that it calls waited is divided among them by their time"
        )
    if "sampling_failed" in said:
        found.append(f"waiting could not be sampled to the end: {said['sampling_failed']}")
    found.extend(_nvtx(said))
    found.extend(_own_profiler(record, said))
    return tuple(found)


def _nvtx(said: Mapping[str, Any]) -> Iterable[str]:
    if "nvtx_patched" in said:
        yield (
            "NVTX ranges were recorded by patching the nvtx package, since profkit's compiled collector is missing: "
            "those of C and C++ code (PyTorch, CuPy, NCCL) are not in this run (install a C compiler, then profkit "
            "again)"
        )
    if "nvtx_unknown" in said:
        yield (
            "NVTX ranges are not in this run: profkit's compiled collector is missing, and this version of the nvtx "
            "package cannot be patched (install a C compiler, then profkit again)"
        )
    if "torch_nvtx" in said:
        yield (
            "torch.cuda.nvtx was recorded by profkit (--nvtx-shim), since this PyTorch was built without CUDA; "
            "without profkit it raises"
        )
    if "emit_nvtx" in said:
        yield (
            "torch.autograd.profiler.emit_nvtx did nothing (--nvtx-shim): the ranges of operators need a "
            "PyTorch with CUDA"
        )


def _own_profiler(record: Mapping[str, Any], said: Mapping[str, Any]) -> Iterable[str]:
    spans = said.get("own_profiler", [])
    more = said.get("own_profiler_more", 0)
    result = "what ran meanwhile is in its own profile and not in this run"

    def since_begin(moment: float | None) -> str:
        return "its end" if moment is None else f"{max(0.0, moment - record['begin_perf']):.1f} s"

    if more:
        yield (
            f"the target used cProfile itself {len(spans) + more} times, from {since_begin(spans[0][0])} to "
            f"{since_begin(spans[-1][1])}; {result}"
        )
        return
    for begin, end in spans:
        yield f"the target used cProfile itself from {since_begin(begin)} to {since_begin(end)}; {result}"


def launch(facts: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield what is wrong with the run as a whole."""
    yield from (str(warning) for warning in facts.get("warnings") or ())
    if facts.get("wall_s") is None:
        yield (
            "profkit itself was killed during this capture; the run was put together from what the processes "
            "had written"
        )
    if not records:
        yield (
            "no Python process was profiled, so that no functions are in this run: the command starts none, or "
            "starts it in a way that drops the environment (python -I, -E or -S, env -i, a remote host without this "
            "file system)"
        )
    expected = {r["world_size"] for r in records if (r["world_size"] or 1) > 1}
    job = facts.get("job")
    if len(expected) == 1 and not job:
        size = expected.pop()
        present = {r["rank"] for r in records}
        # What the environment says of the size is not trusted to be small.
        missing = list(islice((rank for rank in range(size) if rank not in present), 9))
        if missing:
            ranks = ", ".join(str(rank) for rank in missing[:8]) + (", …" if len(missing) > 8 else "")
            yield (
                f"ranks without a record: {ranks} of {size}; on other hosts, launch profkit inside "
                "(mpirun … profkit capture -- python …) and join the files with profkit merge"
            )


def processes(records: Sequence[Mapping[str, Any]], found: Sequence[Process]) -> Iterable[str]:
    """Yield what is wrong with single processes; both sequences are in the same order."""
    yield from _killed(records, found)
    said: dict[str, list[int | None]] = {}
    for record, process in zip(records, found, strict=True):
        version = tuple(int(part) for part in record["version"].split(".")[:2])
        if version >= (3, 12) and record["tracer"] == "cprofile" and _ran_threads(record):
            text = (
                f"ran several threads under Python {version[0]}.{version[1]}, where cProfile mixes the calls of "
                "all threads in one stack: times per function are not reliable there"
            )
            said.setdefault(text, []).append(process.pid)
    for process in found:
        if process.exit == "running":
            said.setdefault("still ran when the run was written", []).append(process.pid)
    for text, pids in said.items():
        yield f"{_numbered(pids)} {text}"
    by_note: dict[str, list[int | None]] = {}
    for process in found:
        for note in process.notes:
            if note.startswith(_SAMPLED):
                continue
            by_note.setdefault(note, []).append(process.pid)
    for note, pids in by_note.items():
        yield f"{_numbered(pids)}: {note}"


def _numbered(pids: Sequence[int | None]) -> str:
    """Name processes: one sentence for all of which the same is to be said."""
    if len(pids) == 1:
        return f"process {pids[0]}"
    listed = ", ".join(str(pid) for pid in pids[:4]) + (", …" if len(pids) > 4 else "")
    return f"{len(pids)} processes ({listed})"


def _killed(records: Sequence[Mapping[str, Any]], found: Sequence[Process]) -> Iterable[str]:
    killed = [(r, p) for r, p in zip(records, found, strict=True) if p.exit == "killed"]
    workers = [r for r, p in killed if p.role == "worker"]
    if workers:
        worst = max(r["interval"] for r in workers)
        count = "1 worker process was" if len(workers) == 1 else f"{len(workers)} worker processes were"
        yield (
            f"{count} ended by a signal, as multiprocessing.Pool does when it is closed by `with` or terminate(); "
            f"at most the last {_most_lost(worst)} of each are not in the run"
        )
    others = [(r, p.pid) for r, p in killed if p.role != "worker"]
    if others:
        worst = max(r["interval"] for r, _ in others)
        which = _numbered([pid for _, pid in others])
        one = len(others) == 1
        estimated = any(r["tracer"] == "cprofile" for r, _ in others)
        yield (
            f"{which} {'was' if one else 'were'} killed; at most the last {_most_lost(worst)} before "
            f"{'its end' if one else 'the end of each'} are not in the run"
            + (", and calls that had not returned have estimated times" if estimated else "")
        )


def _most_lost(interval: float) -> str:
    """Say how much a killed process may miss: one that does nothing is read at the longest interval only."""
    longest = settings.LONGEST_INTERVAL
    idle = f" ({longest:.2g} s if it only waited)" if interval < longest else ""
    return f"{interval:.2g} s{idle}"


def _ran_threads(record: Mapping[str, Any]) -> bool:
    """Whether a second Python thread was started: that shows in the profile itself."""
    codes = record["codes"]
    for table in record["threads"]:
        for row in table["functions"]:
            file, _, name, _ = codes[row[0]]
            if name in ("_bootstrap_inner", "start") and file.endswith("threading.py"):
                return True
    return False
