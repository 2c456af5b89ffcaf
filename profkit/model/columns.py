"""Which fields of a record are columns, and what they hold: as the types of the fields say.

A record of columns is a dataclass whose arrays have one row for each function, range, sample …; their types, such as
``npt.NDArray[np.int64]``, are the one place that says their dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["column_dtypes"]


@functools.cache
def column_dtypes(record: type, *, optional: bool = False) -> Mapping[str, np.dtype[Any]]:
    """Return names and dtypes of a record's columns, in the order of its fields.

    Parameters
    ----------
    record
        The dataclass.
    optional
        Return those columns that may be ``None``, instead of those that are always there.
    """
    types = get_type_hints(record)
    found = {}
    for field in fields(record):
        type_ = types[field.name]
        alternatives = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
        arrays = [array for array in map(_resolved, alternatives) if get_origin(array) is np.ndarray]
        if arrays and optional == (NoneType in alternatives):
            _, dtype = get_args(arrays[0])
            (scalar,) = get_args(dtype)
            found[field.name] = np.dtype(scalar)
    return MappingProxyType(found)


def _resolved(type_: Any) -> Any:
    """Return what an alias stands for: with NumPy 2.5 on Python 3.12, ``NDArray`` is a statement ``type``'s."""
    value = getattr(get_origin(type_), "__value__", None)
    return type_ if value is None else value[get_args(type_)]
