"""The file of a tracer's tables: what is read of it, or one sentence."""

from __future__ import annotations

import struct

import numpy as np

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.scratch import folder
from fuzz.target import Target, Wrong
from profkit.capture.mapped_layout import MAGIC
from profkit.capture.mapped_names import GrowingNames
from profkit.capture.mapped_tables import MappedTables, ThreadEnd
from profkit.capture.tables import paths_of
from profkit.capture.thread_tables import ThreadTable
from profkit.formats.codec import MemberError
from profkit.report.text import clean

_PAGE = 4096
_EXTENT = struct.Struct("<QQ")


def shortened(data: bytes, extents: int = 1) -> bytes:
    """Return a file with so many extents alone, which end behind their last block."""
    kept, at = [data[:_PAGE]], _PAGE
    while at + _EXTENT.size <= len(data) and len(kept) <= extents:
        size, address = _EXTENT.unpack_from(data, at)
        if not size:
            break
        end = _EXTENT.size
        while end + 4 <= size and (block := int.from_bytes(data[at + end : at + end + 4], "little")):
            end += block
        cut = -(-end // _PAGE) * _PAGE
        kept.append(_EXTENT.pack(cut, address) + data[at + _EXTENT.size : at + cut])
        at += size
    return b"".join(kept)


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    _look_at_names(data)
    for growing in (False, True):
        _check_tables(data, growing)


def _check_tables(data: bytes, growing: bool) -> None:
    try:
        file = MappedTables(data, growing=growing)
        list(file.records())
        last = file.last_event_s
        ends = {thread: ThreadEnd(2**40, 2**30, 2**20) for thread in (file.first, file.first + 1)}
        tables = file.threads(None if last is None else last + 1.0, {file.first: "main"}, ends)
    except MemberError as error:
        check_text(clean(str(error)))
        return
    for table in tables:
        parts = (
            table.functions,
            table.edges,
            table.waiting,
            table.open,
            table.contexts,
            table.inside,
            table.paths,
        )
        for part in parts:
            columns = part.columns
            if len({len(column) for column in columns.values()}) > 1:
                raise Wrong("the columns of a table have different lengths")
            for name in ("function", "caller", "callee"):
                column = columns.get(name, np.zeros(0))
                least = -1 if part is table.paths else 0
                if len(column) and not least <= column.min() <= column.max() < len(file.codes):
                    raise Wrong(f"{name} names a function that is not there")
            if any(column.dtype.kind == "f" and not (column >= 0).all() for column in columns.values()):
                raise Wrong("a time is negative, or none")
        _check_paths(table, len(file.codes))


def _look_at_names(data: bytes) -> None:
    """What is seen of a file while it grows is in it when it is whole, each name once."""
    path = folder() / "growing"
    names, found = GrowingNames(), []
    path.write_bytes(data)
    for _ in range(2):
        try:
            found.append(names.look(path))
        except MemberError as error:
            check_text(clean(str(error)))
            return
    if found[1]:
        raise Wrong("names are new that were there before")


def _check_paths(table: ThreadTable, codes: int) -> None:
    """What the packer makes of calling contexts has all of their calls and time."""
    found, seen = paths_of(table, np.arange(codes, dtype=np.int32)), table.paths
    if found is None or seen is None:
        return
    found.validate(codes)
    if found.ncalls.sum() != seen.calls.sum():
        raise Wrong("calls of a context are lost")
    if not np.isclose(found.tottime.sum(), seen.tottime.sum(), rtol=1e-6, atol=1e-9):
        raise Wrong("time of a context is lost")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change numbers where something is: sizes, kinds, addresses, counts; seldom any byte."""
    random = mutation.random
    if random.random() < 0.1 or len(data) < _PAGE:
        return mutation.bytes_of(data, TARGET.most_bytes)
    used = np.flatnonzero(np.frombuffer(data, "<u4", len(data) // 4))
    if not len(used):
        return mutation.bytes_of(data, TARGET.most_bytes)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = 4 * int(used[random.randrange(len(used))])
        width = random.choice((4, 8))
        old = int.from_bytes(changed[at : at + width], "little")
        changed[at : at + width] = (mutation.integer(old) & (1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(changed[: len(data)])


TARGET = Target(check, mutate, 64 << 10, (MAGIC, b"\1\0\0\0", b"\2\0\0\0"), quick=1500)
