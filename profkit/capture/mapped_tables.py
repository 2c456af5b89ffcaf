"""Reads the file of a process's tracer tables (`native/tracer/store.h`, `layout.h`), as it was when the
process ended.

A process may have died at any instruction, and anyone who can write to the spool directory can have changed
any byte: sizes, numbers and addresses are checked before use, and memory is taken in proportion to the file.
The file of a running process grows while it is read. Whatever refers to something that was absent when it was
read is omitted.
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.capture import record_types as types
from profkit.capture.agent import record_file
from profkit.capture.record_types import Codes, ThreadTable
from profkit.formats.codec import MemberError
from profkit.formats.regular_file import open_regular, read_regular
from profkit.model.bounds import LAST_NS

MAGIC = b"PFKCALLS"
_VERSION = 7
_HEADER = struct.Struct("<8s10I8xqqqqdQQ")
#: `struct tier_store`, and how many changes of the tier it has room for.
_TIERS, _MOST_TIERS = struct.Struct("<q16q5q4dq"), 8
_CLOCK_TURN = 48
_HEADER_BYTES = 4096
_MOST_BYTES = 2**32
#: Times that a file is read whose tables were summed up meanwhile.
_READINGS = 8

_TABLE, _ENTRIES, _STACK, _NAMES, _RECORD = range(1, 6)
_FUNCTION, _EDGE, _CONTEXT, _ROW, _PATH, _PAUSE, _LINE, _SLICE = range(1, 9)
#: Bytes from one `struct pause`, `struct line` or `struct slice` to the next entry.
_PAUSE_STRIDE = 48
_NAME_FILE, _NAME_FUNCTION = _NAME_KINDS = 1, 2
_IS_OWN = 1
#: Of a function: not all of its calls were counted one by one.
_IS_UNCOUNTED = 2
#: In the labels of the tracer's own methods, which the agent calls while it traces.
_OWN_METHOD = " of 'profkit_tracer."
#: The agent's functions through which the target imports modules: what they call is the target's.
_PASSING_FILE, _PASSING = "<frozen profkit.import_hook>", ("find_spec", "create_module", "exec_module")

_EXTENT = struct.Struct("<QQ")
_BLOCK = struct.Struct("<3I4x")
_NAME = struct.Struct("<6I")
_TABLE_HEAD = struct.Struct("<I4xQQqqqQq3qqqqqqQQiI3?60s")
_CALL = struct.Struct("<QqqqqQ")
#: Least sizes of what is counted in the header; the structures of the tracer hold more than is read.
_LEAST = (_TABLE_HEAD.size, _CALL.size, 96, 144, 32, 48)
_MOST_STRUCTURE = 4096

#: Bytes of names in one place.
_MOST_NAMES = 2**20

#: A thread's functions are numbered in order; those of a process that goes on may not all have been there yet.
_MOST_SPREAD = 2**16

_MOST_CALLS = 2**53
_LAST_LINE = 2**31 - 1
_MOST_TICKS = 2**62
#: Nanoseconds a tick: no clock is faster or slower.
_LEAST_RATE, _MOST_RATE = 1e-3, 1e3
_MOST_THREADS = 2**16
#: As in the tracer: a rate that is off by more is of a machine that was suspended.
_RATE_TOLERANCE = 0.01

#: Bursts from which on calls are estimated: the scatter of two says nothing.
FEWEST_BURSTS = 3
#: Parts of what counting is taken to add to a burst by which that may be too much, or too little: events cost 1.0 to
#: 2.5 times what they do on warm caches where 1.6 is assumed (native/tracer/tiers.c).
LESS_SLOWED, MORE_SLOWED = 0.4, 0.6
#: Of a Poisson process of which nothing was seen, this is the upper bound of 95 % ("rule of three"; J. Hanley,
#: A. Lippman-Hand, JAMA 249, 1983).
NONE_SEEN = 3.0
#: No call is shorter, of a function in Python or in C: 25 to 40 ns on the machines of docs/costs.md.
SHORTEST_CALL_S = 2.5e-8
#: Times by which calls of a function may become cheaper.
CHEAPER = 2.0
#: What calls take is known from those that were traced if there are so many for each that a change of tier cut.
FEWEST_WHOLE = 3
#: Part of the sampled time in which a function is that never returned: looks miss it where a stack cannot be read.
ALWAYS = 0.95
_NORMAL = 1.96
#: Samples that are added to those taken for the error of their number: without them an interval of few is too narrow
#: (of 3, it holds the truth 8 times of 10), with them it holds it 95 times of 100 from the first sample on.
FEW_SAMPLES = 2.0

#: What a file of this version begins with.
_MADE_BY = (MAGIC, _VERSION, _HEADER_BYTES)

_TIER_KINDS: dict[int, Literal["exact", "sampled"]] = {1: "exact", 2: "sampled"}

_Ints = npt.NDArray[np.int64]
#: Returns bytes of a file: from where, and how many.
_Read: TypeAlias = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """The kernel's counters of a thread at some time, ns; `at_ns` is of ``CLOCK_MONOTONIC``."""

    at_ns: int
    run_ns: int
    wait_ns: int


class _Block(NamedTuple):
    """A block of the file: where its content begins, and its size in bytes."""

    kind: int
    owner: int
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class _Thread:
    """The head of a thread's table; times are ticks, `read` and what is charged are nanoseconds.
    Times of calls and ranges (`charged_until`) exclude the tracer's own ticks by then, in all `taken`."""

    number: int
    top: int
    stack: int
    last: int
    wait: int
    blocked: int
    context: int
    charged_until: int
    read_at: int
    read_run: int
    read_wait: int
    uncharged_wait: int
    uncharged_blocked: int
    long_gap: int
    taken: int
    lost: int
    born: int
    folded: int
    native: int
    n_folded: int
    read_before: bool
    unmeasured: bool
    ended: bool
    name: bytes


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
    """How calls were counted in bursts while a process was sampled, ns.
    `sampled_ns` is how long it was sampled. `lasted_ns` is the total length of the bursts without what
    counting took, `slowed_ns` the estimate of what counting added to them. `counted` says whether calls of
    functions that are called seldom were counted all the time (`native/tracer/seldom.h`)."""

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
        """Return the calls per call in a burst, and its least and most for what counting may have added."""
        lasted, slowed = float(self.lasted_ns), self.slowed_ns
        return (
            self.sampled_ns / lasted,
            self.sampled_ns / (lasted + LESS_SLOWED * slowed),
            self.sampled_ns / max(lasted - MORE_SLOWED * slowed, lasted / 3),
        )


def read_tables(path: Path, *, growing: bool = False) -> MappedTables:
    """Return the tables of one process; `growing` if it may still run and change the file.
    Raise `OSError` if the file cannot be opened, `ValueError` if it is damaged or of another profkit version.
    """
    for _ in range(_READINGS if growing else 1):
        data = read_regular(path, _MOST_BYTES)
        # Tables of ended threads that were summed up meanwhile have given their room to others.
        if not growing or _epoch(data) == _epoch(read_regular(path, _HEADER_BYTES, cut=True)):
            break
    return MappedTables(data, growing=growing)


def decode_tables(data: bytes) -> MappedTables:
    """Return the tables in a file's bytes; errors are those of `read_tables`."""
    return MappedTables(data)


class MappedTables:
    """The file of one process, with the functions (`codes`) of all its threads.
    `missed`: there was no room for some of what was traced. `tiers` are kinds of tiers with their begins,
    seconds of ``CLOCK_MONOTONIC``. `effect` is what capture added to the wall, seconds, with its interval,
    ``None`` if unknown.
    """

    def __init__(self, data: bytes, *, growing: bool = False) -> None:
        self.growing = growing
        if len(data) < _HEADER_BYTES:
            raise MemberError(f"torn: it ends in its header, after {len(data)} bytes")
        header = _HEADER.unpack_from(data)
        if header[0] != MAGIC:
            raise MemberError("not written by profkit")
        if header[1] != _VERSION:
            raise MemberError(
                f"made by another version of profkit, in format {header[1]} where this one reads {_VERSION}"
            )
        sizes = header[3:9]
        if header[2] != _HEADER_BYTES or any(
            not least <= size <= _MOST_STRUCTURE or size % 8
            for size, least in zip(sizes, _LEAST, strict=True)
        ):
            raise MemberError("damaged: it has structures of impossible sizes")
        self._table_bytes, self._call_bytes = sizes[:2]
        self._strides = {
            kind: (size + 15) // 16 * 16
            for kind, size in zip(
                (_FUNCTION, _EDGE, _CONTEXT, _PATH, _ROW), (*sizes[2:], sizes[3]), strict=True
            )
        } | {_PAUSE: _PAUSE_STRIDE, _LINE: _PAUSE_STRIDE, _SLICE: _PAUSE_STRIDE}
        #: By kind, its size in units of 16 bytes; what is no kind leads behind everything.
        self._steps = [_MOST_BYTES] * 256
        for kind, stride in self._strides.items():
            self._steps[kind] = stride // 16
        self.pid: int = header[9]
        self._clock = _clock(data, header)
        self._epoch, missed = header[16:18]
        self.tiers, self.effect, self.bursts = _read_tiers(data)
        self._data = data
        self._words: _Ints = np.frombuffer(data, "<i8", len(data) // 8)
        self._halves: npt.NDArray[np.uint32] = np.frombuffer(data, "<u4", len(data) // 4)
        self._extents: list[tuple[int, int, int]] = []  # address, bytes, place in the file
        blocks = list(_blocks(lambda at, count: data[at : at + count], len(data), self._extents))
        self._extents.sort()
        self._passing: set[int] = set()  # codes
        #: By code: whether its calls are estimated where the process was sampled.
        self._uncounted: npt.NDArray[np.bool_]
        self.codes, self._own, self._code_of = self._read_names([b for b in blocks if b.kind == _NAMES])
        self._entries: dict[int, list[_Block]] = {}
        for block in blocks:
            if block.kind == _ENTRIES:
                self._entries.setdefault(block.owner, []).append(block)
        self._threads = self._read_heads([b for b in blocks if b.kind == _TABLE])
        self._records = [block for block in blocks if block.kind == _RECORD]
        self.missed = missed > 0 or any(thread.lost > 0 for thread in self._threads)

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
        """Return one table per thread, the main thread's first and a sum of short threads last.
        `until_s` (seconds of ``CLOCK_MONOTONIC``) is the end of calls that have not returned, ``None`` for
        the last event of their thread. `names` are by thread number. `ends` are the kernel's counters read
        after the tracer's, for what open calls waited. Raise `ValueError` if a table is damaged."""
        threads = sorted(self._threads, key=lambda t: (t.n_folded > 0, t.native != self.pid, t.number))
        found = [_Reader(self, thread).table(until_s, names, ends) for thread in threads]
        if not threads or threads[0].native != self.pid or threads[0].n_folded:
            found.insert(0, _empty(self.pid, names))
        return tuple(found)

    # The parts of the file

    def place_of(self, address: int) -> int:
        """Return the file offset of an address of the process; -1 if it is outside the file."""
        index = bisect.bisect_right(self._extents, (address, 2**64, 0)) - 1
        if index < 0:
            return -1
        begin, size, at = self._extents[index]
        return at + address - begin if address < begin + size else -1

    def _read_names(self, blocks: list[_Block]) -> tuple[Codes, npt.NDArray[np.bool_], dict[int, int]]:
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
        self._uncounted = np.array(uncounted_codes, bool)
        if any(file not in files for file in set(file_numbers)):
            raise MemberError("damaged: a function's file is not there")
        places = np.array([files[file] for file in file_numbers], np.int64)
        codes = Codes(tuple(texts), places, np.array(lines, np.int64), names, qualnames)
        own = np.array(own_files, bool)[places] if functions else np.zeros(0, bool)
        own |= np.array([_OWN_METHOD in name for name in names], bool)
        for i in np.flatnonzero(own).tolist():
            self._passing |= {i} if _is_passing(texts[places[i]], names[i]) else set()
        return codes, own, dict(zip(numbers, range(len(numbers)), strict=True))

    def _read_heads(self, blocks: list[_Block]) -> list[_Thread]:
        found = []
        for block in blocks:
            if block.size < self._table_bytes:
                raise MemberError("damaged: it has a table of an impossible size")
            thread = _Thread(*_TABLE_HEAD.unpack_from(self._data, block.at))
            times = thread.last, thread.charged_until, thread.taken
            if not all(0 <= time < _MOST_TICKS for time in times):
                raise MemberError("damaged: a thread has a time that cannot be")
            counts = thread.born <= self._epoch and not 0 < thread.folded <= self._epoch
            if counts:
                found.append(thread)
        if len(found) > _MOST_THREADS:
            raise MemberError(f"damaged: it has more than {_MOST_THREADS} threads")
        if len({thread.number for thread in found}) < len(found):
            raise MemberError("damaged: two of its tables are one")
        return found

    def entries(self, number: int) -> dict[int, _Ints]:
        """Return the file offsets of a table's entries, by kind."""
        found = [self._entries_in(block) for block in self._entries.get(number, ())]
        places = np.concatenate([np.zeros(0, np.int64), *found])
        kinds = self._halves[places >> 2]
        return {kind: places[kinds == kind] for kind in self._strides}

    def _entries_in(self, block: _Block) -> _Ints:
        """Return the file offsets of a block's entries, which are spaced by the size of their kind."""
        # One number for each 16 bytes, of which those where an entry begins are kinds; 255 stands for more.
        units = self._halves[block.at >> 2 : (block.at + block.size) >> 2 : 4]
        kinds = np.minimum(units, 255).astype(np.uint8).tobytes()
        steps, at, end, found = self._steps, 0, len(kinds), []
        while at < end and (kind := kinds[at]):
            found.append(at)
            at += steps[kind]
        if at > end:
            raise MemberError("damaged: it has an entry of no kind")
        return block.at + 16 * np.array(found, np.int64)

    def half(self, places: _Ints, offset: int) -> _Ints:
        """Return a 4-byte field of each entry."""
        found: _Ints = self._halves[(places + offset) >> 2].astype(np.int64)
        return found

    def word(self, places: _Ints, offset: int) -> _Ints:
        """Return an 8-byte field of each entry."""
        found: _Ints = self._words[(places + offset) >> 3].astype(np.int64)
        return found


class GrowingNames:
    """The functions of a running process, each given once, from its file as it is at each look.
    A look reads only the positions of the file's parts and the new names. The result is a hint before the
    process ends; nothing relies on it."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}  # by the place of a block, the bytes of it that were read
        self._files: dict[int, str] = {}

    def look(self, path: Path) -> list[tuple[str, int, str, str]]:
        """Return file, line, name and qualified name of the functions that are new since the last look.
        Raise `OSError` or `ValueError` as `read_tables` does."""
        with open_regular(path, buffering=0) as file:

            def read(at: int, count: int) -> bytes:
                file.seek(at)
                return file.read(count)

            if _HEADER.unpack_from(read(0, _HEADER.size).ljust(_HEADER.size, b"\0"))[:3] != _MADE_BY:
                raise MemberError("not written by this profkit")
            found: list[tuple[str, int, str, str]] = []
            for block in _blocks(read, os.fstat(file.fileno()).st_size, []):
                if block.kind == _NAMES:
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
            elif kind == _NAME_FUNCTION and self._files.get(file):
                yield (self._files[file], min(line, _LAST_LINE), *_name_and_qualname(text))
        self._read[block.at] = done


def _blocks(read: _Read, size: int, extents: list[tuple[int, int, int]]) -> Iterator[_Block]:
    """Yield the blocks of a file; append address, size and file offset of each extent to `extents`."""
    at = _HEADER_BYTES
    while at + 16 <= size:
        head = read(at, _EXTENT.size)
        if len(head) < _EXTENT.size:
            return  # it was cut meanwhile
        whole, address = _EXTENT.unpack(head)
        if whole == 0:
            return  # it was being added
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
    """Yield kind, number, file, line, flags and text of the names in a block's content, or in its end."""
    at, last, unpack, kinds = 0, len(data) - _NAME.size, _NAME.unpack_from, _NAME_KINDS
    while at <= last:
        kind, size, number, file, line, flags = unpack(data, at)
        if kind == 0:
            return
        if size > last - at:
            raise MemberError("damaged: it has a name of an impossible size")
        if kind not in kinds:
            raise MemberError("damaged: it has a name of no kind")
        text = data[at + _NAME.size : at + _NAME.size + size]
        yield kind, number, file, line, flags, text
        at += _name_bytes(text)


def _name_bytes(text: bytes) -> int:
    return (_NAME.size + len(text) + 7) // 8 * 8


def _read_tiers(
    data: bytes,
) -> tuple[tuple[tuple[Literal["exact", "sampled"], float], ...], tuple[float, float, float] | None, Bursts]:
    """Return the tiers of a process with their begins, what capture added to its wall, and its bursts."""
    n, *rest = _TIERS.unpack_from(data, _HEADER.size)
    spans, (sampled, _, bursts, lasted, _) = rest[: 2 * _MOST_TIERS], rest[2 * _MOST_TIERS : -5]
    *effect, slowed, counted = rest[-5:]
    times = [sampled, lasted, *spans[::2]]
    if (
        not 0 <= n <= _MOST_TIERS
        or not all(0 <= time < _MOST_TICKS for time in times)
        or not 0 <= bursts <= _MOST_CALLS
        or not all(0.0 <= time < _MOST_TICKS for time in (*effect, slowed))
        or any(tier not in _TIER_KINDS for tier in spans[1 : 2 * n : 2])
    ):
        raise MemberError("damaged: it has tiers that cannot be")
    tiers = tuple(
        (_TIER_KINDS[tier], at / 1e9)
        for at, tier in zip(spans[: 2 * n : 2], spans[1 : 2 * n : 2], strict=True)
    )
    likely, least, most = (seconds / 1e9 for seconds in effect)
    return (
        tiers,
        (likely, min(least, likely), max(most, likely)) if n else None,
        Bursts(sampled, bursts, lasted, slowed, bool(counted)),
    )


def _epoch(data: bytes) -> int | None:
    return _HEADER.unpack_from(data)[16] if len(data) >= _HEADER_BYTES else None


def _clock(data: bytes, header: tuple[Any, ...]) -> _Clock:
    began_ticks, began_ns, ticks, ns, rate = header[11:16]
    (turn,) = struct.unpack_from("<I", data, _CLOCK_TURN)
    if not _LEAST_RATE < rate < _MOST_RATE or not (
        0 <= began_ns < _MOST_TICKS and 0 <= began_ticks < _MOST_TICKS
    ):
        raise MemberError("damaged: its clock is none")
    if not header[10]:
        return _Clock(0, 0, 1.0)
    if turn % 2 == 0 and began_ticks < ticks < _MOST_TICKS and began_ns < ns < _MOST_TICKS:
        measured = (ns - began_ns) / (ticks - began_ticks)
        return _Clock(ticks, ns, measured if abs(measured / rate - 1) < _RATE_TOLERANCE else rate)
    return _Clock(began_ticks, began_ns, rate)


class _Reader:
    def __init__(self, file: MappedTables, thread: _Thread) -> None:
        self._file = file
        self._thread = thread
        places = file.entries(thread.number)
        functions = places[_FUNCTION]
        numbers = file.half(functions, 4)
        order = np.argsort(numbers, kind="stable")
        functions, numbers = functions[order], numbers[order]
        if (np.diff(numbers) == 0).any():
            raise MemberError("damaged: two functions of a thread have one number")
        names = file.half(functions, 8).tolist()
        codes = np.array([-1 if name == 0 else file._code_of.get(name, -2) for name in names], np.int64)
        known = codes > -2
        if not known.all() and not file.growing:
            raise MemberError("damaged: a function's name is not there")
        #: In ascending order of their numbers.
        self._functions, self._numbers = functions[known], numbers[known]
        if len(functions) and int(numbers[-1]) > _MOST_SPREAD + 2 * len(functions):
            raise MemberError("damaged: a function has a number that cannot be")
        #: By number, its place in that order; -1 for what is not there.
        self._place_of = np.full(int(self._numbers[-1]) + 1 if known.any() else 0, -1, np.int64)
        self._place_of[self._numbers] = np.arange(len(self._numbers))
        #: By place in the table: the function's place in the codes, -1 for what is outside every call.
        self._code = codes[known]
        #: Likewise: whether its calls are estimated where the process was sampled.
        self._estimated = self._code < 0
        if len(file.codes):
            self._estimated |= file._uncounted[self._code]
        self._edges = places[_EDGE]
        self._rows, self._pauses, self._lines = places[_ROW], places[_PAUSE], places[_LINE]
        self._slices = places[_SLICE]
        contexts, paths = places[_CONTEXT], places[_PATH]
        self._contexts = contexts[np.argsort(file.half(contexts, 4), kind="stable")]
        self._paths = paths[np.argsort(file.half(paths, 4), kind="stable")]
        if file.growing:
            self._leave_out_the_newest()

    def _leave_out_the_newest(self) -> None:
        """Omit what refers to something that was absent when it was read, and what came after that."""
        half = self._file.half
        self._edges = self._edges[
            np.isin(half(self._edges, 4), self._numbers) & np.isin(half(self._edges, 8), self._numbers)
        ]
        at = self._contexts
        whole = (half(at, 4) == np.arange(1, len(at) + 1)) & np.isin(half(at, 12), self._numbers)
        self._contexts = at[: int(np.argmin(np.append(whole, False)))]
        self._rows = self._rows[
            (half(self._rows, 4) <= len(self._contexts)) & np.isin(half(self._rows, 8), self._numbers)
        ]
        self._pauses = self._pauses[np.isin(half(self._pauses, 4), self._numbers)]
        self._lines = self._lines[
            np.isin(half(self._lines, 4), self._numbers) & np.isin(half(self._lines, 8), self._numbers)
        ]
        self._slices = self._slices[np.isin(half(self._slices, 4), self._numbers)]
        called = half(self._paths, 12)
        whole = (called == 0) | np.isin(called, self._numbers)
        self._paths = self._paths[: int(np.argmin(np.append(whole, False)))]

    def table(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> ThreadTable:
        thread, file = self._thread, self._file
        now = thread.last
        if until_s is not None and not thread.ended and not thread.n_folded:
            now = min(max(now, file._clock.ticks_at(until_s)), _MOST_TICKS)
        measured = thread.read_before and not thread.unmeasured
        pending = self._pending(now, ends.get(thread.native)) if measured else (0, 0)
        edges = self._read_edges()
        functions = self._sums(edges)
        calls = self._open(now - thread.taken, pending)
        contexts, inside = self._read_contexts(now - thread.taken)
        paths = self._read_paths(now - thread.taken, calls)
        return self._made(
            edges, functions, calls, contexts, inside, paths, measured=measured, name=self._name(names)
        )

    def _name(self, names: Mapping[int, str]) -> str:
        thread = self._thread
        if thread.n_folded:
            return f"{thread.n_folded} more ended threads"
        own = _text(thread.name.partition(b"\0")[0])
        known = own if thread.ended else names.get(thread.native, own)
        return known or ("MainThread" if thread.native == self._file.pid else "")

    def _place(self, numbers: _Ints) -> _Ints:
        """Return the table indices of the functions with these numbers."""
        if len(numbers) and int(numbers.max()) >= len(self._place_of):
            raise MemberError("damaged: a function is not there")
        places: _Ints = self._place_of[numbers]
        if (places < 0).any():
            raise MemberError("damaged: a function is not there")
        return places

    def _counts(self, values: _Ints) -> _Ints:
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) <= _MOST_CALLS:
            raise MemberError("damaged: it holds a count that cannot be")
        if values.sum(dtype=np.float64) > 2.0**62:
            raise MemberError("damaged: it holds counts that cannot be")
        return values

    def _seconds(self, values: npt.NDArray[Any]) -> types.Floats:
        return self._checked(values * (self._file._clock.ns_per_tick / 1e9))

    def _checked(self, seconds: npt.NDArray[Any]) -> types.Floats:
        """Return seconds; slightly negative values come from clocks that are read one after the other."""
        found = np.maximum(seconds.astype(np.float64), 0.0)
        problem = types.SECONDS.problem_in(found)
        if problem:
            raise MemberError(f"damaged: a time {problem}")
        return found

    def _read_edges(self) -> dict[str, Any]:
        word, half, at = self._file.word, self._file.half, self._edges
        exact, seen = self._counts(word(at, 24)), self._counts(word(at, 96))
        callee = self._place(half(at, 8))
        # Of a function that was counted for a while it is a part: at least so many were made.
        counted = self._counts(word(at, 136)) if self._file.bursts.counted else 0 * exact
        sampled = np.where(self._estimated[callee], np.maximum(self._scaled(seen), counted), counted)
        return {
            "caller": self._place(half(at, 4)),
            "callee": callee,
            "exact": exact,
            "counted": counted,
            "calls": exact + sampled,
            "seen": seen,
            "seen_squares": self._squares(at, 104),
            "samples": self._counts(word(at, 112)),
            "squares": self._squares(at, 120),
            "sampled": word(at, 128),
            "own": word(at, 32),
            "open": word(at, 40),
            "total": word(at, 48),
            "recursive": self._counts(word(at, 56)),
            "wait": word(at, 64),
            "cumwait": word(at, 72),
            "blocked": word(at, 80),
            "cumblocked": word(at, 88),
        }

    def _scaled(self, seen: _Ints) -> _Ints:
        """Return the calls that those in bursts stand for."""
        bursts = self._file.bursts
        if not bursts.known:
            return seen * 0
        scaled: _Ints = np.rint(np.minimum(seen * bursts.scales[0], _MOST_CALLS)).astype(np.int64)
        return scaled

    def _squares(self, places: _Ints, offset: int) -> types.Floats:
        found: types.Floats = self._file.word(places, offset).view(np.float64)
        if len(found) and not (np.isfinite(found) & (found >= 0)).all():
            raise MemberError("damaged: it holds a scatter that cannot be")
        return found

    def _sums(self, edges: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of functions: sums over their incoming edges, and what each has itself."""
        n, word = len(self._functions), self._file.word
        found: dict[str, Any] = {}
        for column in ("calls", "exact", "counted", "seen", "samples", "sampled", "own", "wait", "blocked"):
            found[column] = np.zeros(n, np.int64)
            np.add.at(found[column], edges["callee"], edges[column])
        for column, offset in (
            ("recursive", 40),
            ("total", 48),
            ("cumwait", 56),
            ("cumblocked", 64),
            ("within", 72),
            ("cut", 80),
        ):
            found[column] = word(self._functions, offset)
        if self._file.bursts.counted:
            counted = np.where(self._estimated, 0, self._counts(word(self._functions, 88)))
            found["recursive"] = found["recursive"] + counted
        self._counts(found["calls"])
        self._counts(found["recursive"])
        self._counts(found["cut"])
        found["calls"] += self._by_time(found)
        return found

    def _by_time(self, functions: dict[str, Any]) -> _Ints:
        """Return calls of functions that no burst saw: their sampled time by the time of traced calls."""
        by_time, _ = self._calls_in_time(functions, functions["within"], 1.0)
        unseen = self._estimated & (functions["seen"] == 0) & (functions["counted"] == 0)
        found: _Ints = np.where(unseen, by_time, 0.0).astype(np.int64)
        return found

    def _calls_in_time(
        self, functions: dict[str, Any], ticks: npt.NDArray[Any], cheaper: float
    ) -> tuple[types.Floats, npt.NDArray[np.bool_]]:
        """Return the calls that fit into a time, if each takes a part of a traced call's, and where known."""
        traced = np.maximum(functions["total"] - functions["within"], 0) / cheaper
        known = (functions["exact"] > FEWEST_WHOLE * functions["cut"]) & (traced > 0)
        per_tick = np.divide(functions["exact"], traced, out=np.zeros(len(traced)), where=known)
        return np.rint(np.minimum(ticks * per_tick, 2.0**50)), known

    def _known(
        self, edges: dict[str, Any], functions: dict[str, Any], rows: npt.NDArray[np.bool_]
    ) -> types.Estimates:
        """Return how well the functions of a thread that was sampled for a while are known.
        The scatter of calls among bursts gives the error of their sum. Errors of several callers are added,
        as their calls may coincide."""
        bursts, n, callee = self._file.bursts, len(self._functions), edges["callee"]
        samples, squares = functions["samples"], np.zeros(n)
        np.add.at(squares, callee, edges["squares"])
        exact, seen = functions["exact"], functions["seen"]
        sampled_ns = np.maximum(functions["sampled"], 0) * self._file._clock.ns_per_tick
        look_ns = squares.sum() / max(sampled_ns.sum(), 1.0)
        weight = np.where(samples > 0, squares / np.maximum(sampled_ns, 1.0), look_ns)
        # Of a function that was called meanwhile, none may have been taken.
        none = np.where(seen > 0, NONE_SEEN * look_ns, 0.0)
        error = np.where(samples > 0, _NORMAL * np.sqrt(squares + FEW_SAMPLES * weight**2), none) / 1e9
        all_known, calls = ~self._estimated, functions["calls"].astype(np.float64)
        if not bursts.known:
            limit = np.where(all_known, calls, np.nan)
            return types.Estimates(limit[rows], limit[rows], samples[rows], error[rows])
        # Calls come in groups: as many independent ones were seen as have this scatter (L. Kish, "Survey Sampling").
        groups = edges["seen"].astype(np.float64) ** 2 / np.maximum(edges["seen_squares"], 1.0)
        less, more = np.zeros(n), np.zeros(n)
        part = _NORMAL / np.sqrt(np.maximum(groups, 1.0))
        np.add.at(less, callee, edges["seen"] * np.minimum(part, 1.0))
        np.add.at(more, callee, edges["seen"] * (part + 2 / np.maximum(groups, 1.0)))
        _, least, most = bursts.scales
        low = exact + np.maximum((seen - less) * least, np.maximum(seen, functions["counted"]))
        high = np.maximum(low, exact + (seen + more) * most)
        # Where none was seen, no more than its time suffices for. Of what took no time, calls come one by one.
        within, own = functions["within"], np.maximum(functions["sampled"], 0).sum()
        look = look_ns / self._file._clock.ns_per_tick
        in_time, known = self._calls_in_time(
            functions, within + _NORMAL * np.sqrt(np.maximum(within, 0) * look) + NONE_SEEN * look, CHEAPER
        )
        at_most = np.where(within > 0, self._seconds(within) / SHORTEST_CALL_S, NONE_SEEN * most)
        # What was open when the tier changed and then at every look has not returned.
        at_most[(functions["cut"] > 0) & (within >= ALWAYS * own)] = 0.0
        unseen = np.maximum(low, exact + np.where(known, np.minimum(in_time, at_most), at_most))
        high = np.where(seen == 0, unseen, high)
        unknown = (seen == 0) & (exact == 0) & (functions["counted"] == 0)
        low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
        low, high = np.where(all_known, calls, low), np.where(all_known, calls, high)
        return types.Estimates(low[rows], high[rows], samples[rows], error[rows])

    def _pending(self, now: int, end: ThreadEnd | None) -> tuple[int, int]:
        """Return the ns that the innermost open call has waited since the tracer last asked the kernel."""
        thread, clock = self._thread, self._file._clock
        if end is None or now - thread.last <= thread.long_gap or end.at_ns <= thread.read_at:
            return 0, 0
        most = int((now - thread.last) * clock.ns_per_tick)
        waited = max(0, end.wait_ns - thread.read_wait)
        off = end.at_ns - thread.read_at - (end.run_ns - thread.read_run) - waited
        wait = min(max(0, thread.uncharged_wait + waited), most)
        return wait, min(max(0, thread.uncharged_blocked + off), most - wait)

    def _stack(self) -> list[tuple[int, int, int, int, int, int]]:
        """Return the open calls, outermost first.
        Each has its edge's place, its start, its callees' time, the wait before it began, its path's address.
        """
        thread, file = self._thread, self._file
        size = file._call_bytes
        depth, rest = divmod(thread.top - thread.stack, size)
        at = file.place_of(thread.stack)
        if depth <= 0 or rest or at < 0 or at % 8 or (depth + 1) * size > len(file._data) - at:
            return []
        order = np.argsort(self._edges, kind="stable")
        edges = self._edges[order]
        found: list[tuple[int, int, int, int, int, int]] = []
        for call in range(1, depth + 1):
            address, *times = _CALL.unpack_from(file._data, at + call * size)
            place = file.place_of(address)
            index = int(np.searchsorted(edges, place))
            if place < 0 or index == len(edges) or edges[index] != place:
                break  # it was being made
            found.append((int(order[index]), *times))
        if found:
            innermost = found[-1][0]
            still = int(self._file.word(self._edges[innermost : innermost + 1], 40)[0])
            if sum(call[0] == innermost for call in found) > still:
                found.pop()  # it has just been counted among those that returned
        return found

    def _open(self, now: int, pending: tuple[int, int]) -> list[tuple[int, int, int, int, int, int, int]]:
        """Return place, total, own, wait, cumulative wait, blocked, cumulative blocked of each open call."""
        thread = self._thread
        wait, blocked = pending
        calls = []
        inner = 0
        stack = self._stack()
        callees = self._place(self._file.half(self._edges, 8))
        for depth in range(len(stack) - 1, -1, -1):
            edge, start, children, wait_at_start, blocked_at_start, _ = stack[depth]
            innermost = depth == len(stack) - 1
            total = now - start
            calls.append(
                (
                    int(callees[edge]),
                    total,
                    total - children - inner,
                    wait if innermost else 0,
                    thread.wait - wait_at_start + wait,
                    blocked if innermost else 0,
                    thread.blocked - blocked_at_start + blocked,
                )
            )
            inner = total
        calls.reverse()
        return calls

    def _read_contexts(self, now: int) -> tuple[types.Contexts, types.Inside]:
        file, thread, at = self._file, self._thread, self._contexts
        half, word = file.half, file.word
        numbers, parents = half(at, 4), half(at, 8)
        if (numbers != np.arange(1, len(at) + 1)).any() or (parents >= numbers).any():
            raise MemberError("damaged: its contexts are in no order")
        opener = self._shown(self._place(half(at, 12)))
        contexts = types.Contexts(parents - 1, half(at, 16), half(at, 20), opener, self._counts(word(at, 24)))
        rows = self._rows
        context = half(rows, 4) - 1
        if len(rows) and not 0 <= int(context.min()) <= int(context.max()) < len(at):
            raise MemberError("damaged: a row's context is not there")
        called = self._place(half(rows, 8))
        own = word(rows, 32)
        open_context = file.place_of(thread.context) if thread.context else -1
        if open_context >= 0 and not thread.ended and thread.top > thread.stack:
            stack = self._stack()
            here = np.flatnonzero(at == open_context)
            if stack and len(here):
                innermost = self._place(half(self._edges[stack[-1][0] : stack[-1][0] + 1], 8))[0]
                own = own + np.where(
                    (context == here[0]) & (called == innermost), now - thread.charged_until, 0
                )
        function = self._shown(called)
        shown = function >= 0
        inside = types.Inside(
            context[shown],
            function[shown],
            self._counts(word(rows, 24))[shown],
            self._seconds(own)[shown],
            self._checked(word(rows, 64) / 1e9)[shown],
            self._checked(word(rows, 80) / 1e9)[shown],
        )
        return contexts, inside

    def _read_paths(self, now: int, calls: Sequence[tuple[int, ...]]) -> types.Paths:
        """Return calling contexts; those of open calls include what these took so far."""
        file, at = self._file, self._paths
        half, word = file.half, file.word
        # Up to the first that was being made; the base, which is no context, has the number 0.
        at = at[: int(np.argmin(np.append(half(at, 4) == np.arange(len(at)), False)))]
        parents, called = half(at, 8), half(at, 12)
        if (parents[1:] >= np.arange(1, len(at))).any() or parents[:1].any() or called[:1].any():
            raise MemberError("damaged: its calling contexts are in no order")
        if not len(at):
            return _NO_PATHS
        count = word(at, 16)
        times = [word(at, offset).astype(np.float64) for offset in (24, 32, 40)]
        for call, (*_, where) in zip(calls, self._stack(), strict=True):
            found = at == file.place_of(where)
            count[found] += 1
            for column, more in zip(times, (call[2], call[3], call[5]), strict=True):
                column[found] += more
        function = np.full(len(at), -1, np.int64)
        passing = np.zeros(len(at), bool)
        known = called > 0
        places = self._place(called[known])
        function[known], passing[known] = self._shown(places), self._is_passing(self._code[places])
        # The agent's own functions are left out, with what they called that is not the target's.
        left_out = known & (function < 0) & ~passing
        while (left_out[parents] & ~left_out).any():
            left_out |= left_out[parents]
        while passing[parents].any():
            parents = np.where(passing[parents], parents[parents], parents)
        left_out[0] = True
        kept = ~(left_out | passing)
        moved = np.cumsum(kept) - 1
        return types.Paths(
            np.where(parents[kept] > 0, moved[parents[kept]], -1),
            function[kept],
            self._counts(count[kept]),
            self._seconds(times[0][kept]),
            self._checked(times[1][kept] / 1e9),
            self._checked(times[2][kept] / 1e9),
        )

    def _shown(self, places: _Ints) -> _Ints:
        """Return the codes of functions, -1 for the agent's and for what is outside every call."""
        codes = self._code[places]
        return np.where((codes >= 0) & ~self._is_own(codes), codes, -1)

    def _is_passing(self, codes: _Ints) -> npt.NDArray[np.bool_]:
        return np.isin(codes, list(self._file._passing))

    def _is_own(self, codes: _Ints) -> npt.NDArray[np.bool_]:
        own = self._file._own
        return own[np.maximum(codes, 0)] & (codes >= 0) if len(own) else np.zeros(len(codes), bool)

    def _made(
        self,
        edges: dict[str, Any],
        functions: dict[str, Any],
        calls: Sequence[tuple[int, ...]],
        contexts: types.Contexts,
        inside: types.Inside,
        paths: types.Paths,
        *,
        measured: bool,
        name: str,
    ) -> ThreadTable:
        """Assemble the table, without the agent's own functions and what they called."""
        code = self._code
        shown = (code >= 0) & ~self._is_own(code)
        own_calls = (code >= 0) & ~shown & ~self._is_passing(code)
        taken = own_calls[edges["caller"]]
        for column, of_edge in (
            ("calls", "calls"),
            ("recursive", "recursive"),
            ("total", "total"),
            ("own", "own"),
            ("wait", "wait"),
            ("blocked", "blocked"),
            ("cumwait", "cumwait"),
            ("cumblocked", "cumblocked"),
        ):
            if taken.any():
                np.subtract.at(functions[column], edges["callee"][taken], edges[of_edge][taken])
                np.maximum(functions[column], 0, out=functions[column])
        rows = shown & np.any([functions[column] > 0 for column in ("calls", "seen", "total", "own")], axis=0)
        used = shown[edges["caller"]] & shown[edges["callee"]]
        used &= np.any([edges[column] > 0 for column in ("calls", "total", "wait", "blocked")], axis=0)
        waiting = self._waiting(functions, shown, calls) if measured else _NO_WAITING
        open_rows = [call for call in calls if shown[call[0]]]
        return ThreadTable(
            native=None if self._thread.n_folded or self._thread.native <= 0 else self._thread.native,
            name=name,
            measured=measured,
            functions=types.Functions(
                code[rows],
                functions["calls"][rows],
                np.minimum(functions["recursive"], functions["calls"])[rows],
                self._seconds(functions["total"])[rows],
                self._seconds(functions["own"])[rows],
            ),
            edges=types.Edges(
                code[edges["caller"]][used],
                code[edges["callee"]][used],
                edges["calls"][used],
                np.minimum(edges["recursive"], edges["calls"])[used],
                self._seconds(edges["total"])[used],
                self._seconds(edges["own"])[used],
            ),
            waiting=waiting,
            open=types.Open(
                np.array([code[call[0]] for call in open_rows], np.int64),
                self._seconds(np.array([call[1] for call in open_rows], np.float64)),
                self._seconds(np.array([call[2] for call in open_rows], np.float64)),
            ),
            contexts=contexts,
            inside=inside,
            paths=paths,
            estimates=self._known(edges, functions, rows) if self._file.bursts.sampled_ns else None,
            tracer_s=float(self._seconds(np.array([self._thread.taken], np.float64))[0]),
            pauses=self._read_pauses(),
            lines=self._read_lines(),
            slices=self._read_slices(),
        )

    def _read_pauses(self) -> types.Pauses:
        """Return the pauses of functions, without the agent's own and what is outside every call."""
        file, at = self._file, self._pauses
        function, what = self._shown(self._place(file.half(at, 4))), file.half(at, 8)
        if len(what) and not 1 <= int(what.min()) <= int(what.max()) <= types.LAST_RANK_CALL:
            raise MemberError("damaged: it has a pause of no kind")
        shown = function >= 0
        seconds, count = self._checked(file.word(at, 16) / 1e9), self._counts(file.word(at, 24))
        return types.Pauses(function[shown], what[shown], seconds[shown], count[shown])

    def _read_lines(self) -> types.Lines:
        """Return the lines in which functions were seen, without those of the agent."""
        file, at = self._file, self._lines
        function, within = (self._shown(self._place(file.half(at, offset))) for offset in (4, 8))
        shown = (function >= 0) & (within >= 0)
        line = np.minimum(file.half(at, 12), _LAST_LINE)
        seconds, count = self._checked(file.word(at, 16) / 1e9), self._counts(file.word(at, 24))
        return types.Lines(function[shown], within[shown], line[shown], seconds[shown], count[shown])

    def _read_slices(self) -> types.Slices:
        """Return the functions of the thread over time, without slices that were being written."""
        file, at = self._file, self._slices
        function, begin, end = (
            self._shown(self._place(file.half(at, 4))),
            file.word(at, 16),
            file.word(at, 24),
        )
        shown = (function >= 0) & (begin >= 0) & (begin < end) & (end <= LAST_NS)
        seconds = self._checked(file.word(at, 32) / 1e9)
        return types.Slices(function[shown], begin[shown], end[shown], seconds[shown])

    def _waiting(
        self, functions: dict[str, Any], shown: npt.NDArray[np.bool_], calls: Sequence[tuple[int, ...]]
    ) -> types.Waiting:
        """Return the waiting of functions, open calls included."""
        columns = ("wait", "cumwait", "blocked", "cumblocked")
        rows = shown & np.any([functions[column] > 0 for column in columns], axis=0)
        found = [
            [int(place), *(int(functions[column][place]) for column in columns)]
            for place in np.flatnonzero(rows)
        ]
        seen: set[int] = set()
        for place, _, _, wait, cumwait, blocked, cumblocked in calls:
            if not shown[place]:
                continue
            again = place in seen  # what a recursive call waited is within what the outer one did
            seen.add(place)
            found.append([place, wait, 0 if again else cumwait, blocked, 0 if again else cumblocked])
        table = np.array(found, np.float64).reshape(-1, 5)
        places = table[:, 0].astype(np.int64)
        return types.Waiting(
            self._code[places], *(self._checked(table[:, column] / 1e9) for column in range(1, 5))
        )


_NO_INTS, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0)
_NO_PATHS = types.Paths(_NO_INTS, _NO_INTS, _NO_INTS, _NO_FLOATS, _NO_FLOATS, _NO_FLOATS)
_NO_WAITING = types.Waiting(_NO_INTS, _NO_FLOATS, _NO_FLOATS, _NO_FLOATS, _NO_FLOATS)


def _empty(pid: int, names: Mapping[int, str]) -> ThreadTable:
    """Return the table of a main thread that has called nothing."""
    ints, floats = _NO_INTS, _NO_FLOATS
    return ThreadTable(
        native=pid or None,
        name=names.get(pid, "MainThread"),
        measured=False,
        functions=types.Functions(ints, ints, ints, floats, floats),
        edges=types.Edges(ints, ints, ints, ints, floats, floats),
        waiting=_NO_WAITING,
        open=types.Open(ints, floats, floats),
        contexts=types.Contexts(ints, ints, ints, ints, ints),
        inside=types.Inside(ints, ints, ints, floats, floats, floats),
        paths=_NO_PATHS,
    )


def _name_and_qualname(text: bytes) -> tuple[str, str]:
    try:
        name, _, qualname = text.decode("utf-8", "surrogatepass").partition("\0")
    except UnicodeDecodeError:
        parts = text.partition(b"\0")
        name, qualname = _text(parts[0]), _text(parts[2])
    return name, qualname


def _is_passing(file: str, name: str) -> bool:
    return name in _PASSING and file == _PASSING_FILE


def _text(text: bytes) -> str:
    """Return a text as the agent's Python had it, with invalid bytes replaced."""
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace")
