"""What ran inside ranges, of all threads as one set of arrays, and back; used by `runfile` only.

The threads' columns are concatenated over one string table, and each thread keeps its row ranges. A run
without such sums lacks these members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profkit.formats.codec import as_object
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
from profkit.model import RangeCalls

_CONTEXTS, _FUNCTIONS = "range_contexts", "range_functions"
_TEXT_COLUMNS = ("name", "domain")


def gather_range_calls(parts: Sequence[RangeCalls], strings: Strings) -> Iterator[tuple[str, Array]]:
    """Concatenate the sums of threads, and join their texts to a string table.
    Yields as `run_columns.gather_group` does, nothing if no thread has sums."""
    if not parts:
        return
    places = strings.join(part.strings for part in parts)
    contexts, rows = RangeCalls.columns()
    yield from gather_group(_CONTEXTS, contexts, parts, _TEXT_COLUMNS, places)
    yield from gather_group(_FUNCTIONS, rows, parts)


class RangeCallArrays:
    """Columns of all threads' sums."""

    def __init__(self, strings: tuple[str, ...], contexts: dict[str, Array], rows: dict[str, Array]) -> None:
        self._strings = strings
        self._contexts = contexts
        self._rows = rows
        self._of_contexts, self._of_rows = Rows(len(contexts["parent"])), Rows(len(rows["context"]))

    def calls(self, name: str, value: Any, functions: int) -> RangeCalls | None:
        """Return the sums that a thread's field describes, ``None`` if it has none.
        Raise `MemberError` if the field is invalid, and `ProfileError` if the columns contradict each other
        or the thread's functions."""
        if value is None:
            return None
        fields = as_object(name, value)
        contexts = self._of_contexts.take(f"{name}.contexts", fields.get("contexts"))
        rows = self._of_rows.take(f"{name}.functions", fields.get("functions"))
        columns: dict[str, Any] = {key: column[contexts] for key, column in self._contexts.items()}
        columns.update((key, column[rows]) for key, column in self._rows.items())
        return RangeCalls(self._strings, **columns).validate(functions)


def read_range_calls(members: Members) -> RangeCallArrays:
    """Read all columns, no rows if the run has none; raises as `run_columns.read_group` does."""
    contexts, rows = RangeCalls.columns()
    if f"{_CONTEXTS}/parent.npy" not in members.sizes:
        return RangeCallArrays(("",), no_rows(contexts), no_rows(rows))
    return RangeCallArrays(
        read_strings(members, f"{_CONTEXTS}/"),
        read_group(members, _CONTEXTS, contexts, "range contexts"),
        read_group(members, _FUNCTIONS, rows, "functions inside ranges"),
    )
