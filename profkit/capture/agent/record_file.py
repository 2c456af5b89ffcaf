"""Encode records (docs/format.md): a header that shows whether the data is whole, and `marshal` version 2.

Further imports, such as `zlib` for a checksum, would show in the target.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

#: First bytes of an agent's record and of one of the launcher's sampler. Format version and checksum (4 bytes
#: each) and data size (8 bytes) follow, little-endian.
MAGIC = b"PFKRECRD"
SAMPLES_MAGIC = b"PFKSAMPL"
HEADER_BYTES = 24

#: A version without references between objects, which a reader would have to trust.
_MARSHAL_VERSION = 2

#: Greatest prime below 2**30, one digit of `int`: dividing by it takes one pass. Multiplying by the factor
#: before each chunk makes swapped chunks show.
_PRIME = 1073741789
_FACTOR = 805306457
_CHUNK = 1 << 14


def encode(magic: bytes, version: int, record: Dict[str, Any]) -> Tuple[bytes, bytes]:
    """Return the header and the data of a record."""
    data = marshal.dumps(record, _MARSHAL_VERSION)
    numbers = version.to_bytes(4, "little") + checksum(data).to_bytes(4, "little")
    return magic + numbers + len(data).to_bytes(8, "little"), data


def checksum(data: Any) -> int:
    """Return a checksum below 2**30."""
    found = 0
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK):
        found = (found * _FACTOR + int.from_bytes(view[start : start + _CHUNK], "little")) % _PRIME
    return found
