"""Which functions ran inside which NVTX ranges of one thread, summed by the tracer.

A context is a stack of open ranges, by their names and the functions that opened them. A row excludes inner
ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.model.arrays import Index
from profkit.model.bounds import Counts, Times, Waits
from profkit.model.columns import ProfileError, check_columns, check_indices, column_dtypes

#: Columns with a row per context; the others have one per context and function.
_CONTEXTS = ("parent", "name", "domain", "opener", "count")


@dataclass(frozen=True, slots=True, eq=False)
class RangeCalls:
    """Sums by context and function.

    Attributes
    ----------
    strings : tuple of str
        The string table. Entry 0 is the empty string: no name, the default domain.
    parent : int32 array, shape (m,)
        Enclosing context, always an earlier one; −1 for none.
    name, domain : int32 array, shape (m,)
        Of the innermost range: indices into `strings`. Numbers in names are replaced by ``{n}``.
    opener : int32 array, shape (m,)
        Row in the thread's profile of the function that opened it; −1 if not known.
    count : int64 array, shape (m,)
        Ranges that began.
    context, function : int32 array, shape (k,)
        Context, and row in the thread's profile.
    ncalls : int64 array, shape (k,)
        Calls that began there.
    tottime, wait, blocked : float64 array, shape (k,)
        Self time, and its parts spent queueing for a CPU and otherwise off-CPU; seconds.
    """

    strings: tuple[str, ...]
    parent: Index
    name: Index
    domain: Index
    opener: Index
    count: Counts
    context: Index
    function: Index
    ncalls: Counts
    tottime: Times
    wait: Waits
    blocked: Waits

    @staticmethod
    def columns() -> tuple[dict[str, np.dtype[Any]], dict[str, np.dtype[Any]]]:
        """Return names and dtypes of the columns of contexts, and of those of rows."""
        dtypes = column_dtypes(RangeCalls)
        contexts = {name: dtypes[name] for name in _CONTEXTS}
        return contexts, {name: dtype for name, dtype in dtypes.items() if name not in contexts}

    def validate(self, functions: int) -> RangeCalls:
        """Check the columns against each other and a profile of `functions` rows; return the sums.

        Raises
        ------
        ProfileError
            A column has a wrong length or dtype, an index out of its table, or an impossible number.
        """
        if not self.strings or self.strings[0]:
            raise ProfileError("the string table of range contexts does not start with the empty string")
        what, m = "range contexts", len(self.parent)
        for columns, n in zip(self.columns(), (m, len(self.context)), strict=True):
            check_columns(self, n, what, columns)
        check_indices(self, what, ("name", "domain"), len(self.strings))
        check_indices(self, what, ("opener",), functions, least=-1)
        check_indices(self, what, ("context",), m)
        check_indices(self, what, ("function",), functions)
        if (self.parent < -1).any() or (self.parent >= np.arange(m)).any():
            raise ProfileError("range contexts: one is inside a later one")
        return self
