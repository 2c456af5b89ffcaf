"""The functions that the compiled tracer counted in a block, as tables of threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from profkit.capture.agent.tracer import HERE
from profkit.capture.record_types import Codes, Rows, ThreadTable, rows

#: A thread's name, and what its collector's ``getstats`` returned.
Counted: TypeAlias = tuple[str, tuple[Any, ...]]

#: Ended threads with a table of their own; the rest, with the least time, are summed up in one.
MOST_ENDED = 100


def block_tables(
    threads: Sequence[Counted],
    own: int,
    block: CodeType | None,
    hidden: Collection[CodeType],
    wall_s: float,
    task: Sequence[Any] | None,
) -> tuple[Codes, tuple[ThreadTable, ...]]:
    """Return the functions of a block in the thread `own`, its table first; `hidden` are profkit's calls."""
    codes = _Numbers(hidden)
    mine, ended, others = _Table("", own), list[_Table](), list[_Table]()
    for name, counted in threads:
        table = mine if counted[0] == own and not counted[2] else _Table(name, counted[0])
        table.name = name
        table.add(counted, codes)
        if table is not mine and (table.functions or table.open):
            (ended if counted[2] else others).append(table)
    ended.sort(key=lambda table: -table.total_s)
    if len(ended) > MOST_ENDED:
        rest = _Table(f"{len(ended) - MOST_ENDED} more ended threads", None)
        for table in ended[MOST_ENDED:]:
            rest.join(table)
        ended[MOST_ENDED:] = [rest]
    if block is not None:
        mine.charge(codes.number(block), wall_s, task)
    return codes.found(), tuple(table.made() for table in (mine, *ended, *others))


class _Numbers:
    """Numbers for code objects, by identity: equal code in two files is two functions."""

    def __init__(self, hidden: Collection[CodeType]) -> None:
        self._files: dict[str, int] = {}
        self._rows: list[tuple[int, int, str, str]] = []
        self._known: dict[Any, int] = {}
        self._kept: list[Any] = []  # so that no id is reused
        self.hidden = {self.number(code) for code in hidden}

    def number(self, code: Any) -> int:
        """Return the number of a code object, or of the label of a built-in function."""
        key = code if isinstance(code, str) else id(code)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._rows)
            self._kept.append(code)
            if isinstance(code, str):
                file, own = "~", " of 'profkit_tracer." in code
                row = 0, code, ""
            else:
                file, own = code.co_filename, code.co_filename.startswith(HERE)
                row = code.co_firstlineno, code.co_name, getattr(code, "co_qualname", "")
            self._rows.append((self._files.setdefault(file, len(self._files)), *row))
            if own:
                self.hidden.add(number)
        return number

    def found(self) -> Codes:
        file, line, name, qualname = zip(*self._rows, strict=True) if self._rows else [()] * 4
        return Codes(tuple(self._files), np.array(file, np.int64), np.array(line, np.int64), name, qualname)


class _Table:
    """One thread's sums by function and by pair of functions."""

    def __init__(self, name: str, native: int | None) -> None:
        self.name, self.native = name, native
        self.measured = False
        self.total_s = 0.0
        self.functions: dict[Any, list[float]] = {}
        self.edges: dict[Any, list[float]] = {}
        self.waiting: dict[Any, list[float]] = {}
        self.open: list[tuple[int, float, float]] = []

    def add(self, counted: tuple[Any, ...], codes: _Numbers) -> None:
        """Add what a collector says of the thread, except the agent's own functions and what they called."""
        number, hidden = codes.number, codes.hidden
        by_agent: dict[int, list[float]] = {}
        self.measured = bool(counted[3])
        for code, *sums, callees in counted[5]:
            self.total_s += sums[3]
            function = number(code)
            called = [(number(callee[0]), callee[1:9]) for callee in callees or ()]
            if function in hidden:
                for callee, part in called:
                    _add(by_agent, callee, part)
                continue
            # An open function with callees has an entry without calls; it is counted as open, below.
            if any(sums[:4]):
                _add(self.functions, function, sums[:4])
            if any(sums[4:]):
                _add(self.waiting, function, sums[4:])
            for callee, part in called:
                if callee not in hidden:
                    _add(self.edges, (function, callee), part[:4])
        for function, taken in by_agent.items():
            for sums_of, part in ((self.functions, taken[:4]), (self.waiting, taken[4:])):
                have = sums_of.get(function, [])
                have[:] = [max(0, value - less) for value, less in zip(have, part, strict=False)]
            if function in self.functions and not self.functions[function][0]:
                del self.functions[function]
        seen = set()
        for code, within, itself, *waits in counted[6]:
            function = number(code)
            if function not in hidden:
                self.open.append((function, within, itself))
                if function in seen:  # the outer call's waiting includes it
                    waits[1] = waits[3] = 0.0
                seen.add(function)
                _add(self.waiting, function, waits)

    def join(self, table: _Table) -> None:
        self.measured = self.measured or table.measured
        for sums, more in (
            (self.functions, table.functions),
            (self.edges, table.edges),
            (self.waiting, table.waiting),
        ):
            for key, values in more.items():
                _add(sums, key, values)

    def charge(self, block: int, wall_s: float, task: Sequence[Any] | None) -> None:
        """Count the function around the block as an open call; it made the calls that nobody else made."""
        rest = {function: [*sums] for function, sums in self.functions.items()}
        for (caller, callee), (calls, recursive, cumtime, tottime) in self.edges.items():
            if callee in rest:
                # A recursive call's time is within that of the outer one.
                less = (calls, recursive, cumtime if caller != callee else 0.0, tottime)
                rest[callee] = [have - part for have, part in zip(rest[callee], less, strict=True)]
        for function, (calls, recursive, cumtime, tottime) in rest.items():
            if calls > 0 and function != block:
                own_s = max(0.0, tottime)
                _add(self.edges, (block, function), (calls, max(0, recursive), max(own_s, cumtime), own_s))
        self.open.insert(0, (block, wall_s, max(0.0, wall_s - sum(s[3] for s in self.functions.values()))))
        if self.measured and task is not None:
            wait = task[3] / 1e9
            blocked = max(0.0, wall_s - task[2] / 1e9 - wait)
            charged = [sum(sums[column] for sums in self.waiting.values()) for column in (0, 2)]
            own = max(0.0, wait - charged[0]), wait, max(0.0, blocked - charged[1]), blocked
            _add(self.waiting, block, own)

    def made(self) -> ThreadTable:
        return ThreadTable(
            self.native,
            self.name,
            self.measured,
            _rows("functions", [(function, *sums) for function, sums in self.functions.items()]),
            _rows("edges", [(*pair, *sums) for pair, sums in self.edges.items()]),
            _rows("waiting", [(function, *sums) for function, sums in self.waiting.items() if self.measured]),
            _rows("open", self.open),
        )


def _add(sums: dict[Any, list[float]], key: Any, values: Sequence[float]) -> None:
    have = sums.get(key)
    sums[key] = list(values) if have is None else [a + b for a, b in zip(have, values, strict=True)]


def _rows(table: str, found: Sequence[Sequence[float]]) -> Rows:
    return rows(table, *np.array(found, np.float64).T) if found else rows(table)
