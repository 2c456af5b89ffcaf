"""NVTX ranges and marks of one process as columns, in order of their beginnings within each thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Bools, Floats, Index, Rows
from profkit.model.bounds import Count, Ends, Ids, MomentNs, Moments
from profkit.model.columns import ProfileError, check_columns, check_indices

Bytes = npt.NDArray[np.uint8]

#: Values of `Ranges.kind`: pushed and popped on one thread; started and ended anywhere; a moment.
PUSHED, STARTED, MARK = 0, 1, 2
#: `Ranges.end_ns` of a range that never ended.
OPEN = -1
#: Types of the eight bytes of `Ranges.payload`, by `Ranges.payload_type`; 0 is no payload.
PAYLOAD_TYPES = ("", "<u8", "<i8", "<f8", "<u4", "<i4", "<f4")


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """NVTX ranges and marks of one process.

    Attributes
    ----------
    strings : tuple of str
        The string table. Entry 0 is the empty string: no name, the default domain, no category.
    name, domain, category : int32 array, shape (n,)
        Indices into `strings`.
    kind : uint8 array, shape (n,)
        `PUSHED`, `STARTED` or `MARK`.
    thread : int64 array, shape (n,)
        System id of the thread in which it began.
    begin_ns, end_ns : int64 array, shape (n,)
        ``CLOCK_MONOTONIC``, nanoseconds; `end_ns` is `OPEN` for a range without end, and `begin_ns` for a
        mark.
    parent : int32 array, shape (n,)
        Row of the innermost pushed range around a pushed range, −1 for none.
    color : uint32 array, shape (n,)
        ARGB, 0 for none.
    payload_type : uint8 array, shape (n,)
        Index into `PAYLOAD_TYPES`.
    payload : uint64 array, shape (n,)
        The payload's bytes, little-endian.
    monotonic_ns, realtime_ns
        Both clocks at one moment, 0 if not known.
    lost
        Events dropped for lack of space (full disk, limit of events per process).
    folded
        Events whose names exceeded the limit of different names: their digits are replaced by ``{n}``.
    unmatched
        Ends without a beginning: pops of an empty stack, ids of no open range.
    """

    strings: tuple[str, ...]
    name: Index
    domain: Index
    category: Index
    kind: Bytes
    thread: Ids
    begin_ns: Moments
    end_ns: Ends
    parent: Index
    color: npt.NDArray[np.uint32]
    payload_type: Bytes
    payload: npt.NDArray[np.uint64]
    monotonic_ns: MomentNs = 0
    realtime_ns: MomentNs = 0
    lost: Count = 0
    folded: Count = 0
    unmatched: Count = 0

    def __len__(self) -> int:
        return len(self.name)

    @property
    def ended(self) -> Bools:
        """Whether each row is a range with both ends, and so has a duration."""
        ended: Bools = (self.kind != MARK) & (self.end_ns != OPEN)
        return ended

    @property
    def duration_s(self) -> Floats:
        """Seconds from begin to end; NaN for a range without end, 0 for a mark."""
        seconds = (self.end_ns - self.begin_ns) / 1e9
        return np.where(self.end_ns == OPEN, np.nan, seconds)

    def payloads(self, rows: Rows) -> Iterator[tuple[Rows, npt.NDArray[Any]]]:
        """Yield the payloads in some rows, those of one type at a time, with their places in `rows`."""
        types = self.payload_type[rows]
        for number in np.unique(types[types != 0]).tolist():
            at, dtype = np.flatnonzero(types == number), np.dtype(PAYLOAD_TYPES[number])
            yield at, self.payload[rows[at]].astype("<u8").view(dtype)[:: 8 // dtype.itemsize]

    def validate(self) -> Ranges:
        """Check the columns against each other; return the ranges.

        Raises
        ------
        ProfileError
            A column has a wrong length or dtype, an index out of its table, or an impossible number.
        """
        if not self.strings or self.strings[0]:
            raise ProfileError("the string table of the ranges does not start with the empty string")
        n = len(self)
        check_columns(self, n, "ranges")
        check_indices(self, "ranges", ("name", "domain", "category"), len(self.strings))
        check_indices(self, "ranges", ("kind",), MARK + 1)
        check_indices(self, "ranges", ("payload_type",), len(PAYLOAD_TYPES))
        if (self.parent < -1).any() or (self.parent >= np.arange(n)).any():
            raise ProfileError("ranges: one is inside a later one")
        if ((self.end_ns != OPEN) & (self.end_ns < self.begin_ns)).any():
            raise ProfileError("ranges: one ends before it begins")
        return self
