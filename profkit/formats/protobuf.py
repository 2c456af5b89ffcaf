"""Protocol Buffers encoding as far as pprof needs it: integers, strings and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

#: A field's value: an unsigned integer, or the bytes of a string, a message or packed integers.
Value: TypeAlias = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WORD = 1 << 64


def varint(value: int) -> bytes:
    """Write a 64-bit integer; negative ones as two's complement."""
    value %= _WORD
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def integer(field: int, value: int) -> bytes:
    """Write an integer field; nothing for 0, the default."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def message(field: int, content: bytes) -> bytes:
    """Write a field with a message or a string."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def packed(field: int, values: Iterable[int]) -> bytes:
    """Write a repeated integer field."""
    return message(field, b"".join(map(varint, values)))


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return an integer and where it ends; raise `ValueError` if it is cut off or longer than 64 bits."""
    result = shift = 0
    while shift < 70:
        if at >= len(data):
            raise ValueError("it is cut off")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result % _WORD, at
        shift += 7
    raise ValueError("an integer is longer than 64 bits")


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a message; raise `ValueError` if it is malformed."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = read_varint(data, at)
            yield field, value
            continue
        if kind == _BYTES:
            size, at = read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("a field has a type that does not exist")
        if not field or size > len(data) - at:
            raise ValueError("it is cut off" if field else "a field has no number")
        if kind == _BYTES:
            yield field, data[at : at + size]
        at += size


def integers(value: Value) -> list[int]:
    """Return the unsigned integers of a repeated field, which may be packed."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at)
        found.append(number)
    return found


def signed(value: int) -> int:
    """Return an int64 that was read as an unsigned integer."""
    return value - _WORD if value >> 63 else value
