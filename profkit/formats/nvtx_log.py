"""Reader of the NVTX collector's files of one process.

Their layout is in ``profkit/capture/native/nvtx/layout.h``. The writer may have been killed at any
instruction, or still run: only whole records are read, and nothing in them is trusted.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.errors import FormatError
from profkit.formats.nvtx_pairs import enclosing, pair_pushes, pair_starts
from profkit.formats.regular_file import NotRegularError, read_regular
from profkit.model.arrays import Index, Ints
from profkit.model.bounds import EXACT, LAST_NS
from profkit.model.notices import Notice
from profkit.model.ranges import MARK, OPEN, PAYLOAD_TYPES, PUSHED, STARTED, Ranges

RECORD = np.dtype(
    [
        ("time", "<u8"),
        ("kind", "u1"),
        ("payload_type", "u1"),
        ("domain", "<u2"),
        ("string", "<u4"),
        ("category", "<u4"),
        ("color", "<u4"),
        ("payload", "<u8"),
    ]
)
SEGMENT, MARKED, PUSH, POP, START, END, GAP = range(1, 8)

_HEADER = struct.Struct("<8s8I5Q")
_VERSION = 1
_DEFINITION = struct.Struct("<4I")
_DEFINITION_BLOCK = 1 << 16
_STRING, _DOMAIN, _CATEGORY, _THREAD, _COMMAND = range(1, 6)

#: Most bytes of events to read: 128 million events, four times a process's default limit.
MOST_BYTES = 1 << 32
#: Most bytes of definitions; a hundred thousand names of usual length take 4 MB.
MOST_DEFINITION_BYTES = 1 << 29


@dataclass(slots=True)
class Definitions:
    """Texts of one process.

    `names` and `domains` are by the collector's numbers, which the tracer uses for ranges; `categories` by
    domain and number, `threads` by id. `command` (empty if unreadable) is as at the first event.
    """

    names: dict[int, str] = field(default_factory=dict)
    domains: dict[int, str] = field(default_factory=dict)
    categories: dict[tuple[int, int], str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NvtxLog:
    """The NVTX events of one process.

    `pid` and `parent` are as at the first event. `fork_parent` is 0 unless the process was forked from one
    with the collector.
    """

    ranges: Ranges
    pid: int
    parent: int
    fork_parent: int
    texts: Definitions
    warnings: tuple[Notice, ...]


def read_nvtx_log(path: str | os.PathLike[str]) -> NvtxLog:
    """Read the ``.nvtx`` event file of a process and the definitions beside it; raise only `FormatError`.

    ``ranges`` are ordered by thread (by first event), then by begin; ``warnings`` state damage inside the
    file.
    """
    warnings: list[Notice] = []
    header, records = _read_events(path, warnings)
    definitions = _read_definitions(os.fspath(path) + "defs", warnings)
    (_, _, header_bytes, _, pid, parent, fork_parent, generation, _, monotonic, realtime, lost, folded, _) = (
        header
    )
    records, serial, tid, index = _in_order(records, warnings)
    columns, unmatched = _ranges(records, serial, index * RECORD.itemsize + header_bytes, generation)
    rows = columns.pop("row")
    strings, (name, domain, category) = _texts(records[rows], definitions)
    ranges = Ranges(
        strings,
        name,
        domain,
        category,
        thread=tid[rows],
        color=records["color"][rows].astype(np.uint32),
        payload=records["payload"][rows].astype(np.uint64),
        payload_type=np.where(
            records["payload_type"][rows] < len(PAYLOAD_TYPES), records["payload_type"][rows], 0
        ).astype(np.uint8),
        **columns,
        monotonic_ns=min(monotonic, LAST_NS),
        realtime_ns=min(realtime, LAST_NS),
        lost=min(lost, EXACT),
        folded=min(folded, EXACT),
        unmatched=unmatched,
    ).validate()
    return NvtxLog(ranges, pid, parent, fork_parent, definitions, tuple(warnings))


def _read_events(path: str | os.PathLike[str], warnings: list[Notice]) -> tuple[Any, npt.NDArray[Any]]:
    try:
        size = os.stat(path).st_size
        data = read_regular(path, MOST_BYTES, cut=True)
    except OSError as error:
        raise FormatError(path, f"cannot be read: {error.strerror or error}") from None
    except NotRegularError as error:
        raise FormatError(path, str(error)) from None
    if len(data) < _HEADER.size:
        raise FormatError(path, "is too short to be a file of NVTX events")
    header = _HEADER.unpack_from(data)
    magic, version, header_bytes, record_bytes = header[:4]
    if magic != b"PFKNVTXE":
        raise FormatError(path, "is not a file of NVTX events")
    layout = version == _VERSION and record_bytes == RECORD.itemsize
    if not (layout and _HEADER.size <= header_bytes <= len(data)):
        raise FormatError(path, f"holds NVTX events in layout version {version}; profkit reads {_VERSION}")
    if size > MOST_BYTES:
        warnings.append(Notice("nvtx-file-cut", "", {"read": MOST_BYTES}))
    count = (len(data) - header_bytes) // RECORD.itemsize
    return header, np.frombuffer(data, RECORD, count, header_bytes)


def _in_order(records: npt.NDArray[Any], warnings: list[Notice]) -> tuple[npt.NDArray[Any], Ints, Ints, Ints]:
    """Return the records of events and gaps as each thread wrote them.

    The int64 arrays are the thread's number in the process, its id, and the record's place in the file.
    """
    index = np.flatnonzero(records["kind"])
    (head,) = np.nonzero(records["kind"][index] == SEGMENT)
    heads = records[index[head]]
    # A thread may continue in the rest of an older thread's chunk: place in the file is not order in time.
    order = np.lexsort((heads["time"], heads["string"]))
    sizes = np.diff(np.append(head, len(index)))[order]
    stops = np.cumsum(sizes)
    owner = np.repeat(order, sizes)
    ordered = index[np.repeat(head[order] - (stops - sizes), sizes) + np.arange(len(owner))]
    kind = records["kind"][ordered]
    good = (kind <= GAP) & (records["time"][ordered] < LAST_NS)
    damaged = len(index) - int(good.sum())
    if damaged:
        warnings.append(Notice("nvtx-events-damaged", "", {"events": damaged}))
    events = good & (kind != SEGMENT)
    ordered, owner = ordered[events], owner[events]
    serial = heads["string"].astype(np.int64)[owner]
    tid = (heads["payload"].astype(np.int64) & 0x7FFFFFFF)[owner]
    return records[ordered], serial, tid, ordered


def _ranges(
    records: npt.NDArray[Any], serial: Ints, offset: Ints, generation: int
) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """Pair begins with ends; return columns of ranges and marks, and the number of unpaired ends."""
    kind = records["kind"].copy()
    time = records["time"].astype(np.int64)
    # After a gap it is unknown which ranges are open: earlier ones stay without end.
    fresh = np.concatenate([[False], serial[1:] != serial[:-1]]) if len(serial) else np.zeros(0, bool)
    life = np.cumsum(fresh | (kind == GAP))
    end = np.full(len(records), OPEN, np.int64)

    stacked = np.flatnonzero((kind == PUSH) | (kind == POP))
    stack = life[stacked] * (1 << 16) + records["domain"][stacked]
    pushed = kind[stacked] == PUSH
    match, lonely_pops = pair_pushes(stack, pushed)
    closed = match >= 0
    end[stacked[closed]] = time[stacked[match[closed]]]
    parent = np.full(len(records), -1, np.int64)
    around = enclosing(life[stacked], stack, pushed, match)
    inside = around >= 0
    parent[stacked[inside]] = stacked[around[inside]]

    begins, ends = np.flatnonzero(kind == START), np.flatnonzero(kind == END)
    partner, lonely_ends = pair_starts(offset[begins], records["payload"][ends], time[ends], generation)
    ended = partner >= 0
    end[begins[ended]] = time[ends[partner[ended]]]

    end[kind == MARKED] = time[kind == MARKED]
    row = np.flatnonzero((kind == PUSH) | (kind == START) | (kind == MARKED))
    # Only a damaged record can end before it begins.
    finish = np.where(end[row] == OPEN, OPEN, np.maximum(end[row], time[row]))
    place = np.full(len(records) + 1, -1, np.int64)
    place[row] = np.arange(len(row))
    kinds = np.select([kind[row] == PUSH, kind[row] == START], [PUSHED, STARTED], MARK)
    return {
        "row": row,
        "kind": kinds.astype(np.uint8),
        "begin_ns": time[row],
        "end_ns": finish,
        "parent": place[parent[row]].astype(np.int32),
    }, lonely_pops + lonely_ends


def _texts(
    records: npt.NDArray[Any], definitions: Definitions
) -> tuple[tuple[str, ...], tuple[Index, Index, Index]]:
    """Return the string table, and name, domain and category of each record as indices into it."""
    table: dict[str, int] = {"": 0}

    def column(keys: npt.NDArray[np.uint64], text_of: Callable[[int], str]) -> Index:
        unique, inverse = _unique(keys)
        found = [table.setdefault(text_of(key), len(table)) for key in unique.tolist()]
        return np.array(found, np.int32)[inverse]

    def category_of(key: int) -> str:
        domain, number = key >> 32, key & 0xFFFFFFFF
        return definitions.categories.get((domain, number), str(number)) if number else ""

    names, domains = definitions.names, definitions.domains
    domain = records["domain"].astype(np.uint64)
    # Category numbers are local to a domain.
    category = column(domain << np.uint64(32) | records["category"].astype(np.uint64), category_of)
    name = column(
        records["string"].astype(np.uint64),
        lambda key: names.get(key, f"(name {key} is lost)") if key else "",
    )
    named_domain = column(domain, lambda key: domains.get(key, f"(domain {key})") if key else "")
    return tuple(table), (name, named_domain, category)


def _unique(keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp]]:
    """Return the distinct keys, and the index of each of `keys` among them; small keys are not sorted."""
    most = int(keys.max(initial=0))
    if most >= 1 << 22:
        unique, inverse = np.unique(keys, return_inverse=True)
        return unique, inverse.reshape(-1)
    seen = np.zeros(most + 1, bool)
    seen[keys] = True
    return np.flatnonzero(seen).astype(np.uint64), (np.cumsum(seen) - 1)[keys]


def _read_definitions(path: str, warnings: list[Notice]) -> Definitions:
    found = Definitions()
    try:
        data = read_regular(path, MOST_DEFINITION_BYTES, cut=True)
    except (OSError, NotRegularError) as error:
        warnings.append(Notice("nvtx-names-unreadable", getattr(error, "strerror", None) or str(error)))
        return found
    if data[:8] != b"PFKNVTXD":
        warnings.append(Notice("nvtx-names-unreadable"))
        return found
    damaged = 0
    for block in range(0, len(data), _DEFINITION_BLOCK):
        damaged += not _read_block(data, 8 if block == 0 else block, block + _DEFINITION_BLOCK, found)
    if damaged:
        warnings.append(Notice("nvtx-names-damaged", os.path.basename(path), {"blocks": damaged}))
    return found


def _read_block(data: bytes, at: int, stop: int, found: Definitions) -> bool:
    """Read the definitions of one block; return false if it is damaged."""
    by_number = {_STRING: found.names, _DOMAIN: found.domains, _THREAD: found.threads}
    stop = min(stop, len(data))
    while at + _DEFINITION.size <= stop:
        kind, size, number, extra = _DEFINITION.unpack_from(data, at)
        if kind == 0:
            return True
        start = at + _DEFINITION.size
        if kind > _COMMAND or start + size > stop:
            return False
        text = data[start : start + size].decode("utf-8", "replace")
        if kind in by_number:
            by_number[kind][number] = text
        elif kind == _CATEGORY:
            found.categories[(extra, number)] = text
        else:
            words = data[start : start + size].decode("utf-8", "surrogateescape").rstrip("\0")
            found.command = tuple(words.split("\0"))
        at = start + (size + 7 & ~7)
    return True
