"""NVTX ranges of all processes as one set of arrays, and back; used by `runfile` only.

As with functions, the processes' columns are behind each other over one string table, and each process keeps
its row range. A run without ranges has none of these members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from profkit.formats.run_columns import Array, read_column, read_strings, text_arrays
from profkit.formats.run_json import MemberError, record, row_range, whole
from profkit.model.ranges import Ranges

__all__ = ["RangeArrays", "gather_ranges", "range_document", "read_ranges"]

_TEXT_COLUMNS = ("name", "domain", "category")
#: Fields of a process's ``ranges`` in ``processes.json``, beside its rows.
_FIELDS = dict.fromkeys(("monotonic_ns", "realtime_ns", "lost", "folded", "unmatched"), whole)


def gather_ranges(parts: Sequence[Ranges]) -> Iterator[tuple[str, Array]]:
    """Concatenate the ranges of processes.

    Yields
    ------
    tuple of str and array
        Member name without its suffix, and its values; nothing where there are no processes with ranges.
    """
    if not parts:
        return
    union: dict[str, int] = {"": 0}
    maps = [
        np.array([union.setdefault(text, len(union)) for text in part.strings], np.int32) for part in parts
    ]
    for name, values in text_arrays(union):
        yield f"ranges/{name}", values
    for name, dtype in Ranges.columns().items():
        columns = [getattr(part, name) for part in parts]
        if name in _TEXT_COLUMNS:
            columns = [table[column] for table, column in zip(maps, columns, strict=True)]
        yield f"ranges/{name}", np.concatenate(columns).astype(dtype.newbyteorder("<"), copy=False)


def range_document(ranges: Ranges, row: int) -> dict[str, Any]:
    """Return what ``processes.json`` says of a process's ranges, which begin at a row of the columns."""
    return {"rows": [row, row + len(ranges)], **{name: int(getattr(ranges, name)) for name in _FIELDS}}


class RangeArrays:
    """Columns of all processes' ranges."""

    def __init__(self, strings: tuple[str, ...], columns: dict[str, Array]) -> None:
        self._strings = strings
        self._columns = columns

    def ranges(self, name: str, value: Any) -> Ranges | None:
        """Return the ranges that a process's field describes, ``None`` where it has none.

        Raises
        ------
        profkit.formats.run_json.MemberError
            The field is not what it should be.
        profkit.model.ProfileError
            The columns contradict each other.
        """
        if value is None:
            return None
        fields = record(name, value, _FIELDS)
        rows = row_range(f"{name}.rows", value.get("rows"), len(self._columns["name"]))
        columns: dict[str, Any] = {key: column[rows] for key, column in self._columns.items()}
        return Ranges(self._strings, **columns, **fields).validate()


def read_ranges(read: Callable[[str, int], bytes], present: frozenset[str]) -> RangeArrays:
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
    dtypes = Ranges.columns()
    if "ranges/name.npy" not in present:
        return RangeArrays(("",), {name: np.zeros(0, dtype) for name, dtype in dtypes.items()})
    columns = {
        name: read_column(read, f"ranges/{name}", dtype.newbyteorder("<")) for name, dtype in dtypes.items()
    }
    if len({len(values) for values in columns.values()}) > 1:
        raise MemberError("the columns of ranges have different lengths")
    return RangeArrays(read_strings(read, "ranges/"), columns)
