"""Reader of untrusted `marshal` version 2 data, which has no references, and what readers of all data share.

`marshal.loads` trusts sizes and types, and damaged bytes can crash the interpreter. Here nothing is allocated
before its bytes are seen, and objects are at most a few times as large as their bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

#: Deepest nesting of lists and dictionaries; the deepest in a record are the spans of a note.
_DEEPEST = 8
#: Most lists and dictionaries, plus one per so many bytes: they take more memory than their bytes.
_CONTAINERS, _BYTES_A_CONTAINER = 1_000, 24
#: Most objects read one by one; large data is in tables.
_MOST_OBJECTS = 5_000_000
#: Marshal's long integers have 15-bit digits; 64 bits take five.
_MOST_DIGITS = 5

#: The mark that closes a dictionary.
END: Final = object()
_CLOSED, _LIST, _TUPLE, _INT, _FLOAT = b"0[(ig"


class PlainDataError(ValueError):
    """The bytes are not what they should be; the message tells why. `truncated`: they end in the middle."""

    def __init__(self, problem: str, *, truncated: bool = False) -> None:
        super().__init__(problem)
        self.truncated = truncated


class MarshalReader:
    """Reader of the parts of marshal data; nothing is allocated before its bytes are seen."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes | memoryview:
        stop = self.at + count
        if stop > len(self.data):
            raise PlainDataError(
                f"ends in the middle of its data, after {len(self.data)} bytes", truncated=True
            )
        chunk = self.data[self.at : stop]
        self.at = stop
        return chunk

    def size(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def number(self, form: str) -> Any:
        """Read a number of 32 or 64 bits."""
        (value,) = struct.unpack(f"<{form}", self.take(4 if form == "i" else 8))
        return value

    def digits(self) -> int:
        """Read an integer of more than 32 bits."""
        count = self.number("i")
        if abs(count) > _MOST_DIGITS:
            raise PlainDataError(f"holds a number of more than 64 bits, at byte {self.at - 5}")
        value = 0
        for place, digit in enumerate(struct.unpack(f"<{abs(count)}H", self.take(2 * abs(count)))):
            value += digit << 15 * place
        return -value if count < 0 else value


class _Reader(MarshalReader):
    def __init__(self, data: bytes | memoryview) -> None:
        super().__init__(memoryview(data))
        self._containers = _CONTAINERS + len(data) // _BYTES_A_CONTAINER
        self._objects = _MOST_OBJECTS

    def object(self, depth: int = 0) -> Any:
        """Read one object; return `END` for the mark that closes a dictionary."""
        kind = self.take(1)[0]
        read = _READERS.get(kind)
        if read is None:
            raise PlainDataError(f"holds data of an unknown type at byte {self.at - 1}")
        self._objects -= 1
        if self._objects < 0:
            raise PlainDataError(f"holds more than {_MOST_OBJECTS} objects")
        return read(self, depth)

    def text(self, depth: int) -> str:
        try:
            return str(self.take(self.size()), "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise PlainDataError(f"holds a damaged text before byte {self.at}") from None

    def sequence(self, depth: int) -> list[Any]:
        count = self.size()
        self._open(depth)
        if count > len(self.data) - self.at:
            raise PlainDataError(f"holds a list longer than its data at byte {self.at - 5}")
        values: list[Any] = [None] * count
        for place in range(count):
            values[place] = self.object(depth + 1)
            if values[place] is END:
                raise PlainDataError(f"holds a damaged list before byte {self.at}")
        return values

    def pairs(self, depth: int) -> dict[str, Any]:
        self._open(depth)
        found: dict[str, Any] = {}
        while (key := self.object(depth + 1)) is not END:
            value = self.object(depth + 1)
            if not isinstance(key, str) or value is END:
                raise PlainDataError(f"holds a damaged dictionary before byte {self.at}")
            found[key] = value
        return found

    def _open(self, depth: int) -> None:
        self._containers -= 1
        if depth >= _DEEPEST or self._containers < 0:
            raise PlainDataError(f"holds more lists than its size allows, or deeper ones, at byte {self.at}")


_READERS: dict[int, Callable[[_Reader, int], Any]] = {
    ord("N"): lambda r, _: None,
    ord("T"): lambda r, _: True,
    ord("F"): lambda r, _: False,
    _INT: lambda r, _: r.number("i"),
    ord("l"): lambda r, _: r.digits(),
    _FLOAT: lambda r, _: r.number("d"),
    ord("u"): _Reader.text,
    ord("s"): lambda r, _: bytes(r.take(r.size())),
    _LIST: _Reader.sequence,
    _TUPLE: _Reader.sequence,
    ord("{"): _Reader.pairs,
    _CLOSED: lambda r, _: END,
}


def read_plain(data: bytes | memoryview) -> Any:
    """Return ``None``, a bool, int, float, str, bytes, list (also for a tuple), or dict with str keys.

    Raise `PlainDataError` if the bytes are damaged, hold something else, or go on after the object.
    """
    reader = _Reader(data)
    value = reader.object()
    if value is END:
        raise PlainDataError("holds no data")
    if reader.at != len(data):
        raise PlainDataError(f"holds {len(data) - reader.at} bytes after its data")
    return value
