"""Functions of a process, and what each of its threads did, as tables of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The functions of one record, which function numbers index; `file` holds indices into `files`."""

    files: tuple[str, ...]
    file: Ints
    line: Ints
    name: tuple[str, ...]
    qualname: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.name)


NO_CODES = Codes((), np.zeros(0, np.int64), np.zeros(0, np.int64), (), ())


class Rows:
    """A table: columns of one length as attributes; a mask, slice or order selects rows."""

    __slots__ = ("columns",)

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.columns[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, which: Any) -> Rows:
        return Rows({name: column[which] for name, column in self.columns.items()})

    def tolist(self) -> list[tuple[Any, ...]]:
        """Return the rows as Python's own numbers."""
        return list(zip(*(column.tolist() for column in self.columns.values()), strict=True))


#: In `pauses.what`, one number for each method of MPI.
RANK_CALLS, LAST_RANK_CALL = 18, 53

_COLUMNS = {
    # Sums over returned calls, by function.
    "functions": "function:i calls:i recursive:i cumtime:f tottime:f",
    # How well each row of `functions` is known: the 95 % interval of its calls (the number itself if exact,
    # NaN if unknown); samples in the function itself (0 if its time is exact); half the 95 % interval of
    # `tottime`.
    "estimates": "calls_low:f calls_high:f samples:i tottime_error:f",
    # Sums over returned calls, by caller and callee.
    "edges": "caller:i callee:i calls:i recursive:i cumtime:f tottime:f",
    # Time in the run queue and time off the CPU, by function.
    "waiting": "function:i wait:f cumwait:f blocked:f cumblocked:f",
    # Calls that have not returned, outermost first, with their seconds so far.
    "open": "function:i within:f own:f",
    # Stacks of open NVTX ranges, by the collector's numbers; `parent` is an earlier row, or −1.
    "contexts": "parent:i domain:i name:i opener:i count:i",
    # What ran while the ranges of a context were open.
    "inside": "context:i function:i calls:i tottime:f wait:f blocked:f",
    # What ran, by chain of callers; `parent` is an earlier row or −1, `function` −1 without a path.
    "paths": "parent:i function:i calls:i tottime:f wait:f blocked:f",
    # What kept functions from going on: `what` counts in `profkit.model.pauses.PAUSE_KINDS` from 1 on; from
    # `RANK_CALLS` on, untraced calls that wait for other ranks (`rank_calls.RANK_METHODS`).
    "pauses": "function:i what:i seconds:f count:i",
    # Lines in which functions were seen; `within` is the function that has the line.
    "lines": "function:i within:i line:i seconds:f count:i",
    # Functions of a thread in slices of time, ns of ``CLOCK_MONOTONIC``.
    "slices": "function:i begin_ns:i end_ns:i seconds:f",
}
#: Tables of a thread: columns of int64 (``i8``) and float64 (``f8``, seconds).
TABLES = {
    name: {column[:-2]: f"{column[-1]}8" for column in columns.split()} for name, columns in _COLUMNS.items()
}


def rows(table: str, *columns: npt.NDArray[Any]) -> Rows:
    """Return the rows of one of `TABLES` from its columns; no rows without columns."""
    if not columns:
        return _NONE[table]
    pairs = zip(TABLES[table].items(), columns, strict=True)
    return Rows({name: column.astype(kind, copy=False) for (name, kind), column in pairs})


_NONE = {
    table: Rows({name: np.zeros(0, kind) for name, kind in kinds.items()}) for table, kinds in TABLES.items()
}


@dataclass(frozen=True, slots=True, eq=False)
class ThreadTable:
    """What one thread did, in `TABLES`; `estimates` are ``None`` if all is exact."""

    native: int | None
    name: str
    measured: bool = False
    functions: Rows = _NONE["functions"]
    edges: Rows = _NONE["edges"]
    waiting: Rows = _NONE["waiting"]
    open: Rows = _NONE["open"]
    contexts: Rows = _NONE["contexts"]
    inside: Rows = _NONE["inside"]
    paths: Rows = _NONE["paths"]
    #: Seconds that the tracer's events took.
    tracer_s: float | None = None
    estimates: Rows | None = None
    pauses: Rows | None = None
    lines: Rows | None = None
    slices: Rows | None = None
