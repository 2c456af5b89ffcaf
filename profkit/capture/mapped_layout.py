"""The layout of the file of a tracer's tables (`native/tracer/store.h`, `entries.h`), and checks of what it holds.

The process may have died at any instant, and anyone may have changed the file: readers check everything.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.capture.record_types import SECONDS
from profkit.formats.codec import MemberError
from profkit.model.arrays import Floats, Ints
from profkit.model.bounds import EXACT

MAGIC = b"PFKCALLS"
_VERSION = 7
HEADER_BYTES = 4096
MOST_BYTES = 2**32


@functools.cache
def structure(fields: str, size: int) -> np.dtype[Any]:
    """Return a structure of `size` bytes; of each field that is read: its name, offset and format."""
    names, offsets, formats = zip(*(field.split(":") for field in fields.split()), strict=True)
    return np.dtype(
        {
            "names": names,
            "formats": [f"<{f}" for f in formats],
            "offsets": [*map(int, offsets)],
            "itemsize": size,
        }
    )


HEADER = structure(
    "magic:0:S8 version:8:u4 header_bytes:12:u4 table_bytes:16:u4 call_bytes:20:u4 function_bytes:24:u4 "
    "edge_bytes:28:u4 context_bytes:32:u4 path_bytes:36:u4 thread:40:u4 counter:44:u4 turn:48:u4 "
    "began_ticks:56:i8 began_ns:64:i8 ticks:72:i8 ns:80:i8 rate:88:f8 epoch:96:u8 missed:104:u8 "
    "n_tiers:112:i8 sampled_ns:248:i8 bursts:264:i8 burst_ns:272:i8 effect_ns:288:f8 "
    "least_ns:296:f8 most_ns:304:f8 slowed_ns:312:f8 counted:320:i8 lost_forks:328:i8",
    336,
)
#: Begins of tiers, and which they are, in turn.
TIERS, TIERS_AT, MOST_TIERS = struct.Struct("<16q"), 120, 8
#: Head of a thread's table. Times are ticks; `read_*`, waiting and blocking are ns. Times of calls and ranges
#: (`charged_until`) exclude the tracer's own ticks by then, in all `taken`.
TABLE = structure(
    "number:0:u4 top:8:u8 stack:16:u8 last:24:i8 wait:32:i8 blocked:40:i8 context:48:u8 charged_until:56:i8 "
    "read_at:64:i8 read_run:72:i8 read_wait:80:i8 uncharged_wait:88:i8 uncharged_blocked:96:i8 long_gap:104:i8 "
    "taken:112:i8 lost:120:i8 born:128:u8 folded:136:u8 native:144:i4 n_folded:148:u4 read_before:152:? "
    "unmeasured:153:? ended:154:? name:155:S60",
    216,
)
EXTENT = struct.Struct("<QQ")
BLOCK = struct.Struct("<3I4x")
NAME = struct.Struct("<6I")

BLOCK_TABLE, BLOCK_ENTRIES, BLOCK_STACK, BLOCK_NAMES, BLOCK_RECORD = range(1, 6)
NAME_FILE, NAME_FUNCTION = NAME_KINDS = 1, 2
IS_OWN = 1
#: Flag of a function: not all of its calls were counted one by one.
IS_UNCOUNTED = 2
FUNCTION, EDGE, CONTEXT, ROW, PATH, PAUSE, LINE, SLICE = range(1, 9)
#: By kind of entry: name, offset and format of each field that is read.
ENTRIES = {
    FUNCTION: "number:4:u4 name:8:u4 recursive:40:i8 total:48:i8 cumwait:56:i8 cumblocked:64:i8 looked:72:i8 "
    "cut:80:i8 counted_recursive:88:i8",
    EDGE: "caller:4:u4 callee:8:u4 exact:24:i8 own:32:i8 open:40:i8 total:48:i8 recursive:56:i8 wait:64:i8 "
    "cumwait:72:i8 blocked:80:i8 cumblocked:88:i8 seen:96:i8 seen_squares:104:f8 samples:112:i8 squares:120:f8 "
    "sampled:128:i8 counted:136:i8",
    CONTEXT: "number:4:u4 parent:8:u4 opener:12:u4 domain:16:u4 name:20:u4 count:24:i8",
    ROW: "context:4:u4 function:8:u4 calls:24:i8 own:32:i8 wait:64:i8 blocked:80:i8",
    PATH: "number:4:u4 parent:8:u4 function:12:u4 calls:16:i8 own:24:i8 wait:32:i8 blocked:40:i8",
    PAUSE: "function:4:u4 what:8:u4 ns:16:i8 count:24:i8",
    LINE: "function:4:u4 within:8:u4 line:12:u4 ns:16:i8 count:24:i8",
    SLICE: "function:4:u4 begin_ns:16:i8 end_ns:24:i8 ns:32:i8",
}
#: Fields of a call on a thread's stack.
CALL = "edge:0:i8 start:8:i8 children:16:i8 wait:24:i8 blocked:32:i8 path:40:i8"
FUNCTION_COLUMNS = frozenset(("caller", "callee", "function", "opener", "within"))
COUNT_COLUMNS = frozenset(
    ("exact", "seen", "samples", "recursive", "cut", "calls", "count", "counted", "counted_recursive")
)
SCATTER_COLUMNS = frozenset(("seen_squares", "squares"))
#: By kind of entry: the structure whose size the header has. Others have `STRIDE` bytes.
STRUCTURES = {FUNCTION: "function", EDGE: "edge", CONTEXT: "context", ROW: "edge", PATH: "path"}
STRIDE = 48
#: Least bytes of structures; the tracer's hold more than is read.
_LEAST = {"table": TABLE.itemsize, "call": 48, "function": 96, "edge": 144, "context": 32, "path": 48}
_MOST_STRUCTURE = 4096

#: Most bytes of names in a block.
MOST_NAMES = 2**20

LAST_LINE = 2**31 - 1
MOST_TICKS = 2**62

#: Reads a number of bytes of a file from an offset.
ReadBytes: TypeAlias = Callable[[int, int], bytes]


class Block(NamedTuple):
    """A block of the file: the offset of its content, and its size in bytes."""

    kind: int
    owner: int
    at: int
    size: int


def record(layout: np.dtype[Any], data: bytes, at: int = 0) -> SimpleNamespace:
    """Return the fields of one structure as Python's own values."""
    values = np.frombuffer(data, layout, 1, at)[0].item()
    return SimpleNamespace(**dict(zip(layout.names or (), values, strict=True)))


def read_header(data: bytes) -> SimpleNamespace:
    """Return the header of a file, whose first bytes these are; raise `MemberError` if it cannot be read."""
    if len(data) < HEADER_BYTES:
        raise MemberError(f"torn: it ends in its header, after {len(data)} bytes")
    header = record(HEADER, data)
    if header.magic != MAGIC:
        raise MemberError("not written by profkit")
    if header.version != _VERSION:
        raise MemberError(
            f"made by another version of profkit, in format {header.version} where this one reads {_VERSION}"
        )
    sizes = [(getattr(header, f"{name}_bytes"), least) for name, least in _LEAST.items()]
    if header.header_bytes != HEADER_BYTES or any(
        not least <= size <= _MOST_STRUCTURE or size % 8 for size, least in sizes
    ):
        raise MemberError("damaged: it has structures of impossible sizes")
    return header


def blocks(read: ReadBytes, size: int, extents: list[tuple[int, int, int]]) -> Iterator[Block]:
    """Yield the blocks of a file; append address, size and offset of each extent to `extents`."""
    at = HEADER_BYTES
    while at + 16 <= size:
        head = read(at, EXTENT.size)
        if len(head) < EXTENT.size:
            return  # the file was cut meanwhile
        whole, address = EXTENT.unpack(head)
        if whole == 0:
            return  # the extent was being added
        if whole % 4096 or whole > size - at or address % 4096:
            raise MemberError("damaged: it has a part of an impossible size")
        extents.append((address, whole, at))
        end, block = at + whole, at + EXTENT.size
        while block + BLOCK.size <= end:
            head = read(block, BLOCK.size)
            taken, kind, owner = BLOCK.unpack(head) if len(head) == BLOCK.size else (0, 0, 0)
            if taken == 0:
                break
            if taken % 16 or taken > end - block:
                raise MemberError("damaged: it has a block of an impossible size")
            yield Block(kind, owner, block + BLOCK.size, taken - BLOCK.size)
            block += taken
        at = end


def counts(values: Ints) -> Ints:
    """Return counts of which the sum, too, can be; raise `MemberError`."""
    if len(values) and (values.min() < 0 or values.sum(dtype=np.float64) >= EXACT):
        raise MemberError("damaged: it holds counts that cannot be")
    return values


def seconds(values: npt.NDArray[Any], unit_ns: float = 1.0) -> Floats:
    """Return seconds; slightly negative values come from clocks read one after the other."""
    found = np.maximum(values * (unit_ns / 1e9) if unit_ns != 1.0 else values / 1e9, 0.0)
    problem = SECONDS.problem_in(found)
    if problem:
        raise MemberError(f"damaged: a time {problem}")
    return found
