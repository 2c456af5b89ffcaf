"""NVTX in a capture: puts the collector into the target's environment, and its files into the run.

The collector itself is ``native/nvtx``; its files are read by ``formats.nvtx_log``. Here is only which process
they belong to, and what must be said about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture.native import nvtx_library
from profkit.errors import FormatError

if TYPE_CHECKING:  # numpy, which starting a target does not need
    from profkit.formats.nvtx_log import NvtxLog
    from profkit.model import Process

__all__ = ["INJECTION_VARIABLE", "attach", "inject"]

#: Where NVTX finds the tool that it loads.
INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"

#: Seconds by which a collector's file may seem older than its process's record: both take the time of day, one
#: after the other, and the clock may be set in between.
_CLOCK_SLACK = 0.01


def inject(environment: MutableMapping[str, str]) -> list[str]:
    """Have NVTX in the target load the collector, unless another tool was put there.

    Parameters
    ----------
    environment
        Of the target; changed in place.

    Returns
    -------
    list of str
        What a reader of the run must know, in sentences.
    """
    warnings = []
    library = nvtx_library()
    taken = environment.get(INJECTION_VARIABLE, "")
    if taken and taken != str(library):
        # Two tools cannot both be called, and this one was chosen by somebody.
        warnings.append(
            f"another tool receives the NVTX ranges ({INJECTION_VARIABLE} is {taken}); they are not in this run"
        )
    elif library is not None:
        environment[INJECTION_VARIABLE] = str(library)
    if environment.get("NVTX_DISABLE"):
        # The nvtx package asks whether it is set, not what it is set to.
        warnings.append(
            f"NVTX_DISABLE is set (to {environment['NVTX_DISABLE']}), so that the nvtx package's annotate and "
            "push_range do nothing"
        )
    return warnings


def attach(
    spool: Path, records: Sequence[Mapping[str, Any]], processes: Sequence[Process]
) -> tuple[list[Process], list[str]]:
    """Give each process its ranges.

    Parameters
    ----------
    spool
        Directory with the collector's files.
    records, processes
        What the agents wrote and what was made of it, in the same order.

    Returns
    -------
    processes : list of Process
        Those given, with their ranges; behind them processes that only the collector saw (C programs).
    warnings : list of str
        Files that cannot be read, and losses.
    """
    from profkit.formats.nvtx_log import EVENTS_SUFFIX, read_nvtx_log

    found = [_without_injection(process) for process in processes]
    warnings: list[str] = []
    if nvtx_library() is None and any(record.get("nvtx") for record in records):
        warnings.append(
            "NVTX ranges are not in this run: profkit was installed where its collector could not be compiled "
            "(install a C compiler, then profkit again)"
        )
    for path in sorted(spool.glob("*" + EVENTS_SUFFIX)):
        try:
            log = read_nvtx_log(path)
            host, _, started = _parts(path)
        except (FormatError, ValueError) as error:
            warnings.append(f"the NVTX ranges in {path.name} are left out ({error})")
            continue
        index = _owner(host, log.pid, started, records, found)
        if index is None:
            found.append(_unprofiled(log, "child" if found else "main"))
        else:
            found[index] = _with_log(found[index], log)
        warnings += _losses(log)
    return found, warnings


def _parts(path: Path) -> tuple[str, int, float]:
    """Return host, pid and second of the day's clock at which the file was made, as its name tells."""
    host, pid, micros = path.stem.rsplit("-", 2)
    return host, int(pid), int(micros) / 1e6


def _owner(
    host: str, pid: int, started: float, records: Sequence[Mapping[str, Any]], processes: Sequence[Process]
) -> int | None:
    """Return the last image of that process that had begun when the file was made, and has no ranges yet."""
    candidates = [
        (record["begin_time"], index)
        for index, record in enumerate(records)
        if record["host"] == host
        and record["pid"] == pid
        and record["begin_time"] <= started + _CLOCK_SLACK
        and not (record["state"] == "replaced" and record["time"] < started)
    ]
    if not candidates:
        return None
    _, index = max(candidates)
    return index if processes[index].ranges is None else None


def _with_log(process: Process, log: NvtxLog) -> Process:
    """Add ranges, and the names that threads were given through NVTX where they have no better one."""
    threads = tuple(
        replace(thread, name=log.thread_names[thread.tid])
        if thread.tid in log.thread_names and thread.tid is not None
        else thread
        for thread in process.threads
    )
    return replace(process, ranges=log.ranges, threads=threads)


def _unprofiled(log: NvtxLog, role: str) -> Process:
    from profkit.model import Process

    return Process(
        pid=log.pid,
        parent=log.parent,
        role=role,
        command=log.command,
        exit="not profiled",
        ranges=log.ranges,
    )


def _without_injection(process: Process) -> Process:
    """Take out of the recorded environment what profkit itself put into it."""
    if process.environment.get(INJECTION_VARIABLE) != str(nvtx_library()):
        return process
    kept = {name: value for name, value in process.environment.items() if name != INJECTION_VARIABLE}
    return replace(process, environment=kept)


def _losses(log: NvtxLog) -> Iterable[str]:
    ranges = log.ranges
    if ranges.lost:
        yield (
            f"process {log.pid}: {ranges.lost:,} NVTX events are lost, since the disk was full or the limit on one "
            "process's events was reached (1 GiB; PROFKIT_NVTX_BYTES sets another)"
        )
    if ranges.folded:
        yield (
            f"process {log.pid} gave its NVTX ranges too many different names: in {ranges.folded:,} events the "
            "numbers in them are replaced by {n}"
        )
    for warning in log.warnings:
        yield f"process {log.pid}: {warning}"
