"""Builds the NVTX collector's files byte by byte, for tests of their reader."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

SEGMENT, MARK, PUSH, POP, START, END, GAP = range(1, 8)
STRING, DOMAIN, CATEGORY, THREAD, COMMAND = range(1, 6)
HEADER_BYTES = 4096


def record(
    kind: int,
    time: int = 0,
    *,
    string: int = 0,
    domain: int = 0,
    category: int = 0,
    color: int = 0,
    payload: int = 0,
    payload_type: int = 0,
) -> bytes:
    """One event record."""
    return struct.pack("<QBBHIIIQ", time, kind, payload_type, domain, string, category, color, payload)


def event_file(records: Sequence[bytes], lost: int = 0, folded: int = 0) -> bytes:
    """A whole event file of process 100, child of 99."""
    fields = (b"PFKNVTXE", 1, HEADER_BYTES, 32, 100, 99, 0, 1, 0, 10**9, 10**18, lost, folded, 0)
    return struct.pack("<8s8I5Q", *fields).ljust(HEADER_BYTES, b"\0") + b"".join(records)


def definition(kind: int, number: int, text: str, extra: int = 0) -> bytes:
    """One definition, padded to 8 bytes."""
    data = text.encode()
    return (struct.pack("<4I", kind, len(data), number, extra) + data).ljust(16 + (len(data) + 7 & ~7), b"\0")


def definitions(*entries: bytes) -> bytes:
    """A definitions file of one block."""
    return (b"PFKNVTXD" + b"".join(entries)).ljust(1 << 16, b"\0")


def write_log(directory: Path, events: bytes, names: bytes | None = None) -> Path:
    """Write both files; return the event file's path."""
    path = directory / "host-100-1.nvtx"
    path.write_bytes(events)
    if names is not None:
        Path(f"{path}defs").write_bytes(names)
    return path
