"""Which functions ran inside which NVTX ranges of one thread, as the tracer summed them up.

A context is a stack of open ranges, by their names and by the function that opened each; contexts form a tree. What
a row holds is of that context alone: what ran in a range inside it is in the inner context's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.columns import column_dtypes
from profkit.model.profile import Index, Ints, ProfileError

__all__ = ["RangeCalls"]

Floats = npt.NDArray[np.float64]

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
    count: Ints
    context: Index
    function: Index
    ncalls: Ints
    tottime: Floats
    wait: Floats
    blocked: Floats

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
            A column has another length or dtype than the others, or points outside its table.
        """
        if not self.strings or self.strings[0]:
            raise ProfileError("the string table of range contexts does not start with the empty string")
        for columns, n in zip(self.columns(), (len(self.parent), len(self.context)), strict=True):
            for column, dtype in columns.items():
                values = getattr(self, column)
                if values.dtype != dtype or values.shape != (n,):
                    raise ProfileError(f"range contexts: {column} is not a column of {n} {dtype.name}")
        for column, low, most in (
            ("name", 0, len(self.strings)),
            ("domain", 0, len(self.strings)),
            ("opener", -1, functions),
            ("context", 0, len(self.parent)),
            ("function", 0, functions),
        ):
            values = getattr(self, column)
            if len(values) and (values.min() < low or values.max() >= most):
                raise ProfileError(f"range contexts: {column} points outside its table")
        if (self.parent < -1).any() or (self.parent >= np.arange(len(self.parent))).any():
            raise ProfileError("range contexts: one is inside a later one")
        return self
