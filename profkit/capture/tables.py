"""Converts an agent's tables of one thread to a `Profile`, ranges and calling contexts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from profkit.capture.rank_calls import mpi_call, with_mpi_calls
from profkit.capture.record_types import Record
from profkit.capture.source_cache import Sources
from profkit.capture.thread_tables import RANK_CALLS, Codes, Rows, ThreadTable
from profkit.model import Edges, Line, OpenCall, Pause, Process, Profile, RangeCalls, Slice, Thread
from profkit.model.arrays import Floats, Index, Ints
from profkit.model.estimates import known_calls, stated, summed_estimates
from profkit.model.paths import Paths, with_callees
from profkit.model.pauses import PAUSE_KINDS

_Value = TypeVar("_Value", np.int64, np.float64)

#: A function's file, line, name and qualified name.
_Code: TypeAlias = tuple[str, int, str, str]

_TEXTS = ("file", "name", "qualname", "module", "source_hash")
#: Shortest pause that is kept, seconds, and the most of a thread.
SHORTEST_PAUSE_S, MOST_PAUSES = 1e-4, 1000
#: The same for lines; a shorter time is less than a sample.
SHORTEST_LINE_S, MOST_LINES = 1e-3, 300
#: Most slices of a thread; of more, the longest are kept.
MOST_SLICES = 600

#: Share of the thread's time, callees included, from which a calling context is kept.
LEAST_PATH_SHARE = 2e-5
#: Prefixes of numbers of NVTX whose names are not known yet.
_NAME, _DOMAIN = "name ", "domain "

_WAITING = ("wait", "cumwait", "blocked", "cumblocked")


class ThreadTables:
    """Builds profiles; those of one run share source files and what is known of functions."""

    def __init__(self, sources: Sources | None = None) -> None:
        self._sources = sources or Sources()
        #: The table of all profiles, which grows with each.
        self.strings: dict[str, int] = {"": 0}
        self._table: tuple[str, ...] = ()
        #: By import path, which gives files their module names: texts of functions, and modules of files.
        self._known: dict[tuple[str, ...], tuple[dict[_Code, tuple[int, ...]], dict[str, int]]] = {}
        self._codes: Codes | None = None
        self._rows = np.zeros((0, len(_TEXTS)), np.int32)

    def sharing_strings(self, processes: Sequence[Process]) -> list[Process]:
        """Return processes whose profiles share the one string table as it is now."""
        table = tuple(self.strings)

        def sharing(thread: Thread) -> Thread:
            return replace(thread, profile=replace(thread.profile, strings=table))

        return [process.with_threads(sharing) for process in processes]

    def thread(self, record: Record, table: ThreadTable) -> Thread:
        """Return a thread with its functions, open calls included, ranges, and calling contexts."""
        functions, edges, calls = table.functions, table.edges, table.open
        # Rows for every function that has an entry, is open, or is only at an edge (its caller is open).
        numbers = np.unique(
            np.concatenate(
                [
                    functions.function,
                    calls.function,
                    edges.caller,
                    edges.callee,
                    table.waiting.function,
                    *(() if table.pauses is None else (table.pauses.function,)),
                    *(() if table.lines is None else (table.lines.function, table.lines.within)),
                    *(() if table.slices is None else (table.slices.function,)),
                ]
            )
        )
        row_of = np.full(len(record.codes), -1, np.int32)
        row_of[numbers] = np.arange(len(numbers), dtype=np.int32)
        n = len(numbers)
        # Added, not set: two built-in functions may have one label, and so one number.
        ncalls = _summed(row_of[functions.function], functions.calls, n)
        primitive = ncalls - _summed(row_of[functions.function], functions.recursive, n)
        cumtime = _summed(row_of[functions.function], functions.cumtime, n)
        tottime = _summed(row_of[functions.function], functions.tottime, n)

        rows = row_of[calls.function]
        _, outermost = np.unique(rows, return_index=True)
        np.add.at(ncalls, rows, 1)
        np.add.at(tottime, rows, calls.own)
        primitive[rows[outermost]] += 1
        # The outer call's time includes that of recursive ones.
        cumtime[rows[outermost]] += calls.within[outermost]
        ones = np.ones(max(0, len(rows) - 1), np.int64)
        profile_edges = Edges(
            caller=np.concatenate([row_of[edges.caller], rows[:-1]]),
            callee=np.concatenate([row_of[edges.callee], rows[1:]]),
            ncalls=np.concatenate([edges.calls, ones]),
            primitive_calls=np.concatenate([edges.calls - edges.recursive, ones]),
            tottime=np.concatenate([edges.tottime, calls.own[1:]]),
            cumtime=np.concatenate([edges.cumtime, calls.within[1:]]),
        )
        waits: dict[str, Any] = {}
        if table.measured:
            waiters = row_of[table.waiting.function]
            waits = {name: _summed(waiters, getattr(table.waiting, name), n) for name in _WAITING}
        labels = self._labels(record, numbers)
        profile = Profile(
            **labels,
            tottime=tottime,
            cumtime=cumtime,
            edges=profile_edges,
            **waits,
            **_counted(table, row_of, ncalls, primitive),
        )
        inside = range_calls(table, row_of)
        opened = tuple(map(OpenCall, rows.tolist(), calls.within.tolist()))
        paths = paths_of(table, row_of)
        thread = Thread(
            profile.validate(),
            table.native,
            table.name,
            open_calls=opened,
            range_calls=None if inside is None else inside.validate(n),
            paths=None if paths is None else paths.validate(n),
            tracer_s=table.tracer_s,
            pauses=None if table.pauses is None else _pauses(_placed(table.pauses, row_of)),
            lines=None if table.lines is None else _lines(_placed(table.lines, row_of)),
            slices=None if table.slices is None else _slices(_placed(table.slices, row_of)),
        )
        return self._with_mpi_calls(thread, table, row_of)

    def _with_mpi_calls(self, thread: Thread, table: ThreadTable, row_of: Index) -> Thread:
        found = table.pauses
        if found is None or not (found.what >= RANK_CALLS).any():
            return thread
        found = found[found.what >= RANK_CALLS]
        seen, texts = {}, {}
        for what in dict.fromkeys(found.what.tolist()):
            of, method = found[found.what == what], what - RANK_CALLS
            seconds = np.bincount(row_of[of.function], of.seconds, len(thread.profile)).astype(np.float64)
            seen[method] = seconds, int(of.count.sum())
            file, name = map(self._string, mpi_call(method))
            texts[method] = file, name
        self._table = tuple(self.strings)
        lines = table.lines
        looked: Floats = np.zeros(len(thread.profile))
        if lines is not None:
            looked = np.bincount(row_of[lines.function], lines.seconds, len(looked)).astype(np.float64)
        return with_mpi_calls(thread, seen, looked, texts, self._table)

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _labels(self, record: Record, numbers: npt.NDArray[np.intp]) -> dict[str, Any]:
        codes = record.codes
        if self._codes is not codes:  # the threads of a record are consecutive
            self._codes, self._rows = codes, np.full((len(codes), len(_TEXTS)), -1, np.int32)
        new = numbers[self._rows[numbers, 0] < 0]
        if len(new):
            texts = itertools.chain.from_iterable(self._texts(record, new))
            self._rows[new] = np.fromiter(texts, np.int32, len(new) * len(_TEXTS)).reshape(len(new), -1)
        if len(self._table) != len(self.strings):
            self._table = tuple(self.strings)
        columns = np.ascontiguousarray(self._rows[numbers].T)
        return {
            "strings": self._table,
            "line": codes.line[numbers].astype(np.int32),
            **dict(zip(_TEXTS, columns, strict=True)),
        }

    def _texts(self, record: Record, numbers: npt.NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return rows of string indices of functions' texts, in the order of `_TEXTS`."""
        roots = tuple(sorted((p for p in record.path if p), key=len, reverse=True))
        known, modules = self._known.setdefault(roots, ({}, {}))
        codes, rows = record.codes, []
        for number, at, line in zip(
            numbers.tolist(), codes.file[numbers].tolist(), codes.line[numbers].tolist(), strict=True
        ):
            code = codes.files[at], line, codes.name[number], codes.qualname[number]
            row = known.get(code)
            if row is None:
                row = known[code] = self._describe(code, roots, modules)
            rows.append(row)
        return rows

    def _describe(
        self, code: _Code, roots: tuple[str, ...], modules: dict[str, int]
    ) -> tuple[int, int, int, int, int]:
        file, _, name, qualname = code
        source_hash = ""
        if not file.startswith(("~", "<")):
            qualname, source_hash = self._sources.describe(*code)
        of_file, of_name, of_qualname = map(self._string, (file, name, qualname))
        if file not in modules:
            modules[file] = self._string("" if file == "~" else _module_name(file, roots))
        return of_file, of_name, of_qualname, modules[file], self._string(source_hash)


def _placed(found: Rows, row_of: Index) -> Rows:
    """Return rows whose functions are rows of the profile."""
    of = ("function", "within")
    return Rows({name: row_of[values] if name in of else values for name, values in found.columns.items()})


def _longest(rows: Rows, most: int) -> Rows:
    return rows[np.argsort(-rows.seconds, kind="stable")][:most]


def _pauses(found: Rows) -> tuple[Pause, ...]:
    kept = _longest(found[(found.seconds >= SHORTEST_PAUSE_S) & (found.what < RANK_CALLS)], MOST_PAUSES)
    return tuple(Pause(function, PAUSE_KINDS[what - 1], *rest) for function, what, *rest in kept.tolist())


def _lines(found: Rows) -> tuple[Line, ...]:
    kept = _longest(found[(found.seconds >= SHORTEST_LINE_S) & (found.line > 0)], MOST_LINES)
    return tuple(Line(*row) for row in kept.tolist())


def _slices(found: Rows) -> tuple[Slice, ...]:
    """Return the function in which a thread spent most time in each time slice, in time order."""
    by_time = found[np.lexsort((-found.seconds, found.begin_ns))]
    busiest = by_time[np.append(True, np.diff(by_time.begin_ns) > 0)[: len(by_time)]]
    kept = _longest(busiest, MOST_SLICES)
    return tuple(Slice(*row) for row in kept[np.argsort(kept.begin_ns)].tolist())


def range_calls(table: ThreadTable, row_of: Index) -> RangeCalls | None:
    """Return the sums of one thread, or ``None``; `row_of` maps function numbers to profile rows, or −1."""
    seen, inside = table.contexts, table.inside
    if not len(seen.parent):
        return None
    strings: dict[str, int] = {"": 0}

    def string(kind: str, number: int) -> int:
        return strings.setdefault(f"{kind}{number}", len(strings)) if number else 0

    # Merge contexts whose openers have the same row, or none, like the agent's own functions.
    numbers: dict[tuple[int, int, int, int], int] = {}
    counts: list[int] = []
    moved: list[int] = []
    for parent, domain, name, opener, count in seen.tolist():
        around = moved[parent] if parent >= 0 else -1
        row = int(row_of[opener]) if opener >= 0 else -1
        number = numbers.setdefault((around, string(_NAME, name), string(_DOMAIN, domain), row), len(numbers))
        if number == len(counts):
            counts.append(0)
        counts[number] += count
        moved.append(number)
    contexts = np.array(list(numbers), np.int32)
    function = row_of[inside.function]
    known = function >= 0
    # Without kernel counters, a thread's waiting is unknown, not zero.
    unknown = 0.0 if table.measured else np.nan
    return RangeCalls(
        strings=tuple(strings),
        parent=contexts[:, 0],
        name=contexts[:, 1],
        domain=contexts[:, 2],
        opener=contexts[:, 3],
        count=np.array(counts, np.int64),
        context=np.array(moved, np.int32)[inside.context[known]],
        function=function[known],
        ncalls=inside.calls[known],
        tottime=inside.tottime[known],
        wait=inside.wait[known] + unknown,
        blocked=inside.blocked[known] + unknown,
    )


def name_ranges(calls: RangeCalls, names: Mapping[int, str], domains: Mapping[int, str]) -> RangeCalls:
    """Replace the collector's numbers by names."""

    def text(known: str) -> str:
        for kind, texts, lost in ((_NAME, names, "(name {} is lost)"), (_DOMAIN, domains, "(domain {})")):
            if known.startswith(kind):
                number = int(known[len(kind) :])
                return texts.get(number, lost.format(number))
        return known

    table: dict[str, int] = {"": 0}
    moved = np.array([table.setdefault(text(known), len(table)) for known in calls.strings], np.int32)
    return replace(calls, strings=tuple(table), name=moved[calls.name], domain=moved[calls.domain])


def paths_of(table: ThreadTable, row_of: Index) -> Paths | None:
    """Return the contexts of a thread, or ``None``; `row_of` maps function numbers to profile rows, or −1."""
    seen = table.paths
    if not len(seen.parent):
        return None
    parent = seen.parent
    function = np.append(row_of, np.int32(-1))[seen.function]  # -1 is the last, also without functions
    kept = (function >= 0) & (with_callees(parent, seen.tottime) >= LEAST_PATH_SHARE * seen.tottime.sum())
    inside = parent >= 0
    while (inside & kept & ~kept[parent]).any():
        kept &= ~inside | kept[parent]
    (lost,) = np.nonzero(~kept)
    around = parent[lost]
    while (further := (around >= 0) & ~kept[around]).any():
        around[further] = parent[around[further]]
    # Omitted contexts become one row for each kept caller.
    found = np.zeros(len(parent) + 1, bool)
    found[around + 1] = True
    callers = np.flatnonzero(found) - 1
    group = (np.cumsum(found) - 1)[around + 1]
    number = np.cumsum(kept) - 1

    def summed(values: npt.NDArray[Any]) -> Floats:
        return np.concatenate([values[kept], np.bincount(group, values[lost], len(callers))])

    def numbered(rows: Ints) -> Ints:
        return np.where(rows >= 0, number[rows], -1)

    # Without kernel counters, a thread's waiting is unknown, not zero.
    unknown = 0.0 if table.measured else np.nan
    return Paths(
        np.concatenate([numbered(parent[kept]), numbered(callers)]).astype(np.int32),
        np.concatenate([function[kept], np.full(len(callers), -1)]).astype(np.int32),
        np.rint(summed(seen.calls)).astype(np.int64),
        summed(seen.tottime),
        summed(seen.wait) + unknown,
        summed(seen.blocked) + unknown,
    )


def _summed(rows: Index, values: npt.NDArray[_Value], n: int) -> npt.NDArray[_Value]:
    sums = np.zeros(n, values.dtype)
    np.add.at(sums, rows, values)
    return sums


def _counted(table: ThreadTable, row_of: Index, ncalls: Ints, primitive: Ints) -> Mapping[str, Any]:
    """Return the columns of calls, and how well they are known; open calls are exact."""
    known = table.estimates
    if known is None:
        return {"ncalls": ncalls, "primitive_calls": primitive}
    rows = row_of[table.functions.function]
    sums = summed_estimates(table.functions.calls, known.columns, rows, len(ncalls))
    for limit in (sums["calls_low"], sums["calls_high"]):
        np.add.at(limit, row_of[table.open.function], 1.0)
    low = sums["calls_low"]
    return {
        "ncalls": known_calls(ncalls, low),
        "primitive_calls": known_calls(primitive, low),
        **stated(ncalls, sums),
    }


def _module_name(file: str, roots: tuple[str, ...]) -> str:
    """Return the dotted name under which a file is imported; empty if unknown."""
    for root in roots:
        prefix = root.rstrip("/") + "/"
        if file.startswith(prefix) and file.endswith(".py"):
            parts = file[len(prefix) : -3].split("/")
            if parts[-1] == "__init__":
                parts.pop()
            if parts and all(part.isidentifier() for part in parts):
                return ".".join(parts)
    if file.startswith("<frozen ") and file.endswith(">"):
        return file[8:-1]
    return ""
