"""Reader of ``nsys export --type sqlite``: NVTX ranges, CPU samples or CUDA calls, and the GPU.

The tables are those of NVIDIA's "SQLite Export Schema Reference"; empty ones are absent, and columns depend
on the version. Data of ``--python-sampling`` is not read.
"""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any
from urllib.parse import quote

from profkit.errors import FormatError
from profkit.formats.foreign.calls import Call, RangeRow, gpu_use, profile_from_calls, ranges_from, segments
from profkit.formats.foreign.stacks import DEEPEST, NATIVE, Frame, Samples, Stack, run_of_threads
from profkit.formats.limits import Budget
from profkit.model import Notice, ProfileError, Run, Thread
from profkit.model.ranges import PUSHED, STARTED
from profkit.model.run import GpuUse

#: ``NVTX_EVENTS.eventType`` of a pushed range, a started range, and a domain's name.
_PUSHED, _STARTED, _DOMAIN = 59, 60, 75
_NANOSECOND = 1e-9
#: Later than every sample.
_NEVER = 1 << 62
#: Steps of SQLite's virtual machine: limit per byte, and for any file. A row of 30 bytes takes 50.
_STEPS_A_BYTE, _STEPS = 20, 50_000_000
_HINT = "export it again: nsys export --type sqlite FILE.nsys-rep"


def read_nsys(path: str | os.PathLike[str]) -> Run:
    """Read an export of Nsight Systems; raise `FormatError`, `LimitError`, and `ValueError` if damaged."""
    size = os.stat(path).st_size
    uri = f"file:{quote(os.path.abspath(os.fsencode(path)))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            left = iter(range((_STEPS + _STEPS_A_BYTE * size) // 100_000))
            database.set_progress_handler(lambda: next(left, None) is None, 100_000)
            database.text_factory = lambda data: data.decode("utf-8", "replace")
            database.execute("PRAGMA trusted_schema = OFF")
            return _Export(path, database, Budget(size)).run()
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


class _Export:
    def __init__(self, path: Any, database: sqlite3.Connection, budget: Budget) -> None:
        self._path, self._database, self._budget = path, database, budget
        # By thread: CUDA API calls, pushed ranges, and samples with the time that each stands for.
        self._calls: dict[int, list[Call]] = defaultdict(list)
        self._pushed: dict[int, list[Call]] = defaultdict(list)
        self._sampled: dict[int, list[tuple[Stack, float, float]]] = defaultdict(list)
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {
            name: {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in rows.fetchall()
            if str(name).replace("_", "").isalnum()
        }
        if not self._tables.keys() & {"StringIds", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"}:
            raise FormatError(path, "is a SQLite database, but not an Nsight Systems export", _HINT)
        self._texts = dict(self._rows("StringIds", ("id", "value"), "strings"))

    def _rows(self, table: str, columns: Sequence[str], what: str, order: str = "") -> Iterator[Any]:
        """Yield these columns of a table, ``None`` for missing columns; nothing if the table is missing."""
        there = self._tables.get(table, set())
        chosen = ", ".join(f'"{name}"' if name in there else "NULL" for name in columns)
        for row in self._database.execute(f'SELECT {chosen} FROM "{table}" {order}') if there else ():
            self._budget.spend(what, 1)
            yield row

    def _text(self, number: Any, otherwise: str = "") -> str:
        return str(self._texts.get(number, otherwise))

    def run(self) -> Run:
        """Return functions by CPU samples, else CUDA API calls; and what ran while the GPU was idle."""
        ranges = self._ranges()
        samples = self._samples()
        columns = ("start", "end", "nameId", "globalTid")
        for begin, end, name, thread in self._rows(
            "CUPTI_ACTIVITY_KIND_RUNTIME", columns, "samples of threads"
        ):
            self._calls[thread].append((begin, end, (NATIVE, 0, self._text(name, "CUDA"))))
        if samples is not None:
            run = samples.run(self._path, Notice("foreign-samples", "Nsight Systems"), ranges=ranges)
        else:
            threads: dict[int | None, list[Thread]] = defaultdict(list)
            for thread, of in self._calls.items():
                profile = profile_from_calls(of, _NANOSECOND)
                threads[_pid(thread)].append(Thread(profile, _tid(thread)))
            warnings = (Notice("foreign-trace", "Nsight Systems"),)
            run = run_of_threads(self._path, threads, warnings, ranges)
        return replace(run, gpu=self._gpu())

    def _gpu(self) -> GpuUse | None:
        """Return GPU use, by the ranges, samples or calls of the thread with most CUDA calls."""
        # The kernels of a CUDA graph have no rows of their own unless nsys was told to trace them.
        work = [
            row
            for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
            for row in self._rows(f"CUPTI_ACTIVITY_KIND_{table}", ("start", "end"), "samples of threads")
            if row != (0, 0)  # CUPTI could not tell the times
        ]
        giver = max(self._calls, key=lambda thread: len(self._calls[thread]), default=None)
        if not work or giver is None:
            return None
        running: Iterable[Any] = self._sampled[giver]
        if self._pushed[giver] or not running:
            running = segments(self._pushed[giver] or self._calls[giver])
        return gpu_use(work, running, _NANOSECOND)

    def _ranges(self) -> dict[int | None, Any]:
        columns = ("start", "end", "eventType", "text", "textId", "domainId", "globalTid")
        domains: dict[tuple[int | None, int], str] = {}  # each process numbers its own
        found: dict[int | None, list[RangeRow]] = defaultdict(list)
        rows: list[Any] = []
        for row in self._rows("NVTX_EVENTS", columns, "NVTX ranges"):
            begin, end, kind, text, text_id, domain, thread = row
            name = str(text) if text is not None else self._text(text_id)
            if kind == _DOMAIN:
                domains[None if thread is None else _pid(thread), domain] = name
            elif kind in (_PUSHED, _STARTED) and end is not None and thread is not None:
                rows.append((begin, max(begin, end), name, domain, thread, kind))
        for begin, end, name, domain, thread, kind in rows:
            pushed = kind == _PUSHED
            if pushed:
                self._pushed[thread].append((begin, end, (NATIVE, 0, name)))
            known = domains.get((_pid(thread), domain)) or domains.get((None, domain), "")
            row = (begin, end, name, known, _tid(thread), PUSHED if pushed else STARTED)
            found[_pid(thread)].append(row)
        return {pid: ranges_from(of) for pid, of in found.items()}

    def _samples(self) -> Samples | None:
        """Return CPU samples, each weighted by the median time between two samples of a thread."""
        stacks: dict[int, list[Frame]] = defaultdict(list)
        for sample, symbol, module in self._rows(
            "SAMPLING_CALLCHAINS",
            ("id", "symbol", "module"),
            "calling contexts",
            "ORDER BY id, stackDepth DESC",
        ):
            stacks[sample].append(
                (NATIVE, 0, self._text(symbol) or f"[{os.path.basename(self._text(module))}]")
            )
        whole = {sample: tuple(stack) for sample, stack in stacks.items()}
        if max(map(len, whole.values()), default=0) > DEEPEST:
            raise ProfileError(f"its calls nest deeper than {DEEPEST:,}")
        taken: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for sample, at, thread in self._rows(
            "COMPOSITE_EVENTS", ("id", "start", "globalTid"), "samples of threads"
        ):
            if sample in whole:
                taken[thread].append((at, sample))
        if not taken:
            return None
        gap = median([b[0] - a[0] for of in taken.values() for a, b in pairwise(sorted(of))] or [0])
        samples = Samples(self._budget)
        for thread, of in taken.items():
            for (at, sample), (until, _) in pairwise([*sorted(of), (_NEVER, 0)]):
                stack = whole[sample]
                samples.add((_pid(thread), _tid(thread), ""), stack, gap * _NANOSECOND)
                self._sampled[thread].append((stack, at, min(until, at + gap)))
        return samples


def _pid(thread: int) -> int:
    return (thread >> 24) & 0xFFFFFF


def _tid(thread: int) -> int:
    return thread & 0xFFFFFF
