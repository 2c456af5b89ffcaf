"""Where tokens of a marshal stream start: the lock-step walk against a walk from token to token."""

from __future__ import annotations

import numpy as np

from fuzz.target import Target, Wrong
from profkit.formats.marshal_scan import LONGEST_STRING, PADDING, token_starts

_FIXED = {"i": 5, "I": 9, "g": 9, "r": 5, "R": 5, ")": 2, "(": 5}


def _length(data: bytes, at: int) -> int:
    kind = chr(data[at] & 0x7F)
    if kind in "zZ":
        return 2 + data[at + 1]
    if kind in "aAuts":
        size = int.from_bytes(data[at + 1 : at + 5], "little")
        return 5 + size if size <= LONGEST_STRING else 1
    return _FIXED.get(kind, 1)


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    # The walk cuts its input into blocks of at least 512 bytes: short inputs are looked at many times over.
    for repeated in (data, data * 9):
        padded = repeated + data[:1].ljust(PADDING, b"z")[:PADDING]
        expected, at = [], 0
        while at < len(repeated):
            expected.append(at)
            at += _length(padded, at)
        if token_starts(np.frombuffer(padded, np.uint8)).tolist() != expected:
            raise Wrong("token starts differ from those of a walk from token to token")


TARGET = Target(
    check,
    None,
    2048,
    (b"\xe9", b"\xfa\x01~", b"{0", b")\x05", b"\xda\x04main", b"s\x00\x10\x00\x00", b"u\x01\x10\x00\x00"),
    quick=1500,
)
