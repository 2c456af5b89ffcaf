"""The tables of all threads of a process, from the file that its tracer mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.capture import mapped_layout as layout
from profkit.capture import thread_tables as types
from profkit.capture.mapped_estimates import CallEstimates
from profkit.capture.mapped_file import MappedFile
from profkit.capture.mapped_names import text_of
from profkit.capture.thread_tables import Rows, ThreadTable
from profkit.formats.codec import MemberError
from profkit.formats.regular_file import read_regular
from profkit.model.arrays import Floats, Ints
from profkit.model.bounds import LAST_NS

#: Most attempts to read a file whose tables are summed up meanwhile.
_READINGS = 8
#: Gaps allowed in a thread's function numbers: some functions of a running process are not there yet.
_MOST_SPREAD = 2**16


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """The kernel's counters of a thread at some time, ns; `at_ns` is of ``CLOCK_MONOTONIC``."""

    at_ns: int
    run_ns: int
    wait_ns: int


def read_tables(path: Path, *, growing: bool) -> MappedTables:
    """Return a process's tables, `growing` if it still runs; raise `OSError`, or `ValueError` if damaged."""
    for _ in range(_READINGS if growing else 1):
        data = read_regular(path, layout.MOST_BYTES)
        # Tables of ended threads may have been summed up meanwhile, and their room reused.
        if not growing or _epoch(data) == _epoch(read_regular(path, layout.HEADER_BYTES, cut=True)):
            break
    return MappedTables(data, growing=growing)


class MappedTables(MappedFile):
    """The file of one process, and the tables of its threads."""

    def threads(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> tuple[ThreadTable, ...]:
        """Return one table per thread, that of `first` first, a sum of ended ones last.

        Open calls end at `until_s` (``CLOCK_MONOTONIC``), else at their thread's last event; `ends` say how
        long they waited. Raise `ValueError` if a table is damaged.
        """
        heads = sorted(self.heads, key=lambda t: (t.n_folded > 0, t.native != self.first, t.number))
        found = [_ThreadReader(self, head).table(until_s, names, ends) for head in heads]
        if not heads or heads[0].native != self.first or heads[0].n_folded:
            # It has called nothing.
            found.insert(0, ThreadTable(self.first or None, names.get(self.first, "MainThread")))
        return tuple(found)


class _ThreadReader:
    """Reads the table of the thread that has this head."""

    def __init__(self, file: MappedFile, head: SimpleNamespace) -> None:
        self._file = file
        self._thread = head
        self._clock = file.clock
        self._places = file.entries(head.number)
        functions = file.rows(self._places[layout.FUNCTION], layout.FUNCTION)
        functions = functions[np.argsort(functions.number, kind="stable")]
        if (np.diff(functions.number) == 0).any():
            raise MemberError("damaged: two functions of a thread have one number")
        if len(functions) and int(functions.number[-1]) > _MOST_SPREAD + 2 * len(functions):
            raise MemberError("damaged: a function has a number that cannot be")
        names = functions.name.tolist()
        codes = np.array(
            [-1 if name == 0 else file.functions.code_of.get(name, -2) for name in names], np.int64
        )
        known = codes > -2
        if not known.all() and not file.growing:
            raise MemberError("damaged: a function's name is not there")
        self._functions = self._checked(functions[known])
        #: By number: index into `_functions`, -1 if absent.
        self._place_of = np.full(int(functions.number[-1]) + 1 if len(functions) else 0, -1, np.int64)
        self._place_of[self._functions.number] = np.arange(len(self._functions))
        #: By that index: index into the codes, -1 outside every call and, in `_shown`, for the agent's own.
        #: Callees of `_passing` are the target's.
        self._code = codes[known]
        own = np.append(file.functions.own, False)[self._code]
        self._shown = np.where(own, -1, self._code)
        self._passing = np.isin(self._code, list(file.functions.passing))
        self._edges = self._read(layout.EDGE)
        estimated = np.append(file.functions.uncounted, True)[self._code]
        self._estimates = CallEstimates(
            file.bursts, self._clock.ns_per_tick, self._functions, self._edges, estimated
        )

    def _read(self, kind: int) -> Rows:
        """Return entries of a kind with indices for function numbers, without those still being written."""
        rows = self._checked(self._file.rows(self._places[kind], kind))
        columns = [name for name in rows.columns if name in layout.FUNCTION_COLUMNS]
        numbers = np.array([rows.columns[name] for name in columns])
        there = np.minimum(numbers, len(self._place_of) - 1)
        there = ((numbers == there) & (np.append(self._place_of, -1)[there] >= 0)).all(axis=0)
        if "number" in rows.columns:
            order = np.argsort(rows.number, kind="stable")
            rows, there = rows[order], there[order]
            first = int(kind == layout.CONTEXT)
            whole = rows.number == np.arange(first, len(rows) + first)
            if kind == layout.PATH or self._file.growing:
                whole &= there | (not self._file.growing)
                end = int(np.argmin(np.append(whole, False)))
                rows, there = rows[:end], there[:end]
            elif not whole.all():
                raise MemberError("damaged: its contexts are in no order")
        if self._file.growing:
            rows = rows[there]
        elif not there.all():
            raise MemberError("damaged: a function is not there")
        for name in columns:
            rows.columns[name] = self._place_of[rows.columns[name]]
        return rows

    def _checked(self, rows: Rows) -> Rows:
        for name, column in rows.columns.items():
            if name in layout.COUNT_COLUMNS:
                layout.counts(column)
            elif name in layout.SCATTER_COLUMNS and not (np.isfinite(column) & (column >= 0)).all():
                raise MemberError("damaged: it holds a scatter that cannot be")
        return rows

    def table(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> ThreadTable:
        """Return the table without the agent's own functions and their callees."""
        thread = self._thread
        now = thread.last
        if until_s is not None and not thread.ended and not thread.n_folded:
            now = min(max(now, self._clock.ticks_at(until_s)), layout.MOST_TICKS)
        measured = thread.read_before and not thread.unmeasured
        stack = self._stack()
        calls = self._open(now - thread.taken, stack, *self._pending(now, ends) if measured else (0, 0))
        functions, edges = self._estimates.sums(), self._edges
        contexts, inside = self._read_contexts(now - thread.taken, stack)
        by_agent = (self._code >= 0) & (self._shown < 0) & ~self._passing
        taken = edges[by_agent[edges.caller]]
        for column in ("calls", "recursive", "total", "own", "wait", "blocked", "cumwait", "cumblocked"):
            if len(taken):
                values = self._estimates.calls(taken) if column == "calls" else taken.columns[column]
                np.subtract.at(functions[column], taken.callee, values)
                np.maximum(functions[column], 0, out=functions[column])
        shown = self._shown >= 0
        rows = shown & np.any([functions[column] > 0 for column in ("calls", "seen", "total", "own")], axis=0)
        used = edges[shown[edges.caller] & shown[edges.callee]]
        edge_calls = self._estimates.calls(used)
        some = np.any([edge_calls > 0, used.total > 0, used.wait > 0, used.blocked > 0], axis=0)
        used, edge_calls = used[some], edge_calls[some]
        opened = calls[shown[calls.function]]
        return ThreadTable(
            native=None if thread.n_folded or thread.native <= 0 else thread.native,
            name=self._name(names),
            measured=measured,
            functions=types.rows(
                "functions",
                self._code[rows],
                functions["calls"][rows],
                np.minimum(functions["recursive"], functions["calls"])[rows],
                self._seconds(functions["total"])[rows],
                self._seconds(functions["own"])[rows],
            ),
            edges=types.rows(
                "edges",
                self._code[used.caller],
                self._code[used.callee],
                edge_calls,
                np.minimum(used.recursive, edge_calls),
                self._seconds(used.total),
                self._seconds(used.own),
            ),
            waiting=self._waiting(functions, opened) if measured else types.rows("waiting"),
            open=types.rows(
                "open", self._code[opened.function], self._seconds(opened.within), self._seconds(opened.own)
            ),
            contexts=contexts,
            inside=inside,
            paths=self._read_paths(calls, stack),
            estimates=self._estimates.known(functions, rows) if self._file.bursts.sampled_ns else None,
            tracer_s=float(self._seconds(np.array([thread.taken]))[0]),
            pauses=self._read_seen(layout.PAUSE, "pauses"),
            lines=self._read_seen(layout.LINE, "lines"),
            slices=self._read_seen(layout.SLICE, "slices"),
        )

    def _seconds(self, ticks: npt.NDArray[Any]) -> Floats:
        return layout.seconds(ticks, self._clock.ns_per_tick)

    def _name(self, names: Mapping[int, str]) -> str:
        thread = self._thread
        if thread.n_folded:
            return f"{thread.n_folded} more ended threads"
        own = text_of(thread.name.partition(b"\0")[0])
        known = own if thread.ended else names.get(thread.native, own)
        return known or ("MainThread" if thread.native == self._file.first else "")

    def _pending(self, now: int, ends: Mapping[int, ThreadEnd]) -> tuple[int, int]:
        """Return ns queued and blocked in the innermost open call since the tracer last asked the kernel."""
        thread, end = self._thread, ends.get(self._thread.native)
        if end is None or now - thread.last <= thread.long_gap or end.at_ns <= thread.read_at:
            return 0, 0
        most = int((now - thread.last) * self._clock.ns_per_tick)
        waited = max(0, end.wait_ns - thread.read_wait)
        off = end.at_ns - thread.read_at - (end.run_ns - thread.read_run) - waited
        wait = min(max(0, thread.uncharged_wait + waited), most)
        return wait, min(max(0, thread.uncharged_blocked + off), most - wait)

    def _stack(self) -> Rows:
        """Return the open calls, outermost first; `edge` is an index into the edges."""
        stack, edges = self._file.stack(self._thread), self._edges
        stack.columns["edge"] = edge = _index_of(edges.place, stack.place)
        stack = stack[: int(np.argmin(np.append(edge >= 0, False)))]  # the rest was being written
        if len(stack):
            innermost = stack.edge[-1]
            if (stack.edge == innermost).sum() > edges.open[innermost]:
                return stack[:-1]  # it has just returned, and is counted
        return stack

    def _open(self, now: int, stack: Rows, wait: int, blocked: int) -> Rows:
        """Return ticks and waiting of open calls; `wait` and `blocked` are added to the innermost."""
        total, thread = now - stack.start, self._thread
        own = total - stack.children - np.append(total[1:], 0)[: len(total)]
        waits, blocks = np.zeros((2, len(stack)), np.int64)
        waits[-1:], blocks[-1:] = wait, blocked
        return Rows(
            {
                "function": self._edges.callee[stack.edge],
                "within": total,
                "own": own,
                "wait": waits,
                "cumwait": thread.wait - stack.wait + wait,
                "blocked": blocks,
                "cumblocked": thread.blocked - stack.blocked + blocked,
            }
        )

    def _waiting(self, functions: dict[str, Any], calls: Rows) -> Rows:
        """Return the waiting of functions, open calls included."""
        columns = ("wait", "cumwait", "blocked", "cumblocked")
        rows = (self._shown >= 0) & np.any([functions[column] > 0 for column in columns], axis=0)
        # The outer call's waiting includes that of recursive ones.
        again = np.ones(len(calls), bool)
        again[np.unique(calls.function, return_index=True)[1]] = False
        times = {
            column: np.where(again & column.startswith("cum"), 0, calls.columns[column]) for column in columns
        }
        return types.rows(
            "waiting",
            self._code[np.append(np.flatnonzero(rows), calls.function)],
            *(layout.seconds(np.append(functions[column][rows], times[column])) for column in columns),
        )

    def _read_contexts(self, now: int, stack: Rows) -> tuple[Rows, Rows]:
        thread, at, rows = self._thread, self._read(layout.CONTEXT), self._read(layout.ROW)
        if (at.parent >= at.number).any():
            raise MemberError("damaged: its contexts are in no order")
        there = (rows.context >= 1) & (rows.context <= len(at))
        if not there.all():
            if not self._file.growing:
                raise MemberError("damaged: a row's context is not there")
            rows = rows[there]
        if thread.context and not thread.ended and len(stack):
            open_context = at.number[at.place == self._file.places_of(np.array([thread.context], np.uint64))]
            here = np.isin(rows.context, open_context) & (rows.function == self._edges.callee[stack.edge[-1]])
            rows.own[here] += now - thread.charged_until
        rows = rows[self._shown[rows.function] >= 0]
        return (
            types.rows("contexts", at.parent - 1, at.domain, at.name, self._shown[at.opener], at.count),
            types.rows(
                "inside",
                rows.context - 1,
                self._shown[rows.function],
                rows.calls,
                self._seconds(rows.own),
                layout.seconds(rows.wait),
                layout.seconds(rows.blocked),
            ),
        )

    def _read_paths(self, calls: Rows, stack: Rows) -> Rows:
        """Return calling contexts; those of open calls include their time so far."""
        at = self._read(layout.PATH)  # number 0 is the base, which is no context
        if not len(at):
            return types.rows("paths")
        parents = at.parent
        if (parents[1:] >= at.number[1:]).any() or parents[0] or at.function[0] != self._place_of[0]:
            raise MemberError("damaged: its calling contexts are in no order")
        times = {name: at.columns[name].astype(np.float64) for name in ("own", "wait", "blocked")}
        index = _index_of(at.place, stack.path)
        known = index >= 0
        np.add.at(at.calls, index[known], 1)
        for name, column in times.items():
            np.add.at(column, index[known], calls.columns[name][known])
        function, passing = self._shown[at.function], self._passing[at.function]
        # Omit the agent's own functions, and their callees that are not the target's.
        left_out = (self._code[at.function] >= 0) & (function < 0) & ~passing
        while (left_out[parents] & ~left_out).any():
            left_out |= left_out[parents]
        while passing[parents].any():
            parents = np.where(passing[parents], parents[parents], parents)
        left_out[0] = True
        kept = ~(left_out | passing)
        moved = np.cumsum(kept) - 1
        return types.rows(
            "paths",
            np.where(parents[kept] > 0, moved[parents[kept]], -1),
            function[kept],
            layout.counts(at.calls[kept]),
            self._seconds(times["own"][kept]),
            layout.seconds(times["wait"][kept]),
            layout.seconds(times["blocked"][kept]),
        )

    def _read_seen(self, kind: int, table: str) -> Rows | None:
        """Return pauses, lines or slices, without the agent's and those outside every call."""
        if not self._file.tiers:
            return None  # in a block nothing looks at what threads do
        at = self._read(kind)
        if kind == layout.PAUSE and ((at.what < 1) | (at.what > types.LAST_RANK_CALL)).any():
            raise MemberError("damaged: it has a pause of unknown kind")
        if kind == layout.LINE:
            at.line.clip(0, layout.LAST_LINE, out=at.line)
        if kind == layout.SLICE:  # drop those that were being written
            at = at[(at.begin_ns >= 0) & (at.begin_ns < at.end_ns) & (at.end_ns <= LAST_NS)]
        for name in layout.FUNCTION_COLUMNS & at.columns.keys():
            at.columns[name] = self._shown[at.columns[name]]
            at = at[at.columns[name] >= 0]
        at.columns["seconds"] = layout.seconds(at.ns)
        return types.rows(table, *(at.columns[name] for name in types.TABLES[table]))


def _index_of(places: Ints, wanted: Ints) -> Ints:
    """Return for each of the `wanted` file offsets its index in `places`, −1 if it is not there."""
    order = np.argsort(places, kind="stable")
    index = np.append(order, -1)[np.searchsorted(places[order], wanted)]
    return np.where(np.append(places, -1)[index] == wanted, index, -1)


def _epoch(data: bytes) -> int | None:
    return layout.record(layout.HEADER, data).epoch if len(data) >= layout.HEADER_BYTES else None
