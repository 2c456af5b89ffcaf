"""The files of the NVTX collector, put into the processes of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from profkit.capture.agent.settings import INJECTION_VARIABLE
from profkit.capture.native import nvtx_library
from profkit.capture.record_types import Record
from profkit.capture.tables import name_ranges
from profkit.errors import FormatError
from profkit.formats.nvtx_log import NvtxLog, read_nvtx_log
from profkit.model import Notice, Process, Profile, Thread


def attach(
    spool: Path, records: Sequence[Record], processes: Sequence[Process]
) -> tuple[list[Process], dict[int, Mapping[int, str]], list[Notice]]:
    """Return `processes`, in the order of `records`, with ranges, thread names by index, and notices."""
    found = [_without_injection(process) for process in processes]
    names: dict[int, Mapping[int, str]] = {}
    logs: dict[int, NvtxLog] = {}
    warnings: list[Notice] = []
    for path in sorted(spool.glob("*.nvtx")):
        try:
            log = read_nvtx_log(path)
        except FormatError as error:
            warnings.append(Notice("nvtx-file-unreadable", path.name, {"problem": error.problem}))
            continue
        host, *_ = path.stem.rsplit("-", 2)
        index = _owner(host, log, records, found)
        if index is None:
            index = len(found)
            found.append(_unprofiled(log, "child" if found else "main"))
        logs[index] = log
        if len(log.ranges) or log.ranges.lost or log.ranges.unmatched:
            found[index] = replace(found[index], ranges=log.ranges)
        if log.texts.threads:
            names[index] = log.texts.threads
        warnings += _losses(log)
    found = [_with_functions(process, logs.get(index)) for index, process in enumerate(found)]
    return found, names, warnings


def with_thread_names(processes: Sequence[Process], names: Mapping[int, Mapping[int, str]]) -> list[Process]:
    """Name threads as the program did; `names` and the first processes are those that `attach` returned."""
    found = list(processes)
    for index, given in names.items():

        def named(thread: Thread, given: Mapping[int, str] = given) -> Thread:
            return thread if thread.tid is None else replace(thread, name=given.get(thread.tid, thread.name))

        found[index] = found[index].with_threads(named)
    return found


def _owner(host: str, log: NvtxLog, records: Sequence[Record], processes: Sequence[Process]) -> int | None:
    """Return the last image that had begun when the file was made, if it has no ranges yet."""
    # Both tell their time from boot: the time of day may be set in between.
    made = log.ranges.monotonic_ns / 1e9
    candidates = [
        (record.begin_perf, index)
        for index, record in enumerate(records)
        if record.host == host
        and record.pid == log.pid
        and record.begin_perf <= made
        and not (record.state == "replaced" and record.perf < made)
    ]
    if not candidates:
        return None
    _, index = max(candidates)
    return index if processes[index].ranges is None else None


def _with_functions(process: Process, log: NvtxLog | None) -> Process:
    """Name the ranges that the tracer numbered; without the collector's file they are omitted."""

    def named(thread: Thread) -> Thread:
        calls = thread.range_calls
        if calls is not None:
            calls = None if log is None else name_ranges(calls, log.texts.names, log.texts.domains)
        return replace(thread, range_calls=calls)

    return process.with_threads(named)


def _unprofiled(log: NvtxLog, role: str) -> Process:
    """Return a process without a record, with its named threads."""
    return Process(
        pid=log.pid,
        parent=log.parent,
        role=role,
        command=log.texts.command,
        exit="unknown",
        threads=tuple(Thread(Profile.empty(), tid) for tid in log.texts.threads),
        profiled=False,
    )


def _without_injection(process: Process) -> Process:
    if process.environment.get(INJECTION_VARIABLE) != str(nvtx_library()):
        return process
    kept = {name: value for name, value in process.environment.items() if name != INJECTION_VARIABLE}
    return replace(process, environment=kept)


def _losses(log: NvtxLog) -> list[Notice]:
    found = []
    if log.ranges.lost:
        found.append(Notice("nvtx-events-lost", "", {"events": log.ranges.lost}))
    if log.ranges.folded:
        found.append(Notice("nvtx-names-folded", "", {"events": log.ranges.folded}))
    return [notice.at(pids=[log.pid]) for notice in (*found, *log.warnings)]
