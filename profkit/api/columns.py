"""`Columns`: a small table of results for pandas, Polars and others. Unknown values are NaN or ``None``."""

from __future__ import annotations

import copyreg
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.errors import ProfkitError
from profkit.model.arrays import Bools
from profkit.model.surrogates import spelled_out

#: Most rows that a notebook shows.
MOST_SHOWN = 20
#: By kind, the type of a column's array and what stands for an unknown value in it.
_KINDS: Mapping[str, tuple[type, Any]] = {
    "text": (np.object_, ""),
    "number": (np.float64, np.nan),
    "whole": (np.int64, 0),
    "flag": (np.bool_, False),
}

#: A column; unknown values are masked.
Column: TypeAlias = "np.ma.MaskedArray[Any, Any]"


def column(kind: str, values: Iterable[Any] | npt.NDArray[Any], known: Bools | None = None) -> Column:
    """Make a column; ``None`` is unknown, and so are NaN and infinities. `known` applies to an array only."""
    dtype, unknown = _KINDS[kind]
    if not isinstance(values, np.ndarray):
        found = list(values)
        known = np.array([value is not None for value in found], np.bool_)
        values = np.array([unknown if value is None else value for value in found], dtype)
    array: npt.NDArray[Any] = np.ascontiguousarray(values, dtype)
    if kind == "number":
        known = np.isfinite(array)
    return np.ma.array(array, mask=False if known is None else ~known)


texts, numbers, wholes, flags = (partial(column, kind) for kind in _KINDS)


def columns_of(
    items: Sequence[Any], spec: str, prefix: str = "", /, **computed: Iterable[Any]
) -> dict[str, Column]:
    """Make columns of items (or ``None``), in the order of `spec`: ``name:kind``, or ``name=path.of.fields:kind``.

    `computed` has the values of names that are no fields.
    """
    found = {}
    for word in spec.split():
        name, _, kind = word.partition(":")
        name, _, path = name.partition("=")
        values = computed[name] if name in computed else [_member(item, path or name) for item in items]
        found[prefix + name] = column(kind, values)
    return found


def _member(item: Any, path: str) -> Any:
    for name in path.split("."):
        item = None if item is None else getattr(item, name)
    return item


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
        found = self._columns[name]
        if found.dtype == np.object_:
            return found.tolist()  # type: ignore[no-any-return]
        if not np.ma.is_masked(found):
            return found.data
        if found.dtype == np.bool_:
            return np.array(found.tolist(), np.object_)
        return np.where(found.mask, np.nan, found.data)

    def __iter__(self) -> Iterator[Any]:
        rows = zip(*(column.tolist() for column in self._columns.values()), strict=True)
        return map(_row_type(tuple(self._columns))._make, rows)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of plain Python values, ``None`` where unknown.

        Lone surrogates, which stand for undecodable bytes, are escaped (``\\udce9``): neither JSON nor data
        frames can hold them.
        """
        return {name: _spelled(column) for name, column in self._columns.items()}

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
            Head(name, "text" if column.dtype in (np.object_, np.bool_) else "count")
            for name, column in self._columns.items()
        )
        shown = min(self._length, MOST_SHOWN)
        cells = [
            [clean(_shown(value)) for value in column[:shown].tolist()] for column in self._columns.values()
        ]
        table = Table(heads, tuple(map(Row, zip(*cells, strict=True))))
        return f'<div class="profkit">{table_markup(table)}<p>{self._length:,} rows</p></div>'


@lru_cache
def _row_type(names: tuple[str, ...]) -> Any:
    """Return the type of rows with these columns; as no module has it, its rows are pickled with their names."""
    named = namedtuple("Row", names)  # type: ignore[misc]  # its fields are known here only
    copyreg.pickle(named, lambda row: (_row, (names, tuple(row))))
    return named


def _row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _row_type(names)(*values)


def _arrow(column: Column) -> Any:
    """Return a column as an Arrow array, which shares the memory of numbers."""
    import pyarrow

    if column.dtype == np.object_:
        return pyarrow.array(_spelled(column), pyarrow.large_string())
    return pyarrow.array(column.data, mask=column.mask if np.ma.is_masked(column) else None)


def _spelled(column: Column) -> list[Any]:
    values: list[Any] = column.tolist()
    return [spelled_out(value) if isinstance(value, str) else value for value in values]


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
