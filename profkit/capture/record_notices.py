"""What a reader must know before trusting a captured run, from what agents, launcher and kernel left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from profkit.capture.agent import settings
from profkit.capture.record_types import Launch, Notes, Record
from profkit.model import Notice, Process
from profkit.model.notices import Number, grouped, missing_ranks

__all__ = ["of_launch", "of_process", "of_processes"]

#: Notes of a process that are no warnings: its figures are good.
_HARMLESS = frozenset(("waiting-sampled",))

#: Rates that sampling is said to have had, Hz; the nearest is named, so that many processes say the same.
_RATES = (50, 20, 10, 5)


def of_process(record: Record) -> tuple[Notice, ...]:
    """Return what one process's agent recorded of itself."""
    found: list[Notice] = []
    said = record.notes
    if said.agent_failed:
        found.append(Notice("agent-failed", said.agent_failed))
    if said.not_cpython:
        found.append(Notice("not-cpython", said.not_cpython))
    if said.write_failed:
        found.append(Notice("snapshots-not-written", said.write_failed))
    if said.displaced:
        found.append(Notice("profile-function-replaced"))
    if said.no_snapshots:
        found.append(Notice("no-snapshots"))
    if said.sampled is not None:
        taken = said.sampled.rate
        rate = min(_RATES, key=lambda known: abs(known - taken))
        found.append(Notice("waiting-sampled", "", {"rate": rate}))
    if said.sampling_failed:
        found.append(Notice("waiting-sampling-failed", said.sampling_failed))
    if said.nvtx_patched:
        found.append(Notice("nvtx-patched"))
    if said.nvtx_unknown:
        found.append(Notice("nvtx-not-patchable"))
    if said.torch_nvtx:
        found.append(Notice("torch-nvtx-shimmed"))
    if said.emit_nvtx:
        found.append(Notice("torch-emit-nvtx"))
    found.extend(_own_profiler(said, record.begin_perf))
    return tuple(found)


def _own_profiler(said: Notes, begin_perf: float) -> Iterable[Notice]:
    spans = [(span.begin, span.end) for span in said.own_profiler]
    times = 1
    if said.own_profiler_more and spans:
        times, spans = len(spans) + said.own_profiler_more, [(spans[0][0], spans[-1][1])]
    for begin, end in spans:
        numbers: dict[str, Number] = {"times": times}
        for name, moment in (("begin_s", begin), ("end_s", end)):
            if moment is not None:
                numbers[name] = max(0.0, moment - begin_perf)
        yield Notice("own-cprofile", "", numbers)


def of_launch(facts: Launch, records: Sequence[Record]) -> Iterable[Notice]:
    """Yield what limits the run as a whole.

    Parameters
    ----------
    facts
        The launcher's, with its own notices.
    records
        What agents wrote.
    """
    yield from facts.warnings
    if facts.wall_s is None:
        yield Notice("launcher-killed")
    if not records:
        yield Notice("no-python-process")
    expected = {r.world_size for r in records if r.world_size is not None and r.of_job}
    if len(expected) == 1 and not facts.job:
        missing = missing_ranks("rank-missing", (r.rank for r in records), expected.pop())
        if missing is not None:
            yield missing


def of_processes(records: Sequence[Record], found: Sequence[Process]) -> Iterable[Notice]:
    """Yield what limits single processes, once for all of which it is true.

    Parameters
    ----------
    records, found
        What agents wrote and what was made of it, in the same order.
    """
    yield from _killed(records, found)
    said: list[tuple[int | None, Notice]] = []
    for record, process in zip(records, found, strict=True):
        version = record.python
        if version >= (3, 12) and record.tracer == "cprofile" and _ran_threads(record):
            python = {"python": f"{version[0]}.{version[1]}"}
            said.append((process.pid, Notice("threads-in-one-stack", "", python)))
    said += [(process.pid, Notice("process-running")) for process in found if process.exit == "running"]
    said += [(process.pid, note) for process in found for note in process.notes if note.code not in _HARMLESS]
    yield from grouped(said)


def _killed(records: Sequence[Record], found: Sequence[Process]) -> Iterable[Notice]:
    killed = [(r, p) for r, p in zip(records, found, strict=True) if p.exit == "killed"]
    workers = [(r, p.pid) for r, p in killed if p.role == "worker"]
    if workers:
        lost = _most_lost([record for record, _ in workers])
        yield Notice("worker-ended", "", lost).at(pids=[pid for _, pid in workers])
    others = [(r, p.pid) for r, p in killed if p.role != "worker"]
    if others:
        lost = _most_lost([record for record, _ in others])
        estimated = sum(record.tracer == "cprofile" for record, _ in others)
        if estimated:
            lost["estimated"] = estimated
        yield Notice("process-killed", "", lost).at(pids=[pid for _, pid in others])


def _most_lost(records: Sequence[Record]) -> dict[str, Number]:
    """Return what a killed process may miss at most: one that does nothing is read at the longest interval only."""
    interval = max(record.interval for record in records)
    longest = settings.LONGEST_INTERVAL
    return {"lost_s": interval, **({"idle_lost_s": longest} if interval < longest else {})}


def _ran_threads(record: Record) -> bool:
    """Whether a second Python thread was started: that shows in the profile itself."""
    codes = record.codes
    starts = [
        number
        for number, name in enumerate(codes.name)
        if name in ("_bootstrap_inner", "start") and codes.files[codes.file[number]].endswith("threading.py")
    ]
    return any(np.isin(table.functions.function, starts).any() for table in record.threads)
