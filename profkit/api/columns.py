"""`Columns`: a small table of results for pandas, Polars and others. Unknown values are NaN or ``None``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.errors import ProfkitError
from profkit.model.arrays import Bools, Rows
from profkit.model.surrogates import spelled_out

#: Most rows that a notebook shows.
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column.

    Attributes
    ----------
    kind
        ``text``, ``number`` (float64), ``whole`` (int64) or ``flag`` (bool).
    values
        A tuple of str for ``text``, else an array; meaningless where not `known`.
    known : bool array, shape (n,)
        Where a value is known.
    """

    kind: str
    values: tuple[str, ...] | npt.NDArray[Any]
    known: Bools

    def __len__(self) -> int:
        return len(self.known)

    def listed(self) -> list[Any]:
        """Return plain Python values, ``None`` where unknown."""
        values = self.values if isinstance(self.values, tuple) else self.values.tolist()
        if self.known.all():
            return list(values)
        return [value if known else None for value, known in zip(values, self.known.tolist(), strict=True)]

    def plain(self) -> npt.NDArray[Any] | list[Any]:
        """Return the column as `Columns` gives it."""
        if isinstance(self.values, tuple):
            return self.listed()
        if self.known.all():
            return self.values
        if self.kind == "flag":
            return np.array(self.listed(), np.object_)
        return np.where(self.known, self.values, np.nan)


def texts(values: Iterable[str | None]) -> Column:
    """Make a column of strings."""
    found = list(values)
    known = np.array([value is not None for value in found], np.bool_)
    return Column("text", tuple(value or "" for value in found), known)


def numbers(values: Iterable[float | None] | npt.NDArray[np.floating]) -> Column:
    """Make a column of floats; NaN and infinities are unknown."""
    array = np.ascontiguousarray(values if isinstance(values, np.ndarray) else list(values), np.float64)
    return Column("number", array, np.isfinite(array))


def wholes(values: Iterable[int | None] | Rows, known: Bools | None = None) -> Column:
    """Make a column of whole numbers; `known` applies to an array only."""
    if not isinstance(values, np.ndarray):
        found = list(values)
        known = np.array([value is not None for value in found], np.bool_)
        values = np.array([value or 0 for value in found], np.int64)
    array = np.ascontiguousarray(values, np.int64)
    return Column("whole", array, np.ones(len(array), np.bool_) if known is None else known)


def flags(values: Iterable[bool | None]) -> Column:
    """Make a column of truth values."""
    found = list(values)
    known = np.array([value is not None for value in found], np.bool_)
    return Column("flag", np.array([bool(value) for value in found], np.bool_), known)


def attributes(items: Sequence[Any], **kinds: Sequence[str]) -> dict[str, Column]:
    """Make columns of attributes of items (or ``None``); `kinds` has the names for each kind of `_MAKERS`."""
    of = {name: _MAKERS[kind] for kind, names in kinds.items() for name in names}
    return {
        name: make(None if item is None else getattr(item, name) for item in items)
        for name, make in of.items()
    }


_MAKERS: Mapping[str, Callable[[Iterable[Any]], Column]] = {"text": texts, "number": numbers, "whole": wholes}


class Columns:
    """A table: columns by name, and rows.

    ``table["tottime"]`` is a column: a list of str for texts, a float64 array for times (NaN where unknown),
    an int64 array for counts (float64 with NaN if some are unknown), a bool array for truth values (object
    with ``None`` if some are unknown). Iterating gives rows: named tuples of plain values, ``None`` where
    unknown. ``len`` is the number of rows. Copy arrays before changing them.

    With pyarrow installed, libraries that support the Arrow PyCapsule interface take it without copying
    numbers: ``polars.DataFrame(table)``, ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``.
    Every Polars and pandas takes ``table.to_dict()``.

    Parameters
    ----------
    columns
        In order, all of one length.
    """

    __slots__ = ("_columns", "_length")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._length = len(next(iter(self._columns.values()))) if self._columns else 0
        if any(len(column) != self._length for column in self._columns.values()):
            raise ValueError("columns of different lengths")

    def __len__(self) -> int:
        return self._length

    def keys(self) -> list[str]:
        """Return the names of the columns, in order."""
        return list(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> npt.NDArray[Any] | list[Any]:
        if name not in self._columns:
            raise KeyError(f"no column {name!r}, there are: {', '.join(self._columns)}")
        return self._columns[name].plain()

    def __iter__(self) -> Iterator[Any]:
        row = namedtuple("Row", self._columns)  # type: ignore[misc]  # its fields are known here only
        return map(row._make, zip(*(column.listed() for column in self._columns.values()), strict=True))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of plain Python values, ``None`` where unknown.

        Lone surrogates, which stand for undecodable bytes, are escaped (``\\udce9``): neither JSON nor data
        frames can hold them.
        """
        return {name: _spelled(column).listed() for name, column in self._columns.items()}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table as an Arrow stream (a ``PyCapsule``).

        Raises
        ------
        ProfkitError
            pyarrow is not installed.
        """
        try:
            import pyarrow  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise ProfkitError(
                "tables are handed over by pyarrow, which is not installed here: pip install 'profkit[arrow]', "
                "or take table.to_dict()"
            ) from None
        table = pyarrow.table({name: _arrow(column) for name, column in self._columns.items()})
        return table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names = ", ".join(self._columns)
        return f"<profkit.Columns, {self._length:,} row{'' if self._length == 1 else 's'}: {names}>"

    def _repr_html_(self) -> str:
        from profkit.report.document import Column as Head
        from profkit.report.document import Row, Table
        from profkit.report.fragment import table_markup
        from profkit.report.text import clean

        # A report's tables have units; this one shows plain values, as a data frame does.
        heads = tuple(
            Head(name, "text" if column.kind in ("text", "flag") else "count")
            for name, column in self._columns.items()
        )
        shown = min(self._length, MOST_SHOWN)
        cells = [
            [clean(_shown(value)) for value in column.listed()[:shown]] for column in self._columns.values()
        ]
        table = Table(heads, tuple(map(Row, zip(*cells, strict=True))))
        return f'<div class="profkit">{table_markup(table)}<p>{self._length:,} rows</p></div>'


def _arrow(column: Column) -> Any:
    """Return a column as an Arrow array, which shares the memory of numbers."""
    import pyarrow

    if isinstance(column.values, tuple):
        return pyarrow.array(_spelled(column).listed(), pyarrow.large_string())
    return pyarrow.array(column.values, mask=None if column.known.all() else ~column.known)


def _spelled(column: Column) -> Column:
    if not isinstance(column.values, tuple):
        return column
    return replace(column, values=tuple(map(spelled_out, column.values)))


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
