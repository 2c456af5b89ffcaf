"""The profile of one process or thread as columns over a string table, one row per function.

Times are seconds (float64), counts int64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from profkit.model.arrays import Bools, Index
from profkit.model.bounds import CallLimits, Counts, Errors, PrimitiveCounts, Times
from profkit.model.columns import ProfileError, check_columns, check_indices, column_dtypes

#: Columns of a `Profile` that are indices into `strings`.
TEXTS = ("file", "name", "qualname", "module", "source_hash")
#: Columns of a `Profile` and of `Edges` that add up, and further ones of a `Profile`, where measured.
SUMMED = ("ncalls", "primitive_calls", "tottime", "cumtime")
MEASURED = ("wait", "blocked", "cumwait", "cumblocked")
#: Columns of a `Profile` that tell how well counts and times are known; all or none are present.
ESTIMATES = ("calls_low", "calls_high", "samples", "tottime_error")


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Sums by caller and callee.

    Attributes
    ----------
    caller, callee : int32 array, shape (m,)
        Function rows of the profile that holds these edges.
    ncalls, primitive_calls : int64 array, shape (m,)
    tottime, cumtime : float64 array, shape (m,)
        Seconds that the callee spent when called by this caller.
    """

    caller: Index
    callee: Index
    ncalls: Counts
    primitive_calls: PrimitiveCounts
    tottime: Times
    cumtime: Times

    def __len__(self) -> int:
        return len(self.caller)

    @classmethod
    def empty(cls) -> Edges:
        """Return no edges."""
        return cls(**{name: np.zeros(0, dtype) for name, dtype in column_dtypes(Edges).items()})


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Functions of one process or thread with their counts and times.

    Attributes
    ----------
    strings : tuple of str
        The string table. Entry 0 is the empty string, "not known".
    file, name, qualname, module, source_hash : int32 array, shape (n,)
        Indices into `strings`. ``file`` is as the interpreter gave it (``~`` for built-in functions).
    line : int32 array, shape (n,)
        First line of the function, 0 for built-in functions.
    ncalls, primitive_calls : int64 array, shape (n,)
        All calls, and the non-recursive ones.
    tottime, cumtime : float64 array, shape (n,)
        Self time, and time including callees; seconds.
    edges : Edges or None
        ``None`` if not asked for, or not in the source.
    wait, blocked : float64 array, shape (n,), or None
        Self time spent queueing for a CPU, and otherwise off-CPU; seconds. ``None`` if no tracer measured it.
    cumwait, cumblocked : float64 array, shape (n,), or None
        The same including callees.
    calls_low, calls_high : float64 array, shape (n,), or None
        95 % interval of the calls: `ncalls` if exact; NaN if not known, and `ncalls` is 0. These two columns
        and the next two are ``None`` if the whole profile is exact.
    samples : int64 array, shape (n,), or None
        Samples in the function itself, 0 where its self time is exact.
    tottime_error : float64 array, shape (n,), or None
        Half width of the 95 % interval of ``tottime``, seconds; 0 if exact.
    """

    strings: tuple[str, ...]
    file: Index
    line: Index
    name: Index
    qualname: Index
    module: Index
    source_hash: Index
    ncalls: Counts
    primitive_calls: PrimitiveCounts
    tottime: Times
    cumtime: Times
    edges: Edges | None = None
    wait: Times | None = None
    blocked: Times | None = None
    cumwait: Times | None = None
    cumblocked: Times | None = None
    calls_low: CallLimits | None = None
    calls_high: CallLimits | None = None
    samples: Counts | None = None
    tottime_error: Errors | None = None

    def __len__(self) -> int:
        return len(self.name)

    @classmethod
    def empty(cls) -> Profile:
        """Return a profile without functions."""
        columns = {name: np.zeros(0, dtype) for name, dtype in column_dtypes(Profile).items()}
        return cls(("",), **columns, edges=Edges.empty())

    @property
    def total(self) -> float:
        """Sum of self times, seconds; `pstats` prints it as the total."""
        return float(self.tottime.sum())

    def function(self, row: int) -> tuple[str, str, int]:
        """Return the qualified name of a function (its name if it has no other), its file and its first line."""
        text = self.strings
        name = text[self.qualname[row]] or text[self.name[row]]
        return name, text[self.file[row]], int(self.line[row])

    def columns(self, rows: Bools) -> dict[str, Any]:
        """Return the columns of some rows by name, without edges."""
        columns = {name: getattr(self, name) for name in self.__slots__ if name not in ("strings", "edges")}
        return {name: None if column is None else column[rows] for name, column in columns.items()}

    def only(self, rows: Bools) -> Profile:
        """Return some of the functions, and the edges between them."""
        edges = self.edges
        if edges is not None:
            place = (np.cumsum(rows) - 1).astype(np.int32)
            stay = rows[edges.caller] & rows[edges.callee]
            ends = place[edges.caller[stay]], place[edges.callee[stay]]
            edges = Edges(*ends, *(getattr(edges, name)[stay] for name in SUMMED))
        return replace(self, **self.columns(rows), edges=edges)

    def validate(self) -> Profile:
        """Check the columns against each other; return the profile.

        Raises
        ------
        ProfileError
            A column has a wrong length or dtype, an index out of its table, or an impossible number.
        """
        if not self.strings or self.strings[0] != "":
            raise ProfileError("the string table does not start with the empty string")
        n = len(self)
        check_columns(self, n, "functions")
        check_indices(self, "functions", TEXTS, len(self.strings))
        self._check_estimates()
        if self.edges is not None:
            check_columns(self.edges, len(self.edges), "edges")
            check_indices(self.edges, "edges", ("caller", "callee"), n)
        return self

    def _check_estimates(self) -> None:
        if len({getattr(self, name) is None for name in ESTIMATES}) > 1:
            raise ProfileError(f"functions: has some of {', '.join(ESTIMATES)}, and not all")
        low, high = self.calls_low, self.calls_high
        if low is None or high is None:
            return
        if not ((low <= high) | (np.isnan(low) & np.isnan(high))).all():
            raise ProfileError("functions: calls_low is not below calls_high")
