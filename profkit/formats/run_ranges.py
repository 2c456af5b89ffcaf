"""NVTX ranges of all processes as one set of arrays, and back; used by `runfile` only.

The processes' columns are concatenated over one string table, and each process keeps its row range. A run
without ranges lacks these members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profkit.formats.codec import Codec
from profkit.formats.limits import Budget, spend_names, text_sizes
from profkit.formats.run_columns import (
    Array,
    Members,
    Strings,
    gather_group,
    no_rows,
    read_group,
    read_strings,
)
from profkit.formats.run_json import Rows
from profkit.model.columns import column_dtypes
from profkit.model.ranges import Ranges

_TEXT_COLUMNS = ("name", "domain", "category")
_COLUMNS = column_dtypes(Ranges)
#: A process's ``ranges`` in ``processes.json``, beside its rows.
_CODEC = Codec(Ranges, elsewhere=("strings", *_COLUMNS))


def gather_ranges(parts: Sequence[Ranges], strings: Strings) -> Iterator[tuple[str, Array]]:
    """Concatenate the ranges of processes, and join their texts to a string table.
    Yields as `run_columns.gather_group` does, nothing if no process has ranges."""
    if not parts:
        return
    places = strings.join(part.strings for part in parts)
    yield from gather_group("ranges", _COLUMNS, parts, _TEXT_COLUMNS, places)


def range_document(ranges: Ranges, row: int) -> dict[str, Any]:
    """Return the entry in ``processes.json`` for a process's ranges, which begin at `row` of the columns."""
    return {"rows": [row, row + len(ranges)], **_CODEC.write(ranges)}


class RangeArrays:
    """Columns of all processes' ranges."""

    def __init__(self, strings: tuple[str, ...], columns: dict[str, Array], budget: Budget) -> None:
        self._strings = strings
        self._sizes = text_sizes(strings)
        self._columns = columns
        self._rows = Rows(len(columns["name"]))
        self._budget = budget

    def ranges(self, name: str, value: Any) -> Ranges | None:
        """Return the ranges that a process's field describes, ``None`` if it has none.
        Raise `MemberError` if the field is invalid, `ProfileError` if the columns contradict each other, and
        `LimitError` if their names exceed the limit."""
        if value is None:
            return None
        fields = _CODEC.read_fields(name, value)
        rows = self._rows.take(f"{name}.rows", value.get("rows"))
        columns: dict[str, Any] = {key: column[rows] for key, column in self._columns.items()}
        ranges = Ranges(self._strings, **columns, **fields).validate()
        spend_names(self._budget, self._sizes, (ranges.name, ranges.domain, ranges.category))
        return ranges


def read_ranges(members: Members) -> RangeArrays:
    """Read all columns, no rows if the run has none; raises as `run_columns.read_group` does."""
    if "ranges/name.npy" not in members.sizes:
        return RangeArrays(("",), no_rows(_COLUMNS), members.budget)
    columns = read_group(members, "ranges", _COLUMNS, "NVTX ranges")
    return RangeArrays(read_strings(members, "ranges/"), columns, members.budget)
