"""Common parts of timeline writers: one clock for all processes, tracks of ranges, JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from profkit.model import Process, Ranges, Run
from profkit.model.arrays import Ints
from profkit.model.surrogates import spelled_out

#: Rows whose text is in memory at once; a few hundred bytes each.
CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Export:
    """A file to be written: `chunks` made on request, and sentences about what was left out."""

    chunks: Iterator[bytes]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Ranges of one thread (system id) in one domain (empty: the default), by begin; only these nest."""

    thread: int
    domain: str
    rows: Ints

    def label(self, names: Mapping[int, str]) -> str:
        """Return its name in viewers; `names` are those of threads."""
        name = names.get(self.thread) or f"thread {self.thread}"
        return f"{name}: {self.domain}" if self.domain else name


def tracks(ranges: Ranges) -> list[Track]:
    """Divide the ranges of one process by thread and domain; a thread's default domain comes first."""
    if not len(ranges):
        return []
    order = np.lexsort((ranges.begin_ns, ranges.domain, ranges.thread))  # outer ranges first: stable
    thread, domain = ranges.thread[order], ranges.domain[order]
    change = np.flatnonzero((np.diff(thread) != 0) | (np.diff(domain) != 0)) + 1
    return [
        Track(int(ranges.thread[rows[0]]), ranges.strings[int(ranges.domain[rows[0]])], rows)
        for rows in np.split(order.astype(np.int64), change)
    ]


def to_unix_ns(run: Run) -> tuple[list[int], int]:
    """Return offsets in ns to Unix time, of each process's monotonic clock and of the machine series.

    Unknown ones are 0. Processes of a host share its first known offset: later readings differ by adjustments
    of the wall clock.
    """
    manifest = run.manifest
    home = run.host.name if run.host is not None else ""
    hosts = [process.host.name if process.host is not None else home for process in run.processes]
    known: dict[str, int] = {}
    for host, process in zip(hosts, run.processes, strict=True):
        pair = process.ranges
        if pair is not None and pair.monotonic_ns and pair.realtime_ns:
            known.setdefault(host, pair.realtime_ns - pair.monotonic_ns)
    clocks = manifest.clocks if manifest is not None else {}
    if "time" in clocks and "monotonic" in clocks:
        known.setdefault(home, round((clocks["time"] - clocks["monotonic"]) * 1e9))
    other = next(iter(known.values()), 0)
    return [known.get(host, other) for host in hosts], known.get(home, other)


def process_label(process: Process) -> str:
    who = f"rank {process.rank}" if process.rank is not None else process.role
    return f"{who}: {shlex.join(process.command)}" if process.command else who


def thread_names(process: Process) -> dict[int, str]:
    """Return thread names by id, in the run's order of threads."""
    return {thread.tid: thread.name for thread in process.threads if thread.tid is not None}


def as_json(value: str | Mapping[str, object]) -> str:
    """Write a string, or a mapping of strings and finite numbers, as strict JSON."""
    if isinstance(value, str):
        return json.dumps(spelled_out(value), ensure_ascii=False)
    plain = {key: spelled_out(item) if isinstance(item, str) else item for key, item in value.items()}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def microseconds(ns: int) -> str:
    """Write non-negative nanoseconds as microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"
