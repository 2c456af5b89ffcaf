"""Calling contexts of all threads as one set of arrays, and back; used by `runfile` only.

The threads' columns are behind each other, and each thread keeps its row range. A run without any has none of these
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

    Yields
    ------
    tuple of str and array
        Member name without its suffix, and its values; nothing where no thread has paths.
    """
    if parts:
        yield from gather_group(_GROUP, Paths.columns(), parts)


class PathArrays:
    """Columns of all threads' paths."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self._columns = columns
        self._rows = Rows(len(columns["parent"]))

    def paths(self, name: str, value: Any, functions: int) -> Paths | None:
        """Return the paths that a thread's field describes, ``None`` where it has none.

        Raises
        ------
        profkit.formats.codec.MemberError
            The field is not what it should be.
        profkit.model.ProfileError
            The columns contradict each other, or the profile of so many functions.
        """
        if value is None:
            return None
        rows = self._rows.take(name, value)
        columns: dict[str, Any] = {key: column[rows] for key, column in self._columns.items()}
        return Paths(**columns).validate(functions)


def read_paths(members: Members) -> PathArrays:
    """Read all columns; a run without them has no rows.

    Raises
    ------
    profkit.formats.codec.MemberError
        A column is missing, is no array of its type, or has another length than the others.
    """
    if f"{_GROUP}/parent.npy" not in members.sizes:
        return PathArrays(no_rows(Paths.columns()))
    return PathArrays(read_group(members, _GROUP, Paths.columns(), "calling contexts"))
