"""Calling contexts of all threads as one set of arrays, and back; used by `runfile` only.

The threads' columns are concatenated, and each thread keeps its row range. A run without contexts lacks these
members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profkit.formats.run_columns import Array, Members, gather_group, no_rows, read_group
from profkit.formats.run_json import Rows
from profkit.model import Paths

_GROUP = "paths"


def gather_paths(parts: Sequence[Paths]) -> Iterator[tuple[str, Array]]:
    """Concatenate the paths of threads.
    Yields as `run_columns.gather_group` does, nothing if no thread has paths."""
    if parts:
        yield from gather_group(_GROUP, Paths.columns(), parts)


class PathArrays:
    """Columns of all threads' paths."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self._columns = columns
        self._rows = Rows(len(columns["parent"]))

    def paths(self, name: str, value: Any, functions: int) -> Paths | None:
        """Return the paths that a thread's field describes, ``None`` if it has none.
        Raise `MemberError` if the field is invalid, and `ProfileError` if the columns contradict each other
        or the thread's functions."""
        if value is None:
            return None
        rows = self._rows.take(name, value)
        columns: dict[str, Any] = {key: column[rows] for key, column in self._columns.items()}
        return Paths(**columns).validate(functions)


def read_paths(members: Members) -> PathArrays:
    """Read all columns, no rows if the run has none; raises as `run_columns.read_group` does."""
    if f"{_GROUP}/parent.npy" not in members.sizes:
        return PathArrays(no_rows(Paths.columns()))
    return PathArrays(read_group(members, _GROUP, Paths.columns(), "calling contexts"))
