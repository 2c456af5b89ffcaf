"""What ran inside ranges, of all threads as one set of arrays, and back; used by `runfile` only.

As with functions, the threads' columns are behind each other over one string table, and each thread keeps its
row ranges. A run without such sums has none of these members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from profkit.formats.run_columns import Array, read_column, read_strings, text_arrays
from profkit.formats.run_json import MemberError, row_range
from profkit.model import RangeCalls

__all__ = ["RangeCallArrays", "gather_range_calls", "read_range_calls"]

_GROUPS = ("range_contexts", "range_functions")
_TEXT_COLUMNS = ("name", "domain")


def gather_range_calls(parts: Sequence[RangeCalls]) -> Iterator[tuple[str, Array]]:
    """Concatenate the sums of threads.

    Yields
    ------
    tuple of str and array
        Member name without its suffix, and its values; nothing where there are no threads with sums.
    """
    if not parts:
        return
    union: dict[str, int] = {"": 0}
    maps = [
        np.array([union.setdefault(text, len(union)) for text in part.strings], np.int32) for part in parts
    ]
    for name, values in text_arrays(union):
        yield f"{_GROUPS[0]}/{name}", values
    for group, dtypes in zip(_GROUPS, RangeCalls.columns(), strict=True):
        for name, dtype in dtypes.items():
            columns = [getattr(part, name) for part in parts]
            if name in _TEXT_COLUMNS:
                columns = [table[column] for table, column in zip(maps, columns, strict=True)]
            yield f"{group}/{name}", np.concatenate(columns).astype(dtype.newbyteorder("<"), copy=False)


class RangeCallArrays:
    """Columns of all threads' sums."""

    def __init__(self, strings: tuple[str, ...], contexts: dict[str, Array], rows: dict[str, Array]) -> None:
        self._strings = strings
        self._contexts = contexts
        self._rows = rows

    def calls(self, name: str, value: Any, functions: int) -> RangeCalls | None:
        """Return the sums that a thread's field describes, ``None`` where it has none.

        Raises
        ------
        profkit.formats.run_json.MemberError
            The field is not what it should be.
        profkit.model.ProfileError
            The columns contradict each other, or the profile of so many functions.
        """
        if value is None:
            return None
        if not isinstance(value, dict):
            raise MemberError(f"{name} is not an object")
        contexts = row_range(f"{name}.contexts", value.get("contexts"), len(self._contexts["parent"]))
        rows = row_range(f"{name}.functions", value.get("functions"), len(self._rows["context"]))
        columns: dict[str, Any] = {key: column[contexts] for key, column in self._contexts.items()}
        columns.update((key, column[rows]) for key, column in self._rows.items())
        return RangeCalls(self._strings, **columns).validate(functions)


def read_range_calls(read: Callable[[str, int], bytes], present: frozenset[str]) -> RangeCallArrays:
    """Read all columns; a run without them has no rows.

    Parameters
    ----------
    read
        Returns a member's bytes, given its name and the most bytes it may have.
    present
        Names of all members.

    Raises
    ------
    profkit.formats.run_json.MemberError
        A column is missing, is no array of its type, or has another length than the others.
    """
    groups = zip(_GROUPS, RangeCalls.columns(), strict=True)
    if f"{_GROUPS[0]}/parent.npy" not in present:
        contexts, rows = (
            {name: np.zeros(0, dtype) for name, dtype in dtypes.items()} for _, dtypes in groups
        )
        return RangeCallArrays(("",), contexts, rows)
    contexts, rows = (
        {
            name: read_column(read, f"{group}/{name}", dtype.newbyteorder("<"))
            for name, dtype in dtypes.items()
        }
        for group, dtypes in groups
    )
    for group, columns in zip(_GROUPS, (contexts, rows), strict=True):
        if len({len(values) for values in columns.values()}) > 1:
            raise MemberError(f"the columns of {group} have different lengths")
    return RangeCallArrays(read_strings(read, f"{_GROUPS[0]}/"), contexts, rows)
