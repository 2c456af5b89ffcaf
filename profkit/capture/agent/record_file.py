"""The bytes of a record: a header that shows whether the rest is whole, and plain data of `marshal`'s version 2.

What is in a record is described in docs/format.md; `profkit.capture.records` reads it. Only `marshal` and what is
built into `int` are used: an import more, such as `zlib` for its checksum, would show in the target.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

#: What a record of an agent begins with, and one of the launcher's sampler. Behind it are the version of the format
#: and the checksum of the data (4 bytes each), and the size of the data (8 bytes), all little-endian.
MAGIC = b"PFKRECRD"
SAMPLES_MAGIC = b"PFKSAMPL"
HEADER_BYTES = 24

#: Without references between objects, which a reader would have to trust.
_MARSHAL_VERSION = 2

#: Values in a row of each table of a thread.
WIDTHS = {"functions": 5, "edges": 6, "waiting": 5, "open": 3, "contexts": 5, "inside": 6}

#: The greatest prime of 30 bits, the size of one of `int`'s digits: dividing by it takes one pass. The remainder so
#: far is multiplied before the next chunk is added, so that chunks which change places show.
_PRIME = 1073741789
_FACTOR = 805306457
_CHUNK = 1 << 14


def encode(magic: bytes, version: int, record: Dict[str, Any]) -> Tuple[bytes, bytes]:
    """Return the header and the data of a record."""
    data = marshal.dumps(record, _MARSHAL_VERSION)
    numbers = version.to_bytes(4, "little") + checksum(data).to_bytes(4, "little")
    return magic + numbers + len(data).to_bytes(8, "little"), data


def checksum(data: Any) -> int:
    """Return a number below 2**30 in which every bit of the data counts."""
    found = 0
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK):
        found = (found * _FACTOR + int.from_bytes(view[start : start + _CHUNK], "little")) % _PRIME
    return found


def pack(table: Dict[str, Any]) -> Dict[str, Any]:
    """Turn the rows of a thread's table, flat lists, into bytes; in place."""
    for name in WIDTHS:
        table[name] = packed(table.get(name))
    return table


def packed(values: Optional[List[Any]]) -> bytes:
    """Return a flat list as bytes, no bytes for none."""
    return marshal.dumps(values, _MARSHAL_VERSION) if values else b""


def pack_codes(files: List[str], places: List[int], names: List[str]) -> Dict[str, Any]:
    """Return what functions are: their files, then of each the file's number and the line, and its two names."""
    return {
        "files": _joined(files),
        "places": packed(places),
        "names": _joined(names),
    }


def _joined(texts: List[str]) -> str:
    """Return texts as one, each with an end behind it; a reader then makes strings in one call."""
    if not texts:
        return ""
    joined = "\0".join(texts) + "\0"
    if joined.count("\0") != len(texts):  # a code object may be called anything
        joined = "\0".join([text.replace("\0", " ") for text in texts]) + "\0"
    return joined


def rows(table: Dict[str, Any], name: str) -> Iterator[List[Any]]:
    """Yield the rows of what `pack` has packed."""
    packed, width = table[name], WIDTHS[name]
    values = marshal.loads(packed) if packed else []
    for start in range(0, len(values), width):
        yield values[start : start + width]


def flat(table: List[Any]) -> List[Any]:
    """Return the values of rows, one after the other."""
    return [value for row in table for value in row]
