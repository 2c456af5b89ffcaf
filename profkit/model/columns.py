"""Columns of a record, found and checked by the types of its fields.

A record of columns is a dataclass whose arrays have one row per function, range, sample …. Types such as
`bounds.Counts` define their dtypes and allowed numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from profkit.model.bounds import Bounds, bounds_of


class ProfileError(ValueError):
    """Columns contradict each other or hold impossible values; the message names the column."""


@functools.cache
def column_dtypes(record: type, *, optional: bool = False) -> Mapping[str, np.dtype[Any]]:
    """Return names and dtypes of a record's columns, in field order.

    With `optional`, these are the columns that may be ``None``; otherwise those that are always present.
    """
    columns = _column_types(record).items()
    return MappingProxyType({name: dtype for name, (dtype, _, may_lack) in columns if may_lack == optional})


@functools.cache
def _column_types(record: type) -> Mapping[str, tuple[np.dtype[Any], Bounds | None, bool]]:
    """Return dtype, bounds and whether ``None`` is allowed, for each column of a record."""
    types = get_type_hints(record, include_extras=True)
    found = {}
    for field in fields(record):
        type_ = types[field.name]
        alternatives = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
        for column in alternatives:
            if get_origin(_array_of(column)) is np.ndarray:
                found[field.name] = (*_type_of(column), NoneType in alternatives)
    return found


def check_columns(record: object, n: int, what: str, names: Iterable[str] | None = None) -> None:
    """Check dtype, length and numbers of a record's columns.

    Parameters
    ----------
    record
        The dataclass; optional columns may be ``None``.
    n
        Number of rows.
    what
        What the columns belong to, for messages.
    names
        Check only these columns.

    Raises
    ------
    ProfileError
        A column has another dtype or length, or a number out of bounds.
    """
    kind: Any = type(record)
    types = _column_types(kind)
    for name in types if names is None else names:
        dtype, bounds, optional = types[name]
        values = getattr(record, name)
        if values is not None or not optional:
            _check(what, name, values, n, dtype, bounds)


def check_values(what: str, name: str, values: npt.NDArray[Any], n: int, type_: Any) -> None:
    """Check a column that is not a field of a record, as `check_columns` does.

    `type_` is the required type: an array type, or one of `bounds`.
    """
    _check(what, name, values, n, *_type_of(type_))


def _check(
    what: str, name: str, values: npt.NDArray[Any], n: int, dtype: np.dtype[Any], bounds: Bounds | None
) -> None:
    if values.dtype != dtype or values.shape != (n,):
        raise ProfileError(f"{what}: {name} is not a column of {n} {dtype.name}")
    problem = bounds.problem_in(values) if bounds is not None else ""
    if problem:
        raise ProfileError(f"{what}: {name} {problem}")


def _type_of(type_: Any) -> tuple[np.dtype[Any], Bounds | None]:
    """Return the dtype of an array type, and its bounds."""
    (scalar,) = get_args(get_args(_array_of(type_))[1])
    return np.dtype(scalar), bounds_of(type_)


def check_indices(record: object, what: str, names: Iterable[str], rows: int, least: int = 0) -> None:
    """Check indices into a table of `rows` rows; raise `ProfileError` if one is outside.

    `least` is −1 where that stands for none.
    """
    for name in names:
        values = getattr(record, name)
        if len(values) and (values.min() < least or values.max() >= rows):
            raise ProfileError(f"{what}: {name} points outside its table of {rows}")


def _array_of(type_: Any) -> Any:
    """Return a type without its bounds and aliases: NumPy 2.5 on Python 3.12 makes ``NDArray`` an alias."""
    bare = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    value = getattr(get_origin(bare), "__value__", None)
    return bare if value is None else value[get_args(bare)]
