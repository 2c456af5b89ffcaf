"""The bytes of a record: a header that shows whether the rest is whole, and plain data of `marshal`'s version 2.

What is in a record is described in docs/format.md; `profkit.capture.records` reads it. Only `marshal` and what is
built into `int` are used: an import more, such as `zlib` for its checksum, would show in the target.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

#: What a record of an agent begins with, and one of the launcher's sampler. Behind it are the version of the format
#: and the checksum of the data (4 bytes each), and the size of the data (8 bytes), all little-endian.
MAGIC = b"PFKRECRD"
SAMPLES_MAGIC = b"PFKSAMPL"
HEADER_BYTES = 24

#: Without references between objects, which a reader would have to trust.
_MARSHAL_VERSION = 2

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
