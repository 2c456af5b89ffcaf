"""The file of a process's tracer tables, as it was at its end: its header, and where each thread's entries are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from profkit.capture import mapped_layout as layout
from profkit.capture.agent import record_file
from profkit.capture.mapped_estimates import Bursts
from profkit.capture.mapped_names import FileFunctions
from profkit.capture.record_types import SECONDS
from profkit.capture.thread_tables import Codes, Rows
from profkit.formats.codec import MemberError
from profkit.model.arrays import Ints
from profkit.model.bounds import EXACT

#: Least and most plausible nanoseconds of a tick.
_LEAST_RATE, _MOST_RATE = 1e-3, 1e3
#: As in the tracer: a greater error of the rate means that the machine was suspended.
_RATE_TOLERANCE = 0.01
_MOST_THREADS = 2**16

_TIER_KINDS: dict[int, Literal["exact", "sampled"]] = {1: "exact", 2: "sampled"}


@dataclass(frozen=True, slots=True)
class Clock:
    """Conversion of the tracer's ticks to seconds of ``CLOCK_MONOTONIC``."""

    ticks: int
    ns: int
    ns_per_tick: float

    def ticks_at(self, seconds: float) -> int:
        return self.ticks + int((seconds * 1e9 - self.ns) / self.ns_per_tick)

    def seconds_at(self, ticks: int) -> float:
        return (self.ns + (ticks - self.ticks) * self.ns_per_tick) / 1e9


class MappedFile:
    """The file of one process: its `functions`, the `heads` of its threads' tables, and their entries.

    `missed`: not all that was traced found room. `lost_forks` processes that it forked could keep nothing. `tiers`
    begin at seconds of ``CLOCK_MONOTONIC``. `effect` is what capture added to the wall, in seconds, with its
    interval; ``None`` if unknown.
    """

    def __init__(self, data: bytes, *, growing: bool = False) -> None:
        self.growing = growing
        header = layout.read_header(data)
        self._table_bytes = header.table_bytes
        self.call = layout.structure(layout.CALL, header.call_bytes)
        sizes = {kind: getattr(header, f"{name}_bytes") for kind, name in layout.STRUCTURES.items()}
        self._types = {
            kind: layout.structure(fields, (sizes.get(kind, layout.STRIDE) + 15) // 16 * 16)
            for kind, fields in layout.ENTRIES.items()
        }
        #: By kind: size in units of 16 bytes; an unknown kind leads beyond the file.
        self._steps = [layout.MOST_BYTES] * 256
        for kind, entry in self._types.items():
            self._steps[kind] = entry.itemsize // 16
        #: Number of the thread that comes first: the main thread, or that of a block.
        self.first: int = header.thread
        self.clock = _clock(header)
        self._epoch = header.epoch
        self.tiers, self.effect, self.bursts = _tiers(header, data)
        self.lost_forks: int = min(max(0, header.lost_forks), EXACT)
        self._data = data
        self._words: Ints = np.frombuffer(data, "<i8", len(data) // 8)
        self._halves: npt.NDArray[np.uint32] = np.frombuffer(data, "<u4", len(data) // 4)
        extents = [(0, 0, 0)]  # address, bytes, file offset
        blocks = list(layout.blocks(lambda at, count: data[at : at + count], len(data), extents))
        self._extents = np.array(sorted(extents), np.uint64).T
        self.functions = FileFunctions.read(
            (data[block.at : block.at + block.size] for block in blocks if block.kind == layout.BLOCK_NAMES),
            counted=self.bursts.counted,
            growing=growing,
        )
        self._entries: dict[int, list[layout.Block]] = {}
        for block in blocks:
            if block.kind == layout.BLOCK_ENTRIES:
                self._entries.setdefault(block.owner, []).append(block)
        self.heads = self._read_heads([b for b in blocks if b.kind == layout.BLOCK_TABLE])
        self._records = [block for block in blocks if block.kind == layout.BLOCK_RECORD]
        self.missed = header.missed > 0 or any(thread.lost > 0 for thread in self.heads)

    @property
    def codes(self) -> Codes:
        return self.functions.codes

    @property
    def last_event_s(self) -> float | None:
        """Return when a call last began or ended, seconds of ``CLOCK_MONOTONIC``; ``None`` without calls."""
        return max((self.clock.seconds_at(thread.last) for thread in self.heads if thread.last), default=None)

    def records(self) -> Iterator[bytes]:
        """Yield the agent's records that are stored here, the oldest first."""
        for block in self._records:
            data = self._data[block.at : block.at + block.size]
            size = record_file.HEADER_BYTES + int.from_bytes(data[16:24], "little")
            yield data[:size]

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

    def _read_heads(self, blocks: list[layout.Block]) -> list[SimpleNamespace]:
        found = []
        for block in blocks:
            if block.size < self._table_bytes:
                raise MemberError("damaged: it has a table of an impossible size")
            thread = layout.record(layout.TABLE, self._data, block.at)
            times = thread.last, thread.charged_until, thread.taken
            if not all(0 <= time < layout.MOST_TICKS for time in times):
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

    def _entries_in(self, block: layout.Block) -> Ints:
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


def _tiers(
    header: SimpleNamespace, data: bytes
) -> tuple[tuple[tuple[Literal["exact", "sampled"], float], ...], tuple[float, float, float] | None, Bursts]:
    """Return the tiers with their begins, what capture added to the wall, and the bursts."""
    n, spans = header.n_tiers, layout.TIERS.unpack_from(data, layout.TIERS_AT)
    begins, tiers = spans[::2], spans[1::2]
    likely, least, most = effect = [ns / 1e9 for ns in (header.effect_ns, header.least_ns, header.most_ns)]
    times = (*begins, header.sampled_ns, header.burst_ns, header.slowed_ns)
    if (
        not 0 <= n <= layout.MOST_TIERS
        or not all(0 <= time < layout.MOST_TICKS for time in times)
        or any(map(SECONDS.problem, effect))
        or not 0 <= header.bursts <= EXACT
        or any(tier not in _TIER_KINDS for tier in tiers[:n])
    ):
        raise MemberError("damaged: it has tiers that cannot be")
    return (
        tuple((_TIER_KINDS[tier], at / 1e9) for at, tier in zip(begins[:n], tiers[:n], strict=True)),
        (likely, min(least, likely), max(most, likely)) if n else None,
        Bursts(header.sampled_ns, header.bursts, header.burst_ns, header.slowed_ns, bool(header.counted)),
    )


def _clock(header: SimpleNamespace) -> Clock:
    ticks, ns = header.ticks - header.began_ticks, header.ns - header.began_ns
    if not _LEAST_RATE < header.rate < _MOST_RATE or not (
        0 <= header.began_ns < layout.MOST_TICKS and 0 <= header.began_ticks < layout.MOST_TICKS
    ):
        raise MemberError("damaged: it has no clock")
    if not header.counter:
        return Clock(0, 0, 1.0)
    if header.turn % 2 == 0 and ticks > 0 and ns > 0 and max(header.ticks, header.ns) < layout.MOST_TICKS:
        measured = ns / ticks
        known = abs(measured / header.rate - 1) < _RATE_TOLERANCE
        return Clock(header.ticks, header.ns, measured if known else header.rate)
    return Clock(header.began_ticks, header.began_ns, header.rate)
