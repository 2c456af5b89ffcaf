"""The file of a tracer's tables: what is read of it, or one sentence."""

from __future__ import annotations

import struct

import numpy as np

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.target import Target, Wrong
from profkit.capture.mapped_tables import MAGIC, ThreadEnd, decode_tables
from profkit.formats.codec import MemberError
from profkit.report.text import clean

_PAGE = 4096
_EXTENT = struct.Struct("<QQ")


def shortened(data: bytes) -> bytes:
    """Return a file with its first extent alone, which ends behind its last block."""
    size, address = _EXTENT.unpack_from(data, _PAGE)
    end = _EXTENT.size
    while end + 4 <= size and (block := int.from_bytes(data[_PAGE + end : _PAGE + end + 4], "little")):
        end += block
    kept = -(-end // _PAGE) * _PAGE
    return data[:_PAGE] + _EXTENT.pack(kept, address) + data[_PAGE + _EXTENT.size : _PAGE + kept]


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    try:
        file = decode_tables(data)
        last = file.last_event_s
        ends = {thread: ThreadEnd(2**40, 2**30, 2**20) for thread in (file.pid, file.pid + 1)}
        tables = file.threads(None if last is None else last + 1.0, {file.pid: "main"}, ends)
    except MemberError as error:
        check_text(clean(str(error)))
        return
    for table in tables:
        for part in (table.functions, table.edges, table.waiting, table.open, table.contexts, table.inside):
            columns = {name: getattr(part, name) for name in type(part).__slots__}
            if len({len(column) for column in columns.values()}) > 1:
                raise Wrong("the columns of a table have different lengths")
            for name in ("function", "caller", "callee"):
                column = columns.get(name, np.zeros(0))
                if len(column) and not 0 <= column.min() <= column.max() < len(file.codes):
                    raise Wrong(f"{name} names a function that is not there")
            if any(column.dtype.kind == "f" and not (column >= 0).all() for column in columns.values()):
                raise Wrong("a time is negative, or none")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change numbers where something is: sizes, kinds, addresses, counts; seldom any byte."""
    random = mutation.random
    if random.random() < 0.1 or len(data) < _PAGE:
        return mutation.bytes_of(data, TARGET.most_bytes)
    used = np.flatnonzero(np.frombuffer(data, "<u4", len(data) // 4))
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = 4 * int(used[random.randrange(len(used))])
        width = random.choice((4, 8))
        old = int.from_bytes(changed[at : at + width], "little")
        changed[at : at + width] = (mutation.integer(old) & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(changed[: len(data)])


TARGET = Target(check, mutate, 64 << 10, (MAGIC, b"\1\0\0\0", b"\2\0\0\0"), quick=1500)
