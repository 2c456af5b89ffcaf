"""Columns as an Arrow stream in a ``PyCapsule``, made with `ctypes` alone: no library is needed to give data away.

Follows the Arrow C data interface, C stream interface and PyCapsule interface. The structures and their order of
release:

- The capsule owns an ``ArrowArrayStream``. Who takes it moves the structure out and releases it; a capsule that
  is never taken releases it when it is collected.
- The stream gives one schema and one batch, a struct with one child a column. Each structure that is given away has
  an entry in `_KEPT`, which holds the Python objects behind its pointers, under the number in its ``private_data``.
  Its release callback drops the entry, after releasing the children that have not been moved out.

A release may come from any thread, with or without the GIL: `ctypes` takes it. Numbers are not copied: the arrays of
the table are kept as long as anybody uses them.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.api.columns import Column
from profkit.report.jsonvalues import json_text

__all__ = ["stream_of"]

_NAME = b"arrow_array_stream"
_NULLABLE = 2
#: Format strings; texts have offsets of 64 bits.
_FORMATS = {"text": b"U", "number": b"g", "whole": b"l", "flag": b"b"}
_STRUCT = b"+s"
#: What `get_schema` and `get_next` return where they fail.
_EIO = 5


class _Schema(Structure):
    """``struct ArrowSchema``."""


class _Array(Structure):
    """``struct ArrowArray``."""


class _Stream(Structure):
    """``struct ArrowArrayStream``."""


_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_char_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", POINTER(_Schema)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
_Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_Array))),
    ("dictionary", POINTER(_Array)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
_Stream._fields_ = [
    ("get_schema", c_void_p),
    ("get_next", c_void_p),
    ("get_last_error", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


def _callback(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function one that C code may call, from any thread."""
    return ctypes.CFUNCTYPE(result, *arguments)


#: What the structures that are out there point into, by the number in their ``private_data``.
_KEPT: dict[int, Any] = {}
#: The streams of capsules, by their address.
_STREAMS: dict[int, _Stream] = {}
_NUMBERS = itertools.count(1)


def _keep(*objects: object) -> int:
    number = next(_NUMBERS)
    _KEPT[number] = objects
    return number


def _release(structure: Any, callback: Any) -> None:
    """Release a schema or an array: its children that are still there, then what it kept."""
    for place in range(structure.n_children):
        child = structure.children[place]
        if child[0].release:
            callback(child)
    _KEPT.pop(structure.private_data, None)
    structure.release = None


@_callback(None, POINTER(_Schema))
def _release_schema(schema: Any) -> None:
    _release(schema[0], _release_schema)


@_callback(None, POINTER(_Array))
def _release_array(array: Any) -> None:
    _release(array[0], _release_array)


@_callback(None, POINTER(_Stream))
def _release_stream(stream: Any) -> None:
    _KEPT.pop(stream[0].private_data, None)
    stream[0].release = None


@_callback(c_int, POINTER(_Stream), POINTER(_Schema))
def _get_schema(stream: Any, out: Any) -> int:
    try:
        out[0] = _schema_of(_KEPT[stream[0].private_data][0].columns)
    except Exception as error:
        return _failed(stream, error)
    return 0


@_callback(c_int, POINTER(_Stream), POINTER(_Array))
def _get_next(stream: Any, out: Any) -> int:
    try:
        source = _KEPT[stream[0].private_data][0]
        # The end of the stream is an array that is released already.
        out[0] = _Array() if source.given else _batch_of(source.columns, source.length)
        source.given = True
    except Exception as error:
        return _failed(stream, error)
    return 0


@_callback(c_void_p, POINTER(_Stream))
def _get_last_error(stream: Any) -> int | None:
    source = _KEPT[stream[0].private_data][0]
    return None if source.error is None else ctypes.addressof(source.error)


def _failed(stream: Any, error: Exception) -> int:
    kept = _KEPT.get(stream[0].private_data)
    if kept is not None:
        kept[0].error = ctypes.create_string_buffer(f"profkit: {error!r}".encode("utf-8", "backslashreplace"))
    return _EIO


class _Source:
    """What a stream gives: the columns, once."""

    def __init__(self, columns: Mapping[str, Column], length: int) -> None:
        self.columns = columns
        self.length = length
        self.given = False
        self.error: Any = None


# Prototypes of their own: argument types set at `ctypes.pythonapi` would be set for everybody.
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# The capsule as an address: it is being deallocated when it is asked, and may not be referred to again.
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _capsule_ends(capsule: int) -> None:
    address = _pointer_of(capsule, _NAME)
    stream = _Stream.from_address(address)
    if stream.release:
        _release_stream(ctypes.pointer(stream))
    _STREAMS.pop(address, None)


_capsule_ended = ctypes.PYFUNCTYPE(None, c_void_p)(_capsule_ends)


def stream_of(columns: Mapping[str, Column], length: int) -> object:
    """Return a capsule with the columns.

    Parameters
    ----------
    columns
        By name, in order.
    length
        Number of rows.

    Returns
    -------
    PyCapsule
        Named ``arrow_array_stream``; to be consumed once.
    """
    stream = _Stream(
        _address(_get_schema),
        _address(_get_next),
        _address(_get_last_error),
        _address(_release_stream),
        _keep(_Source(columns, length)),
    )
    address = ctypes.addressof(stream)
    _STREAMS[address] = stream
    return _new_capsule(address, _NAME, _address(_capsule_ended))


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value


def _schema_of(columns: Mapping[str, Column]) -> _Schema:
    children = []
    for name, column in columns.items():
        text = name.encode()
        field = _Schema(_FORMATS[column.kind], text, None, _NULLABLE, 0, None, None)
        field.release, field.private_data = _address(_release_schema), _keep(text)
        children.append(field)
    pointers = _pointers(_Schema, children)
    schema = _Schema(_STRUCT, b"", None, 0, len(children), pointers, None)
    schema.release, schema.private_data = _address(_release_schema), _keep(children, pointers)
    return schema


def _batch_of(columns: Mapping[str, Column], length: int) -> _Array:
    children = [_array_of(column) for column in columns.values()]
    pointers = _pointers(_Array, children)
    buffers = (c_void_p * 1)(None)  # validity: every row is
    batch = _Array(length, 0, 0, 1, len(children), buffers, pointers, None)
    batch.release, batch.private_data = _address(_release_array), _keep(children, pointers, buffers)
    return batch


def _array_of(column: Column) -> _Array:
    nulls = int(len(column) - np.count_nonzero(column.known))
    data = _buffers(column)
    validity = [_bits(column.known) if nulls else None]
    kept = [*validity, *data]
    buffers = (c_void_p * len(kept))(*(None if part is None else part.ctypes.data for part in kept))
    array = _Array(len(column), nulls, 0, len(kept), 0, buffers, None, None)
    array.release, array.private_data = _address(_release_array), _keep(kept, buffers)
    return array


def _buffers(column: Column) -> list[npt.NDArray[Any]]:
    """Return what an array of this kind holds behind its validity."""
    if isinstance(column.values, tuple):
        encoded = [json_text(text).encode() for text in column.values]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return [offsets, np.frombuffer(b"".join(encoded) or b"\0", np.uint8)]
    return [_bits(column.values)] if column.kind == "flag" else [column.values]


def _bits(values: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")


def _pointers(kind: Any, structures: list[Any]) -> Any:
    return (POINTER(kind) * len(structures))(*map(ctypes.pointer, structures))
