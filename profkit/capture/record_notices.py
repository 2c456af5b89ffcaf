"""Notices of a captured run, from records of agents, launcher and kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from profkit.capture.endings import Ending
from profkit.capture.record_types import Launch, Notes, Record
from profkit.model import Notice, Process
from profkit.model.notices import Number, grouped, missing_ranks


def of_process(record: Record) -> tuple[Notice, ...]:
    """Return what the agent of one process noted about itself."""
    said = record.notes
    python = ".".join(map(str, record.python)) + "t" * said.free_threaded
    functions = sum(len(thread.functions) for thread in record.threads)
    found = (
        (said.agent_failed, Notice("agent-failed", said.agent_failed)),
        (said.not_cpython, Notice("not-cpython", said.not_cpython)),
        (
            said.free_threaded and not said.no_tracer,
            Notice("calls-not-counted", "", {"python": record.version}),
        ),
        (said.write_failed, Notice("snapshots-not-written", said.write_failed)),
        (said.displaced, Notice("profile-function-replaced")),
        (said.no_samples, Notice("no-samples")),
        (said.no_tracer, Notice("tracer-missing", "", {"python": python})),
        (said.tables_full, Notice("tables-full", "", {"functions": functions})),
        (said.lost_forks, Notice("forks-unrecorded", "", {"forks": said.lost_forks})),
        (said.torch_nvtx, Notice("torch-nvtx-shimmed")),
        (said.windows_missed, Notice("windows-not-followed")),
        (said.emit_nvtx, Notice("torch-emit-nvtx")),
    )
    return (*(notice for holds, notice in found if holds), *_own_profiler(said, record.begin_perf))


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


def of_launch(
    facts: Launch,
    launcher_alive: bool | None,
    whole_s: float,
    records: Sequence[Record],
    unrecorded: Sequence[tuple[int, str]],
    damaged: Sequence[Notice],
    elsewhere: Sequence[Path] = (),
) -> Iterable[Notice]:
    """Yield what limits the run as a whole; `damaged` are notices of unreadable records.

    `elsewhere`: directories of records on other machines.
    """
    yield from facts.warnings
    if facts.wall_s is None:
        running = Notice("capture-running", "", {"so_far_s": whole_s})
        yield running if launcher_alive else Notice("capture-unfinished")
    if facts.counters_only:
        yield Notice("counters-only")
    if facts.ranks:
        traced = any(not record.notes.not_traced for record in records)
        yield Notice("ranks-selected", facts.ranks) if traced else Notice("ranks-absent", facts.ranks)
    host = {} if facts.launcher is None else {"host": facts.launcher.host}
    yield from (Notice("records-elsewhere", str(place), host) for place in elsewhere)
    if not facts.counters_only and not (records or unrecorded or damaged or elsewhere or facts.attached):
        yield Notice("no-record")
    yield from grouped((pid, Notice("process-unrecorded", error)) for pid, error in unrecorded)
    expected = {r.world_size for r in records if r.world_size is not None and r.of_job}
    if len(expected) == 1 and not facts.job:
        missing = missing_ranks("rank-missing", (r.rank for r in records), expected.pop())
        if missing is not None:
            yield missing


def of_processes(
    records: Sequence[Record], found: Sequence[Process], ends: Sequence[Ending]
) -> Iterable[Notice]:
    """Yield what limits processes, one notice per limit; the arguments are in the same order."""
    yield from _of_ends(records, found, ends)
    ranks = [record for record, process in zip(records, found, strict=True) if process.role == "rank"]
    steps = {record.environment["SLURM_STEP_ID"] for record in ranks if "SLURM_STEP_ID" in record.environment}
    if len(steps) > 1:
        yield Notice("ranks-of-steps", "", {"steps": len(steps)})
    yield from grouped((process.pid, note) for process in found for note in process.notes)


def of_interpreters(pids: Iterable[str]) -> Iterable[Notice]:
    """Yield the notice that further interpreters of some processes were not profiled."""
    known = sorted(int(pid) for pid in pids if pid.isdecimal())
    if known:
        yield Notice("subinterpreters").at(pids=known)


def _of_ends(records: Sequence[Record], found: Sequence[Process], ends: Sequence[Ending]) -> Iterable[Notice]:
    """Yield what no record holds of each end, one notice for processes that ended alike."""
    alike: dict[tuple[Notice, bool], list[int]] = {}
    for index, (process, end) in enumerate(zip(found, ends, strict=True)):
        if not end.complete:
            notice = _of_end(process, end)
            # A Pool ends its workers like this; if nothing is lost, there is nothing to say.
            if not (end.kept and notice.code == "worker-unrecorded"):
                alike.setdefault((notice, end.kept), []).append(index)
    for (notice, kept), which in alike.items():
        numbers = {**notice.numbers}
        if kept:
            numbers["kept"] = len(which)
            sampled = sum(
                any(thread.profile.calls_low is not None for thread in found[index].threads)
                for index in which
            )
            if sampled:
                numbers["sampled"] = sampled
        elif any(records[index].tracer != "none" for index in which):
            numbers.update(_most_lost([ends[index] for index in which]))
        yield Notice(notice.code, notice.subject, numbers).at(pids=[found[index].pid for index in which])


def _of_end(process: Process, end: Ending) -> Notice:
    """Return how a process ended whose newest record is not its last."""
    if end.error:
        return Notice("last-record-failed", end.error)
    if end.status is not None:
        if end.signal:
            return Notice("killed-by-signal", end.signal)
        return Notice("exited-unrecorded", "", {"status": end.status})
    if end.state == "running":
        return Notice("process-running")
    if end.state == "replaced":
        return Notice("replaced-unrecorded")
    if end.state == "unknown":
        return Notice("end-unknown")
    return Notice("worker-unrecorded") if process.role == "worker" else Notice("ended-unrecorded")


def _most_lost(ends: Sequence[Ending]) -> dict[str, Number]:
    """Return the most seconds that one lost, and the CPU seconds that all lost, if known of all."""
    numbers: dict[str, Number] = {}
    lost = [end.lost_s for end in ends if end.lost_s is not None]
    if len(lost) == len(ends):
        numbers["lost_s"] = max(lost)
        cpu = [end.lost_cpu_s for end in ends if end.lost_cpu_s is not None]
        if len(cpu) == len(ends):
            numbers["cpu_s"] = sum(cpu)
    return numbers
