"""Which functions ran inside which NVTX ranges of one thread, as the tracer summed them up.

A context is a stack of open ranges, by their names and by the function that opened each; contexts form a tree. What
a row holds is of that context alone: what ran in a range inside it is in the inner context's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.model.bounds import Counts, Times, Waits
from profkit.model.columns import ProfileError, check_columns, check_indices, column_dtypes
from profkit.model.profile import Index

#: Columns of contexts; all others have a row for each context and function.
_CONTEXTS = ("parent", "name", "domain", "opener", "count")


@dataclass(frozen=True, slots=True, eq=False)
class RangeCalls:
    """Sums by context and function.

    Attributes
    ----------
    strings : tuple of str
        The string table; entry 0 is the empty string: no name, the default domain.
    parent : int32 array, shape (m,)
        Context around a context, −1 for none; always an earlier one.
    name, domain : int32 array, shape (m,)
        Of the innermost range: indices into `strings`. Numbers in names are replaced by ``{n}``.
    opener : int32 array, shape (m,)
        Function that opened it, as a row of the thread's profile; −1 where it is not known.
    count : int64 array, shape (m,)
        Ranges that began.
    context, function : int32 array, shape (k,)
        Context, and row in the thread's profile.
    ncalls : int64 array, shape (k,)
        Calls that began there.
    tottime, wait, blocked : float64 array, shape (k,)
        Self time, and what of it was queued for a CPU or off-CPU otherwise; seconds.
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
        """Check that the columns fit each other and a profile of so many functions, and return the sums themselves.

        Raises
        ------
        ProfileError
            A column has another length or dtype than the others, points outside its table, or holds a number that
            it cannot.
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
