"""Columns of a pstats dump, and the compiled reader, fifty times as fast as `pstats_objects`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from profkit.formats.extension import load_extension
from profkit.model.arrays import Floats, Rows


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A pstats dump in file order: `n` entries, `extra` callers without an entry, and `m` edges.

    `file` and `name` are indices into `strings`. Row columns have shape (n + extra,), those callers last.
    `caller` and `callee` are rows, shape (m,). Times are seconds. `first` and `second` are an entry's ``cc``
    and ``nc``, `edge_first` and `edge_second` a caller's ``nc`` and ``cc``. `plain_callers`: a caller is a
    bare count. `sampled`: the dump has the sampling profiler's mark. `trailing`: bytes after the dump.
    """

    strings: tuple[str, ...]
    file: Rows
    line: Rows
    name: Rows
    first: Rows
    second: Rows
    tottime: Floats
    cumtime: Floats
    caller: Rows
    callee: Rows
    edge_first: Rows
    edge_second: Rows
    edge_tottime: Floats
    edge_cumtime: Floats
    _: KW_ONLY
    extra: int = 0
    plain_callers: bool = False
    sampled: bool = False
    trailing: int = 0


_COMPILED = load_extension(Path(__file__).parent / "native" / "lib" / "_pstats.abi3.so")
#: Types of the row columns, then of the edge columns.
_KINDS = ("i4", "i4", "i4", "i8", "i8", "f8", "f8", "i4", "i4", "i8", "i8", "f8", "f8")


def read_columns(data: bytes, *, edges: bool) -> Columns | None:
    """Return the columns of a dump; ``None`` if it is irregular or the reader was not built."""
    parts = None if _COMPILED is None else _COMPILED.read(data, edges)
    if parts is None:
        return None
    strings, *buffers = parts
    extra = buffers.pop(7)
    columns: Any = [np.frombuffer(buffer, kind) for buffer, kind in zip(buffers, _KINDS, strict=True)]
    return Columns(strings, *columns, extra=extra)
