"""The NVTX collector's files, and the traces that are exported of them."""

from __future__ import annotations

import struct

from fuzz.mutate import Mutation
from fuzz.oracles import check_json
from fuzz.scratch import folder
from fuzz.target import Target, Wrong
from profkit.errors import FormatError
from profkit.formats.export.chrome import chrome_trace
from profkit.formats.export.speedscope import speedscope_file
from profkit.formats.nvtx_log import RECORD, read_nvtx_log
from profkit.model import Process, Run

#: An input is the size of the event file, that file, and the definitions.
_SIZE = struct.Struct("<I")
_HEADER_BYTES = 96


def joined(events: bytes, definitions: bytes) -> bytes:
    """Return both files as one input, the event file's first page cut to what has a meaning."""
    start = int.from_bytes(events[12:16], "little")
    head = events[:12] + _HEADER_BYTES.to_bytes(4, "little") + events[16:_HEADER_BYTES]
    body = events[start:].rstrip(b"\0")
    body += b"\0" * (-len(body) % RECORD.itemsize)
    return _SIZE.pack(len(head + body)) + head + body + definitions.rstrip(b"\0") + b"\0" * 8


def parted(data: bytes) -> tuple[bytes, bytes]:
    """Return both files of an input."""
    size = _SIZE.unpack(data[:4].ljust(4, b"\0"))[0]
    return data[4 : 4 + size], data[4 + size :]


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    events, definitions = parted(data)
    path = folder() / "host-1-1.nvtx"
    path.write_bytes(events)
    (folder() / "host-1-1.nvtxdefs").write_bytes(definitions)
    try:
        log = read_nvtx_log(path)
    except FormatError:
        return
    if len(log.ranges) > len(events) // RECORD.itemsize:
        raise Wrong("there are more ranges than records")
    if (log.ranges.parent >= 0).any() and not len(log.ranges):
        raise Wrong("a range has a parent that is not there")
    run = Run("x", (Process(pid=log.pid, command=log.texts.command, ranges=log.ranges),))
    for export in (chrome_trace, speedscope_file):
        try:
            made = export(run)
        except FormatError:  # there is nothing in it to export
            continue
        check_json(b"".join(made.chunks).decode("utf-8"))


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change records as a whole or by their fields, a number of the header, or any byte of the definitions."""
    random = mutation.random
    events, definitions = parted(data)
    kind = random.randrange(10)
    if kind == 0:
        return mutation.bytes_of(data, TARGET.most_bytes)
    if kind == 1:
        return _SIZE.pack(len(events)) + events + mutation.bytes_of(definitions, len(definitions) + 64)
    if kind == 2 and len(events) >= _HEADER_BYTES:
        at = random.choice((8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72))
        new = (mutation.integer() & 2**32 - 1).to_bytes(4, "little")
        events = events[:at] + new + events[at + 4 :]
    else:
        events = _changed_records(events, mutation)
    return _SIZE.pack(len(events)) + events + definitions


def _changed_records(events: bytes, mutation: Mutation) -> bytes:
    random, size = mutation.random, RECORD.itemsize
    head, body = events[:_HEADER_BYTES], events[_HEADER_BYTES:]
    records = [body[at : at + size] for at in range(0, len(body), size)]
    for _ in range(random.choice((1, 2, 5))):
        if not records:
            break
        at = random.randrange(len(records))
        kind = random.randrange(7)
        if kind == 0:
            del records[at]
        elif kind == 1:
            records.insert(at, random.choice(records))
        elif kind == 2:
            other = random.randrange(len(records))
            records[at], records[other] = records[other], records[at]
        elif kind == 3:
            records[at:at] = records[random.randrange(len(records)) :][: random.randint(1, 20)]
        else:
            place, width = random.choice(
                ((0, 8), (8, 1), (8, 1), (9, 1), (10, 2), (12, 4), (16, 4), (20, 4), (24, 8))
            )
            old = int.from_bytes(records[at][place : place + width], "little")
            new = random.randrange(9) if place in (8, 9) else mutation.integer(old)
            field = (new & (1 << 8 * width) - 1).to_bytes(width, "little")
            records[at] = (records[at][:place] + field + records[at][place + width :]).ljust(size, b"\0")
    return head + b"".join(records)


TARGET = Target(check, mutate, 16 << 10, (b"PFKNVTXE", b"PFKNVTXD", b"\1\0\0\0", b"\5\0\0\0"), quick=1500)
