"""Reads a process's tracer tables (`native/tracer/store.h`, `layout.h`), as they were at its end.

The process may have died at any instruction, and anyone may have changed the file: everything is checked
before use.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.capture import record_types as types
from profkit.capture.agent import record_file
from profkit.capture.record_types import Codes, Rows, ThreadTable
from profkit.formats.codec import MemberError
from profkit.formats.regular_file import open_regular, read_regular
from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.bounds import EXACT, LAST_NS
from profkit.model.estimates import FEW_SAMPLES, NONE_SEEN, NORMAL

MAGIC = b"PFKCALLS"
_VERSION = 7
_HEADER_BYTES = 4096
_MOST_BYTES = 2**32
#: Most attempts to read a file whose tables are summed up meanwhile.
_READINGS = 8


@functools.cache
def _layout(fields: str, size: int) -> np.dtype[Any]:
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


_HEADER = _layout(
    "magic:0:S8 version:8:u4 header_bytes:12:u4 table_bytes:16:u4 call_bytes:20:u4 function_bytes:24:u4 "
    "edge_bytes:28:u4 context_bytes:32:u4 path_bytes:36:u4 thread:40:u4 counter:44:u4 turn:48:u4 "
    "began_ticks:56:i8 began_ns:64:i8 ticks:72:i8 ns:80:i8 rate:88:f8 epoch:96:u8 missed:104:u8 "
    "n_tiers:112:i8 sampled_ns:248:i8 bursts:264:i8 burst_ns:272:i8 effect_ns:288:f8 least_ns:296:f8 "
    "most_ns:304:f8 slowed_ns:312:f8 counted:320:i8",
    328,
)
#: Begins of tiers, and which they are, in turn.
_TIERS, _TIERS_AT, _MOST_TIERS = struct.Struct("<16q"), 120, 8
#: Head of a thread's table. Times are ticks; `read_*`, waiting and blocking are ns. Times of calls and ranges
#: (`charged_until`) exclude the tracer's own ticks by then, in all `taken`.
_TABLE = _layout(
    "number:0:u4 top:8:u8 stack:16:u8 last:24:i8 wait:32:i8 blocked:40:i8 context:48:u8 charged_until:56:i8 "
    "read_at:64:i8 read_run:72:i8 read_wait:80:i8 uncharged_wait:88:i8 uncharged_blocked:96:i8 long_gap:104:i8 "
    "taken:112:i8 lost:120:i8 born:128:u8 folded:136:u8 native:144:i4 n_folded:148:u4 read_before:152:? "
    "unmeasured:153:? ended:154:? name:155:S60",
    216,
)
_EXTENT = struct.Struct("<QQ")
_BLOCK = struct.Struct("<3I4x")
_NAME = struct.Struct("<6I")

_BLOCK_TABLE, _BLOCK_ENTRIES, _BLOCK_STACK, _BLOCK_NAMES, _BLOCK_RECORD = range(1, 6)
_NAME_FILE, _ = _NAME_KINDS = 1, 2
_IS_OWN = 1
#: Flag of a function: not all of its calls were counted one by one.
_IS_UNCOUNTED = 2
#: In labels of the tracer's own methods, and before those of its functions, which the agent calls while it traces.
_OWN_METHOD = " of 'profkit_tracer."
_OWN_FUNCTION = "<built-in method _tracer.", "<built-in method _tracer_abi3."
#: The agent's functions through which the target imports modules: their callees are the target's.
_PASSING_FILE, _PASSING = "<frozen profkit.import_hook>", ("find_spec", "create_module", "exec_module")

_FUNCTION, _EDGE, _CONTEXT, _ROW, _PATH, _PAUSE, _LINE, _SLICE = range(1, 9)
#: By kind of entry: name, offset and format of each field that is read.
_ENTRIES = {
    _FUNCTION: "number:4:u4 name:8:u4 recursive:40:i8 total:48:i8 cumwait:56:i8 cumblocked:64:i8 looked:72:i8 "
    "cut:80:i8 counted_recursive:88:i8",
    _EDGE: "caller:4:u4 callee:8:u4 exact:24:i8 own:32:i8 open:40:i8 total:48:i8 recursive:56:i8 wait:64:i8 "
    "cumwait:72:i8 blocked:80:i8 cumblocked:88:i8 seen:96:i8 seen_squares:104:f8 samples:112:i8 squares:120:f8 "
    "sampled:128:i8 counted:136:i8",
    _CONTEXT: "number:4:u4 parent:8:u4 opener:12:u4 domain:16:u4 name:20:u4 count:24:i8",
    _ROW: "context:4:u4 function:8:u4 calls:24:i8 own:32:i8 wait:64:i8 blocked:80:i8",
    _PATH: "number:4:u4 parent:8:u4 function:12:u4 calls:16:i8 own:24:i8 wait:32:i8 blocked:40:i8",
    _PAUSE: "function:4:u4 what:8:u4 ns:16:i8 count:24:i8",
    _LINE: "function:4:u4 within:8:u4 line:12:u4 ns:16:i8 count:24:i8",
    _SLICE: "function:4:u4 begin_ns:16:i8 end_ns:24:i8 ns:32:i8",
}
#: Fields of a call on a thread's stack.
_CALL = "edge:0:i8 start:8:i8 children:16:i8 wait:24:i8 blocked:32:i8 path:40:i8"
_FUNCTION_COLUMNS = frozenset(("caller", "callee", "function", "opener", "within"))
_COUNT_COLUMNS = frozenset(
    ("exact", "seen", "samples", "recursive", "cut", "calls", "count", "counted", "counted_recursive")
)
_SCATTER_COLUMNS = frozenset(("seen_squares", "squares"))
#: Bytes of an entry that holds a `struct pause`, `struct line` or `struct slice`.
_PAUSE_STRIDE = 48
#: Least bytes of structures; the tracer's hold more than is read.
_LEAST = {"table": _TABLE.itemsize, "call": 48, "function": 96, "edge": 144, "context": 32, "path": 48}
_MOST_STRUCTURE = 4096

#: Most bytes of names in a block.
_MOST_NAMES = 2**20

#: Gaps allowed in a thread's function numbers: some functions of a running process are not there yet.
_MOST_SPREAD = 2**16

_LAST_LINE = 2**31 - 1
_MOST_TICKS = 2**62
#: Least and most plausible nanoseconds of a tick.
_LEAST_RATE, _MOST_RATE = 1e-3, 1e3
_MOST_THREADS = 2**16
#: As in the tracer: a greater error of the rate means that the machine was suspended.
_RATE_TOLERANCE = 0.01

#: Fewest bursts to estimate calls from: the scatter of two says nothing.
FEWEST_BURSTS = 3
#: Parts by which the estimated cost of counting in a burst may be too great or too small: events cost 1.0 to
#: 2.5 times what they do on warm caches, and 1.6 is assumed (native/tracer/tiers.c).
LESS_SLOWED, MORE_SLOWED = 0.4, 0.6
#: Shortest call, in Python or C: 25 to 40 ns on the machines of docs/costs.md.
SHORTEST_CALL_S = 2.5e-8
#: Factor by which calls of a function may become cheaper.
CHEAPER = 2.0
#: Traced calls for each one cut by a change of tier, above which the time of a call is known.
FEWEST_WHOLE = 3
#: Share of the sampled time of a function that never returned; looks miss stacks that cannot be read.
ALWAYS = 0.99

_TIER_KINDS: dict[int, Literal["exact", "sampled"]] = {1: "exact", 2: "sampled"}

#: Reads a number of bytes of a file from an offset.
_Read: TypeAlias = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """The kernel's counters of a thread at some time, ns; `at_ns` is of ``CLOCK_MONOTONIC``."""

    at_ns: int
    run_ns: int
    wait_ns: int


class _Block(NamedTuple):
    """A block of the file: the offset of its content, and its size in bytes."""

    kind: int
    owner: int
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class _Clock:
    """Conversion of the tracer's ticks to seconds of ``CLOCK_MONOTONIC``."""

    ticks: int
    ns: int
    ns_per_tick: float

    def ticks_at(self, seconds: float) -> int:
        return self.ticks + int((seconds * 1e9 - self.ns) / self.ns_per_tick)

    def seconds_at(self, ticks: int) -> float:
        return (self.ns + (ticks - self.ticks) * self.ns_per_tick) / 1e9


@dataclass(frozen=True, slots=True)
class Bursts:
    """How calls were counted in bursts; `counted`: seldom called functions were counted all the time.

    `lasted_ns` is the length of all bursts without the cost of counting, which `slowed_ns` estimates.
    """

    sampled_ns: int
    number: int
    lasted_ns: int
    slowed_ns: float
    counted: bool

    @property
    def known(self) -> bool:
        """Return whether there were enough bursts to estimate calls."""
        return self.number >= FEWEST_BURSTS and self.lasted_ns > 0

    @property
    def scales(self) -> tuple[float, float, float]:
        """Return how many calls one in a burst stands for: estimate, least and most."""
        lasted, slowed = float(self.lasted_ns), self.slowed_ns
        return (
            self.sampled_ns / lasted,
            self.sampled_ns / (lasted + LESS_SLOWED * slowed),
            self.sampled_ns / max(lasted - MORE_SLOWED * slowed, lasted / 3),
        )


def read_tables(path: Path, *, growing: bool) -> MappedTables:
    """Return a process's tables, `growing` if it still runs; raise `OSError`, or `ValueError` if damaged."""
    for _ in range(_READINGS if growing else 1):
        data = read_regular(path, _MOST_BYTES)
        # Tables of ended threads may have been summed up meanwhile, and their room reused.
        if not growing or _epoch(data) == _epoch(read_regular(path, _HEADER_BYTES, cut=True)):
            break
    return MappedTables(data, growing=growing)


class MappedTables:
    """The file of one process, with the functions (`codes`) of all its threads.

    `missed`: not all that was traced found room. `tiers` begin at seconds of ``CLOCK_MONOTONIC``. `effect` is
    what capture added to the wall, in seconds, with its interval; ``None`` if unknown.
    """

    def __init__(self, data: bytes, *, growing: bool = False) -> None:
        self.growing = growing
        header = _header(data)
        sizes = {name: getattr(header, f"{name}_bytes") for name in _LEAST}
        self._table_bytes = sizes["table"]
        self.call = _layout(_CALL, sizes["call"])
        named = {_FUNCTION: "function", _EDGE: "edge", _CONTEXT: "context", _ROW: "edge", _PATH: "path"}
        self._types = {
            kind: _layout(fields, (sizes[named[kind]] + 15) // 16 * 16 if kind in named else _PAUSE_STRIDE)
            for kind, fields in _ENTRIES.items()
        }
        #: By kind: size in units of 16 bytes; an unknown kind leads beyond the file.
        self._steps = [_MOST_BYTES] * 256
        for kind, entry in self._types.items():
            self._steps[kind] = entry.itemsize // 16
        #: Number of the thread that comes first: the main thread, or that of a block.
        self.first: int = header.thread
        self._clock = _clock(header)
        self._epoch = header.epoch
        self.tiers, self.effect, self.bursts = _tiers(header, data)
        self._data = data
        self._words: Ints = np.frombuffer(data, "<i8", len(data) // 8)
        self._halves: npt.NDArray[np.uint32] = np.frombuffer(data, "<u4", len(data) // 4)
        extents = [(0, 0, 0)]  # address, bytes, file offset
        blocks = list(_blocks(lambda at, count: data[at : at + count], len(data), extents))
        self._extents = np.array(sorted(extents), np.uint64).T
        #: By code: whether its calls are estimated where the process was sampled.
        self.uncounted: Bools
        self.codes, self.own, self.code_of = self._read_names([b for b in blocks if b.kind == _BLOCK_NAMES])
        self._entries: dict[int, list[_Block]] = {}
        for block in blocks:
            if block.kind == _BLOCK_ENTRIES:
                self._entries.setdefault(block.owner, []).append(block)
        self._threads = self._read_heads([b for b in blocks if b.kind == _BLOCK_TABLE])
        self._records = [block for block in blocks if block.kind == _BLOCK_RECORD]
        self.missed = header.missed > 0 or any(thread.lost > 0 for thread in self._threads)

    @property
    def last_event_s(self) -> float | None:
        """Return when a call last began or ended, seconds of ``CLOCK_MONOTONIC``; ``None`` without calls."""
        return max(
            (self._clock.seconds_at(thread.last) for thread in self._threads if thread.last), default=None
        )

    def records(self) -> Iterator[bytes]:
        """Yield the agent's records that are stored here, the oldest first."""
        for block in self._records:
            data = self._data[block.at : block.at + block.size]
            size = record_file.HEADER_BYTES + int.from_bytes(data[16:24], "little")
            yield data[:size]

    def threads(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> tuple[ThreadTable, ...]:
        """Return one table per thread, that of `first` first, a sum of ended ones last.

        Open calls end at `until_s` (``CLOCK_MONOTONIC``), else at their thread's last event; `ends` say how
        long they waited. Raise `ValueError` if a table is damaged.
        """
        threads = sorted(self._threads, key=lambda t: (t.n_folded > 0, t.native != self.first, t.number))
        found = [_Reader(self, thread).table(until_s, names, ends) for thread in threads]
        if not threads or threads[0].native != self.first or threads[0].n_folded:
            # It has called nothing.
            found.insert(0, ThreadTable(self.first or None, names.get(self.first, "MainThread")))
        return tuple(found)

    def places_of(self, addresses: npt.NDArray[Any]) -> Ints:
        """Return the file offsets of addresses of the process; -1 for what is outside the file."""
        wanted = addresses.astype(np.uint64)
        begins, sizes, places = self._extents
        index = np.searchsorted(begins, wanted, "right").astype(np.int64) - 1
        return np.where(
            wanted - begins[index] < sizes[index],
            (places[index] + wanted - begins[index]).astype(np.int64),
            -1,
        )

    def _read_names(self, blocks: list[_Block]) -> tuple[Codes, Bools, dict[int, int]]:
        data = self._data
        files: dict[int, int] = {}
        texts: list[str] = []
        own_files: list[bool] = []
        functions: list[tuple[int, int, int, bool, str, str]] = []
        for block in blocks:
            for kind, number, file, line, flags, text in _names(data[block.at : block.at + block.size]):
                if kind == _NAME_FILE:
                    files[number] = len(texts)
                    texts.append(_text(text))
                    own_files.append(bool(flags & _IS_OWN))
                else:
                    uncounted = not self.bursts.counted or bool(flags & _IS_UNCOUNTED)
                    functions.append(
                        (number, file, min(line, _LAST_LINE), uncounted, *_name_and_qualname(text))
                    )
        if self.growing:
            functions = [function for function in functions if function[1] in files]
        numbers, file_numbers, lines, uncounted_codes, names, qualnames = (
            zip(*functions, strict=True) if functions else [()] * 6
        )
        self.uncounted = np.array(uncounted_codes, bool)
        if any(file not in files for file in set(file_numbers)):
            raise MemberError("damaged: a function's file is not there")
        places = np.array([files[file] for file in file_numbers], np.int64)
        codes = Codes(tuple(texts), places, np.array(lines, np.int64), names, qualnames)
        own = np.array(own_files, bool)[places]
        own |= np.array([_OWN_METHOD in name or name.startswith(_OWN_FUNCTION) for name in names], bool)
        passing = (i for i in np.flatnonzero(own).tolist() if names[i] in _PASSING)
        #: Codes of `_PASSING`.
        self.passing = {i for i in passing if texts[places[i]] == _PASSING_FILE}
        return codes, own, dict(zip(numbers, range(len(numbers)), strict=True))

    def _read_heads(self, blocks: list[_Block]) -> list[SimpleNamespace]:
        found = []
        for block in blocks:
            if block.size < self._table_bytes:
                raise MemberError("damaged: it has a table of an impossible size")
            thread = _record(_TABLE, self._data, block.at)
            times = thread.last, thread.charged_until, thread.taken
            if not all(0 <= time < _MOST_TICKS for time in times):
                raise MemberError("damaged: a thread has a time that cannot be")
            if thread.born <= self._epoch and not 0 < thread.folded <= self._epoch:
                found.append(thread)
        if len(found) > _MOST_THREADS:
            raise MemberError(f"damaged: it has more than {_MOST_THREADS} threads")
        if len({thread.number for thread in found}) < len(found):
            raise MemberError("damaged: two of its tables are one")
        return found

    def entries(self, number: int) -> dict[int, Ints]:
        """Return the file offsets of a table's entries, by kind."""
        found = [self._entries_in(block) for block in self._entries.get(number, ())]
        places = np.concatenate([np.zeros(0, np.int64), *found])
        kinds = self._halves[places >> 2]
        return {kind: places[kinds == kind] for kind in self._types}

    def _entries_in(self, block: _Block) -> Ints:
        """Return the file offsets of a block's entries; the kind of an entry gives its size."""
        # One number per 16 bytes: a kind where an entry begins; 255 stands for all greater numbers.
        units = self._halves[block.at >> 2 : (block.at + block.size) >> 2 : 4]
        kinds = np.minimum(units, 255).astype(np.uint8).tobytes()
        steps, at, end, found = self._steps, 0, len(kinds), []
        while at < end and (kind := kinds[at]):
            found.append(at)
            at += steps[kind]
        if at > end:
            raise MemberError("damaged: it has an entry of unknown kind")
        return block.at + 16 * np.array(found, np.int64)

    def rows(self, places: Ints, kind: int) -> Rows:
        """Return the entries of a kind at these file offsets, as columns of 8 bytes each."""
        entry = self._types[kind]
        words = self._words[(places >> 3)[:, None] + np.arange(entry.itemsize // 8)]
        return _widened(words.view(entry)[:, 0], places)

    def stack(self, thread: SimpleNamespace) -> Rows:
        """Return a thread's open calls, outermost first; `place` is the edge's offset, `path` the path's."""
        size = self.call.itemsize
        depth, rest = divmod(thread.top - thread.stack, size)
        (at,) = self.places_of(np.array([thread.stack], np.uint64)).tolist()
        if depth <= 0 or rest or at < 0 or at % 8 or (depth + 1) * size > len(self._data) - at:
            depth = 0
        calls = np.frombuffer(self._data, self.call, depth, at + size if depth else 0)
        found = _widened(calls, self.places_of(calls["edge"]))
        found.columns["path"] = self.places_of(calls["path"])
        return found


def _widened(entries: npt.NDArray[Any], places: Ints) -> Rows:
    """Return entries as rows of int64 and float64, with their file offsets."""
    columns: dict[str, npt.NDArray[Any]] = {"place": places}
    for name in entries.dtype.names or ():
        columns[name] = entries[name].astype("f8" if entries.dtype[name].kind == "f" else "i8")
    return Rows(columns)


class GrowingNames:
    """New functions of a running process: hints only. A look reads only where blocks are, and new names."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}  # by offset of a block: bytes of it that were read
        self._files: dict[int, str] = {}

    def look(self, path: Path) -> list[tuple[str, int, str, str]]:
        """Return file, line, name and qualified name of new functions; errors are as in `read_tables`."""
        with open_regular(path, buffering=0) as file:

            def read(at: int, count: int) -> bytes:
                file.seek(at)
                return file.read(count)

            _header(read(0, _HEADER_BYTES))
            found: list[tuple[str, int, str, str]] = []
            for block in _blocks(read, os.fstat(file.fileno()).st_size, []):
                if block.kind == _BLOCK_NAMES:
                    found += self._new(read, block)
            return found

    def _new(self, read: _Read, block: _Block) -> Iterator[tuple[str, int, str, str]]:
        done = self._read.get(block.at, 0)
        if block.size > _MOST_NAMES:
            raise MemberError("damaged: it has more names in one place than a tracer writes")
        for kind, number, file, line, flags, text in _names(read(block.at + done, block.size - done)):
            done += _name_bytes(text)
            if kind == _NAME_FILE:
                self._files[number] = "" if flags & _IS_OWN else _text(text)
            elif self._files.get(file):
                yield (self._files[file], min(line, _LAST_LINE), *_name_and_qualname(text))
        self._read[block.at] = done


def _blocks(read: _Read, size: int, extents: list[tuple[int, int, int]]) -> Iterator[_Block]:
    """Yield the blocks of a file; append address, size and offset of each extent to `extents`."""
    at = _HEADER_BYTES
    while at + 16 <= size:
        head = read(at, _EXTENT.size)
        if len(head) < _EXTENT.size:
            return  # the file was cut meanwhile
        whole, address = _EXTENT.unpack(head)
        if whole == 0:
            return  # the extent was being added
        if whole % 4096 or whole > size - at or address % 4096:
            raise MemberError("damaged: it has a part of an impossible size")
        extents.append((address, whole, at))
        end, block = at + whole, at + _EXTENT.size
        while block + _BLOCK.size <= end:
            head = read(block, _BLOCK.size)
            taken, kind, owner = _BLOCK.unpack(head) if len(head) == _BLOCK.size else (0, 0, 0)
            if taken == 0:
                break
            if taken % 16 or taken > end - block:
                raise MemberError("damaged: it has a block of an impossible size")
            yield _Block(kind, owner, block + _BLOCK.size, taken - _BLOCK.size)
            block += taken
        at = end


def _names(data: bytes) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    """Yield kind, number, file, line, flags and text of the names in a block's content, or its end."""
    at, last, unpack, kinds = 0, len(data) - _NAME.size, _NAME.unpack_from, _NAME_KINDS
    while at <= last:
        kind, size, number, file, line, flags = unpack(data, at)
        if kind == 0:
            return
        if size > last - at:
            raise MemberError("damaged: it has a name of an impossible size")
        if kind not in kinds:
            raise MemberError("damaged: it has a name of unknown kind")
        text = data[at + _NAME.size : at + _NAME.size + size]
        yield kind, number, file, line, flags, text
        at += _name_bytes(text)


def _name_bytes(text: bytes) -> int:
    return (_NAME.size + len(text) + 7) // 8 * 8


def _record(layout: np.dtype[Any], data: bytes, at: int = 0) -> SimpleNamespace:
    values = np.frombuffer(data, layout, 1, at)[0].item()
    return SimpleNamespace(**dict(zip(layout.names or (), values, strict=True)))


def _header(data: bytes) -> SimpleNamespace:
    if len(data) < _HEADER_BYTES:
        raise MemberError(f"torn: it ends in its header, after {len(data)} bytes")
    header = _record(_HEADER, data)
    if header.magic != MAGIC:
        raise MemberError("not written by profkit")
    if header.version != _VERSION:
        raise MemberError(
            f"made by another version of profkit, in format {header.version} where this one reads {_VERSION}"
        )
    sizes = [(getattr(header, f"{name}_bytes"), least) for name, least in _LEAST.items()]
    if header.header_bytes != _HEADER_BYTES or any(
        not least <= size <= _MOST_STRUCTURE or size % 8 for size, least in sizes
    ):
        raise MemberError("damaged: it has structures of impossible sizes")
    return header


def _tiers(
    header: SimpleNamespace, data: bytes
) -> tuple[tuple[tuple[Literal["exact", "sampled"], float], ...], tuple[float, float, float] | None, Bursts]:
    """Return the tiers with their begins, what capture added to the wall, and the bursts."""
    n, spans = header.n_tiers, _TIERS.unpack_from(data, _TIERS_AT)
    begins, tiers = spans[::2], spans[1::2]
    effect = header.effect_ns, header.least_ns, header.most_ns
    times = (*begins, header.sampled_ns, header.burst_ns, *effect, header.slowed_ns)
    if (
        not 0 <= n <= _MOST_TIERS
        or not all(0 <= time < _MOST_TICKS for time in times)
        or not 0 <= header.bursts <= EXACT
        or any(tier not in _TIER_KINDS for tier in tiers[:n])
    ):
        raise MemberError("damaged: it has tiers that cannot be")
    likely, least, most = (ns / 1e9 for ns in effect)
    return (
        tuple((_TIER_KINDS[tier], at / 1e9) for at, tier in zip(begins[:n], tiers[:n], strict=True)),
        (likely, min(least, likely), max(most, likely)) if n else None,
        Bursts(header.sampled_ns, header.bursts, header.burst_ns, header.slowed_ns, bool(header.counted)),
    )


def _epoch(data: bytes) -> int | None:
    return _record(_HEADER, data).epoch if len(data) >= _HEADER_BYTES else None


def _clock(header: SimpleNamespace) -> _Clock:
    ticks, ns = header.ticks - header.began_ticks, header.ns - header.began_ns
    if not _LEAST_RATE < header.rate < _MOST_RATE or not (
        0 <= header.began_ns < _MOST_TICKS and 0 <= header.began_ticks < _MOST_TICKS
    ):
        raise MemberError("damaged: it has no clock")
    if not header.counter:
        return _Clock(0, 0, 1.0)
    if header.turn % 2 == 0 and ticks > 0 and ns > 0 and max(header.ticks, header.ns) < _MOST_TICKS:
        measured = ns / ticks
        known = abs(measured / header.rate - 1) < _RATE_TOLERANCE
        return _Clock(header.ticks, header.ns, measured if known else header.rate)
    return _Clock(header.began_ticks, header.began_ns, header.rate)


class _Reader:
    def __init__(self, file: MappedTables, thread: SimpleNamespace) -> None:
        self._file = file
        self._thread = thread
        self._clock = file._clock
        self._places = file.entries(thread.number)
        functions = file.rows(self._places[_FUNCTION], _FUNCTION)
        functions = functions[np.argsort(functions.number, kind="stable")]
        if (np.diff(functions.number) == 0).any():
            raise MemberError("damaged: two functions of a thread have one number")
        if len(functions) and int(functions.number[-1]) > _MOST_SPREAD + 2 * len(functions):
            raise MemberError("damaged: a function has a number that cannot be")
        names = functions.name.tolist()
        codes = np.array([-1 if name == 0 else file.code_of.get(name, -2) for name in names], np.int64)
        known = codes > -2
        if not known.all() and not file.growing:
            raise MemberError("damaged: a function's name is not there")
        self._functions = self._checked(functions[known])
        #: By number: index into `_functions`, -1 if absent.
        self._place_of = np.full(int(functions.number[-1]) + 1 if len(functions) else 0, -1, np.int64)
        self._place_of[self._functions.number] = np.arange(len(self._functions))
        #: By that index: index into the codes, -1 outside every call and, in `_shown`, for the agent's own.
        #: Callees of `_passing` are the target's.
        self._code = codes[known]
        #: By that index: whether calls are estimated where the process was sampled.
        self._estimated = np.append(file.uncounted, True)[self._code]
        own = np.append(file.own, False)[self._code]
        self._shown = np.where(own, -1, self._code)
        self._passing = np.isin(self._code, list(file.passing))
        self._edges = self._read(_EDGE)

    def _read(self, kind: int) -> Rows:
        """Return entries of a kind with indices for function numbers, without those still being written."""
        rows = self._checked(self._file.rows(self._places[kind], kind))
        columns = [name for name in rows.columns if name in _FUNCTION_COLUMNS]
        numbers = np.array([rows.columns[name] for name in columns])
        there = np.minimum(numbers, len(self._place_of) - 1)
        there = ((numbers == there) & (np.append(self._place_of, -1)[there] >= 0)).all(axis=0)
        if "number" in rows.columns:
            order = np.argsort(rows.number, kind="stable")
            rows, there = rows[order], there[order]
            first = int(kind == _CONTEXT)
            whole = rows.number == np.arange(first, len(rows) + first)
            if kind == _PATH or self._file.growing:
                whole &= there | (not self._file.growing)
                end = int(np.argmin(np.append(whole, False)))
                rows, there = rows[:end], there[:end]
            elif not whole.all():
                raise MemberError("damaged: its contexts are in no order")
        if self._file.growing:
            rows = rows[there]
        elif not there.all():
            raise MemberError("damaged: a function is not there")
        for name in columns:
            rows.columns[name] = self._place_of[rows.columns[name]]
        return rows

    def _checked(self, rows: Rows) -> Rows:
        for name, column in rows.columns.items():
            if name in _COUNT_COLUMNS:
                self._counts(column)
            elif name in _SCATTER_COLUMNS and not (np.isfinite(column) & (column >= 0)).all():
                raise MemberError("damaged: it holds a scatter that cannot be")
        return rows

    def table(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> ThreadTable:
        """Return the table without the agent's own functions and their callees."""
        thread = self._thread
        now = thread.last
        if until_s is not None and not thread.ended and not thread.n_folded:
            now = min(max(now, self._clock.ticks_at(until_s)), _MOST_TICKS)
        measured = thread.read_before and not thread.unmeasured
        stack = self._stack()
        calls = self._open(now - thread.taken, stack, *self._pending(now, ends) if measured else (0, 0))
        functions, edges = self._sums(), self._edges
        contexts, inside = self._read_contexts(now - thread.taken, stack)
        by_agent = (self._code >= 0) & (self._shown < 0) & ~self._passing
        taken = edges[by_agent[edges.caller]]
        for column in ("calls", "recursive", "total", "own", "wait", "blocked", "cumwait", "cumblocked"):
            if len(taken):
                values = self._calls(taken) if column == "calls" else taken.columns[column]
                np.subtract.at(functions[column], taken.callee, values)
                np.maximum(functions[column], 0, out=functions[column])
        shown = self._shown >= 0
        rows = shown & np.any([functions[column] > 0 for column in ("calls", "seen", "total", "own")], axis=0)
        used = edges[shown[edges.caller] & shown[edges.callee]]
        edge_calls = self._calls(used)
        some = np.any([edge_calls > 0, used.total > 0, used.wait > 0, used.blocked > 0], axis=0)
        used, edge_calls = used[some], edge_calls[some]
        opened = calls[shown[calls.function]]
        return ThreadTable(
            native=None if thread.n_folded or thread.native <= 0 else thread.native,
            name=self._name(names),
            measured=measured,
            functions=types.rows(
                "functions",
                self._code[rows],
                functions["calls"][rows],
                np.minimum(functions["recursive"], functions["calls"])[rows],
                self._seconds(functions["total"])[rows],
                self._seconds(functions["own"])[rows],
            ),
            edges=types.rows(
                "edges",
                self._code[used.caller],
                self._code[used.callee],
                edge_calls,
                np.minimum(used.recursive, edge_calls),
                self._seconds(used.total),
                self._seconds(used.own),
            ),
            waiting=self._waiting(functions, opened) if measured else types.rows("waiting"),
            open=types.rows(
                "open", self._code[opened.function], self._seconds(opened.within), self._seconds(opened.own)
            ),
            contexts=contexts,
            inside=inside,
            paths=self._read_paths(calls, stack),
            estimates=self._known(functions, rows) if self._file.bursts.sampled_ns else None,
            tracer_s=float(self._seconds(np.array([thread.taken]))[0]),
            pauses=self._read_seen(_PAUSE, "pauses"),
            lines=self._read_seen(_LINE, "lines"),
            slices=self._read_seen(_SLICE, "slices"),
        )

    def _name(self, names: Mapping[int, str]) -> str:
        thread = self._thread
        if thread.n_folded:
            return f"{thread.n_folded} more ended threads"
        own = _text(thread.name.partition(b"\0")[0])
        known = own if thread.ended else names.get(thread.native, own)
        return known or ("MainThread" if thread.native == self._file.first else "")

    def _counts(self, values: Ints) -> Ints:
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= EXACT:
            raise MemberError("damaged: it holds a count that cannot be")
        if values.sum(dtype=np.float64) > 2.0**62:
            raise MemberError("damaged: it holds counts that cannot be")
        return values

    def _seconds(self, ticks: npt.NDArray[Any]) -> Floats:
        return self._times(ticks, self._clock.ns_per_tick)

    def _times(self, values: npt.NDArray[Any], unit_ns: float = 1.0) -> Floats:
        """Return seconds; slightly negative values come from clocks read one after the other."""
        found = np.maximum(values * (unit_ns / 1e9) if unit_ns != 1.0 else values / 1e9, 0.0)
        problem = types.SECONDS.problem_in(found)
        if problem:
            raise MemberError(f"damaged: a time {problem}")
        return found

    def _calls(self, edges: Rows) -> Ints:
        """Return calls of edges: those traced, and those that bursts stand for."""
        bursts = self._file.bursts
        seen: Ints = 0 * edges.seen
        if bursts.known:
            seen = np.rint(np.minimum(edges.seen * bursts.scales[0], EXACT)).astype(np.int64)
        counted = self._counted(edges)
        # What was counted for a while is the least number of calls.
        found: Ints = edges.exact + np.where(
            self._estimated[edges.callee], np.maximum(seen, counted), counted
        )
        return found

    def _counted(self, edges: Rows) -> Ints:
        """Return calls of edges that were counted one by one while the process was sampled."""
        counted: Ints = edges.counted
        return counted if self._file.bursts.counted else 0 * counted

    def _sums(self) -> dict[str, Any]:
        """Return the columns of functions: their own, and sums over incoming edges."""
        edges = self._edges
        found: dict[str, Any] = {name: column.copy() for name, column in self._functions.columns.items()}
        columns = edges.columns | {"calls": self._calls(edges), "counted": self._counted(edges)}
        for column in ("calls", "exact", "counted", "seen", "samples", "sampled", "own", "wait", "blocked"):
            found[column] = self._by_callee(columns[column])
        if self._file.bursts.counted:
            found["recursive"] += np.where(self._estimated, 0, found["counted_recursive"])
        self._counts(found["calls"])
        # Functions that no burst saw: sampled time over the time of a traced call.
        by_time, _ = self._calls_in_time(found, found["looked"], 1.0)
        unseen = self._estimated & (found["seen"] == 0) & (found["counted"] == 0)
        found["calls"] += np.where(unseen, by_time, 0.0).astype(np.int64)
        return found

    def _by_callee(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum over the edges to each function."""
        found = np.zeros(len(self._functions), values.dtype)
        np.add.at(found, self._edges.callee, values)
        return found

    def _calls_in_time(
        self, functions: dict[str, Any], ticks: npt.NDArray[Any], cheaper: float
    ) -> tuple[Floats, Bools]:
        """Return the calls `cheaper` times faster than traced ones that fit into a time, and where known."""
        traced = np.maximum(functions["total"] - functions["looked"], 0) / cheaper
        known = (functions["exact"] > FEWEST_WHOLE * functions["cut"]) & (traced > 0)
        per_tick = np.divide(functions["exact"], traced, out=np.zeros(len(traced)), where=known)
        return np.rint(np.minimum(ticks * per_tick, 2.0**50)), known

    def _known(self, functions: dict[str, Any], rows: Bools) -> Rows:
        """Return intervals of calls and errors of times; callers' errors add up, since calls may coincide."""
        samples, squares = functions["samples"], self._by_callee(self._edges.squares)
        sampled_ns = np.maximum(functions["sampled"], 0) * self._clock.ns_per_tick
        look_ns = squares.sum() / max(sampled_ns.sum(), 1.0)
        weight = np.where(samples > 0, squares / np.maximum(sampled_ns, 1.0), look_ns)
        # A function that was called may have no sample by chance.
        none = np.where(functions["seen"] > 0, NONE_SEEN * look_ns, 0.0)
        error = np.where(samples > 0, NORMAL * np.sqrt(squares + FEW_SAMPLES * weight**2), none) / 1e9
        limits = np.full((2, len(samples)), np.nan)
        if self._file.bursts.known:
            limits = self._limits(functions, look_ns / self._clock.ns_per_tick)
        low, high = np.where(self._estimated, limits, functions["calls"])[:, rows]
        return types.rows("estimates", low, high, samples[rows], error[rows])

    def _limits(self, functions: dict[str, Any], look: float) -> Floats:
        """Return the least and most calls of functions from bursts, NaN if unknown; a look lasts `look` ticks."""
        edges, exact, seen, counted = (
            self._edges,
            *(functions[column] for column in ("exact", "seen", "counted")),
        )
        # Calls come in groups: the number of independent ones with this scatter (L. Kish, "Survey Sampling").
        groups = np.maximum(edges.seen.astype(np.float64) ** 2 / np.maximum(edges.seen_squares, 1.0), 1.0)
        part = NORMAL / np.sqrt(groups)
        less = self._by_callee(edges.seen * np.minimum(part, 1.0))
        more = self._by_callee(edges.seen * (part + 2 / groups))
        _, least, most = self._file.bursts.scales
        low = exact + np.maximum((seen - less) * least, np.maximum(seen, counted))
        high = np.maximum(low, exact + (seen + more) * most)
        # Of unseen functions, at most what fits into their time; without time, a Poisson bound (`NONE_SEEN`).
        within, own = functions["looked"], np.maximum(functions["sampled"], 0).sum()
        in_time, known = self._calls_in_time(
            functions, within + NORMAL * np.sqrt(np.maximum(within, 0) * look) + NONE_SEEN * look, CHEAPER
        )
        at_most = np.where(within > 0, self._seconds(within) / SHORTEST_CALL_S, NONE_SEEN * most)
        # What was open when the tier changed and at every look since has not returned, unless it is one that
        # does return: the body of a loop is at most looks as well.
        only_cut = (functions["cut"] > 0) & (exact <= functions["cut"])
        at_most[only_cut & (within >= ALWAYS * own)] = 0.0
        unseen = np.maximum(low, exact + np.where(known, np.minimum(in_time, at_most), at_most))
        high = np.where(seen == 0, unseen, high)
        return np.where((seen == 0) & (exact == 0) & (counted == 0), np.nan, [low, high])

    def _pending(self, now: int, ends: Mapping[int, ThreadEnd]) -> tuple[int, int]:
        """Return ns queued and blocked in the innermost open call since the tracer last asked the kernel."""
        thread, end = self._thread, ends.get(self._thread.native)
        if end is None or now - thread.last <= thread.long_gap or end.at_ns <= thread.read_at:
            return 0, 0
        most = int((now - thread.last) * self._clock.ns_per_tick)
        waited = max(0, end.wait_ns - thread.read_wait)
        off = end.at_ns - thread.read_at - (end.run_ns - thread.read_run) - waited
        wait = min(max(0, thread.uncharged_wait + waited), most)
        return wait, min(max(0, thread.uncharged_blocked + off), most - wait)

    def _stack(self) -> Rows:
        """Return the open calls, outermost first; `edge` is an index into the edges."""
        stack, edges = self._file.stack(self._thread), self._edges
        stack.columns["edge"] = edge = _index_of(edges.place, stack.place)
        stack = stack[: int(np.argmin(np.append(edge >= 0, False)))]  # the rest was being written
        if len(stack):
            innermost = stack.edge[-1]
            if (stack.edge == innermost).sum() > edges.open[innermost]:
                return stack[:-1]  # it has just returned, and is counted
        return stack

    def _open(self, now: int, stack: Rows, wait: int, blocked: int) -> Rows:
        """Return ticks and waiting of open calls; `wait` and `blocked` are added to the innermost."""
        total, thread = now - stack.start, self._thread
        own = total - stack.children - np.append(total[1:], 0)[: len(total)]
        waits, blocks = np.zeros((2, len(stack)), np.int64)
        waits[-1:], blocks[-1:] = wait, blocked
        return Rows(
            {
                "function": self._edges.callee[stack.edge],
                "within": total,
                "own": own,
                "wait": waits,
                "cumwait": thread.wait - stack.wait + wait,
                "blocked": blocks,
                "cumblocked": thread.blocked - stack.blocked + blocked,
            }
        )

    def _waiting(self, functions: dict[str, Any], calls: Rows) -> Rows:
        """Return the waiting of functions, open calls included."""
        columns = ("wait", "cumwait", "blocked", "cumblocked")
        rows = (self._shown >= 0) & np.any([functions[column] > 0 for column in columns], axis=0)
        # The outer call's waiting includes that of recursive ones.
        again = np.ones(len(calls), bool)
        again[np.unique(calls.function, return_index=True)[1]] = False
        times = {
            column: np.where(again & column.startswith("cum"), 0, calls.columns[column]) for column in columns
        }
        return types.rows(
            "waiting",
            self._code[np.append(np.flatnonzero(rows), calls.function)],
            *(self._times(np.append(functions[column][rows], times[column])) for column in columns),
        )

    def _read_contexts(self, now: int, stack: Rows) -> tuple[Rows, Rows]:
        thread, at, rows = self._thread, self._read(_CONTEXT), self._read(_ROW)
        if (at.parent >= at.number).any():
            raise MemberError("damaged: its contexts are in no order")
        there = (rows.context >= 1) & (rows.context <= len(at))
        if not there.all():
            if not self._file.growing:
                raise MemberError("damaged: a row's context is not there")
            rows = rows[there]
        if thread.context and not thread.ended and len(stack):
            open_context = at.number[at.place == self._file.places_of(np.array([thread.context], np.uint64))]
            here = np.isin(rows.context, open_context) & (rows.function == self._edges.callee[stack.edge[-1]])
            rows.own[here] += now - thread.charged_until
        rows = rows[self._shown[rows.function] >= 0]
        return (
            types.rows("contexts", at.parent - 1, at.domain, at.name, self._shown[at.opener], at.count),
            types.rows(
                "inside",
                rows.context - 1,
                self._shown[rows.function],
                rows.calls,
                self._seconds(rows.own),
                self._times(rows.wait),
                self._times(rows.blocked),
            ),
        )

    def _read_paths(self, calls: Rows, stack: Rows) -> Rows:
        """Return calling contexts; those of open calls include their time so far."""
        at = self._read(_PATH)  # number 0 is the base, which is no context
        if not len(at):
            return types.rows("paths")
        parents = at.parent
        if (parents[1:] >= at.number[1:]).any() or parents[0] or at.function[0] != self._place_of[0]:
            raise MemberError("damaged: its calling contexts are in no order")
        times = {name: at.columns[name].astype(np.float64) for name in ("own", "wait", "blocked")}
        index = _index_of(at.place, stack.path)
        known = index >= 0
        np.add.at(at.calls, index[known], 1)
        for name, column in times.items():
            np.add.at(column, index[known], calls.columns[name][known])
        function, passing = self._shown[at.function], self._passing[at.function]
        # Omit the agent's own functions, and their callees that are not the target's.
        left_out = (self._code[at.function] >= 0) & (function < 0) & ~passing
        while (left_out[parents] & ~left_out).any():
            left_out |= left_out[parents]
        while passing[parents].any():
            parents = np.where(passing[parents], parents[parents], parents)
        left_out[0] = True
        kept = ~(left_out | passing)
        moved = np.cumsum(kept) - 1
        return types.rows(
            "paths",
            np.where(parents[kept] > 0, moved[parents[kept]], -1),
            function[kept],
            self._counts(at.calls[kept]),
            self._seconds(times["own"][kept]),
            self._times(times["wait"][kept]),
            self._times(times["blocked"][kept]),
        )

    def _read_seen(self, kind: int, table: str) -> Rows | None:
        """Return pauses, lines or slices, without the agent's and those outside every call."""
        if not self._file.tiers:
            return None  # in a block nothing looks at what threads do
        at = self._read(kind)
        if kind == _PAUSE and ((at.what < 1) | (at.what > types.LAST_RANK_CALL)).any():
            raise MemberError("damaged: it has a pause of unknown kind")
        if kind == _LINE:
            at.line.clip(0, _LAST_LINE, out=at.line)
        if kind == _SLICE:  # drop those that were being written
            at = at[(at.begin_ns >= 0) & (at.begin_ns < at.end_ns) & (at.end_ns <= LAST_NS)]
        for name in _FUNCTION_COLUMNS & at.columns.keys():
            at.columns[name] = self._shown[at.columns[name]]
            at = at[at.columns[name] >= 0]
        at.columns["seconds"] = self._times(at.ns)
        return types.rows(table, *(at.columns[name] for name in types.TABLES[table]))


def _index_of(places: Ints, wanted: Ints) -> Ints:
    """Return for each of the `wanted` file offsets its index in `places`, −1 if it is not there."""
    order = np.argsort(places, kind="stable")
    index = np.append(order, -1)[np.searchsorted(places[order], wanted)]
    return np.where(np.append(places, -1)[index] == wanted, index, -1)


def _name_and_qualname(text: bytes) -> tuple[str, str]:
    name, _, qualname = text.partition(b"\0")
    return _text(name), _text(qualname)


def _text(text: bytes) -> str:
    """Decode a text as the agent's Python had it, with invalid bytes replaced."""
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace")
