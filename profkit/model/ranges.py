"""NVTX ranges and marks of one process as columns; this file says what they are.

Rows are ranges (and marks), in the order in which they began within each thread. Names are indices into one
string table. Nothing here reads files or sums anything up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.model.columns import column_dtypes
from profkit.model.profile import Index, Ints, ProfileError

__all__ = ["MARK", "OPEN", "PAYLOAD_TYPES", "PUSHED", "STARTED", "Ranges"]

Bytes = npt.NDArray[np.uint8]

#: Values of `Ranges.kind`: pushed and popped on one thread, started and ended anywhere, one moment.
PUSHED, STARTED, MARK = 0, 1, 2
#: `Ranges.end_ns` of a range that was never ended.
OPEN = -1
#: What the eight bytes of `Ranges.payload` hold, by `Ranges.payload_type`; 0 is no payload.
PAYLOAD_TYPES = ("", "<u8", "<i8", "<f8", "<u4", "<i4", "<f4")


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """NVTX ranges and marks of one process.

    Attributes
    ----------
    strings : tuple of str
        The string table; entry 0 is the empty string: no name, the default domain, no category.
    name, domain, category : int32 array, shape (n,)
        Indices into `strings`.
    kind : uint8 array, shape (n,)
        `PUSHED`, `STARTED` or `MARK`.
    thread : int64 array, shape (n,)
        The system's id of the thread in which it began.
    begin_ns, end_ns : int64 array, shape (n,)
        ``CLOCK_MONOTONIC``, nanoseconds; `end_ns` is `OPEN` for a range without end, and `begin_ns` for a mark.
    parent : int32 array, shape (n,)
        Row of the innermost pushed range around a pushed range, −1 without one.
    color : uint32 array, shape (n,)
        ARGB, 0 for none.
    payload_type : uint8 array, shape (n,)
        Index into `PAYLOAD_TYPES`.
    payload : uint64 array, shape (n,)
        The payload's bytes, little-endian.
    monotonic_ns, realtime_ns
        Both clocks at one moment, 0 where it is not known.
    lost
        Events that found no room (a full disk, the limit on a process's events).
    folded
        Events whose names came after the limit on different names: their digits are replaced by ``{n}``.
    unmatched
        Ends without a beginning: pops of an empty stack, ids that are no open range's.
    """

    strings: tuple[str, ...]
    name: Index
    domain: Index
    category: Index
    kind: Bytes
    thread: Ints
    begin_ns: Ints
    end_ns: Ints
    parent: Index
    color: npt.NDArray[np.uint32]
    payload_type: Bytes
    payload: npt.NDArray[np.uint64]
    monotonic_ns: int = 0
    realtime_ns: int = 0
    lost: int = 0
    folded: int = 0
    unmatched: int = 0

    def __len__(self) -> int:
        return len(self.name)

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Whether each row is a range with both ends: what has a duration."""
        ended: npt.NDArray[np.bool_] = (self.kind != MARK) & (self.end_ns != OPEN)
        return ended

    @property
    def duration_s(self) -> npt.NDArray[np.float64]:
        """Seconds from begin to end; NaN where a range has no end, 0 for marks."""
        seconds = (self.end_ns - self.begin_ns) / 1e9
        return np.where(self.end_ns == OPEN, np.nan, seconds)

    def validate(self) -> Ranges:
        """Check that the columns fit each other, and return the ranges themselves.

        Raises
        ------
        ProfileError
            A column has another length or dtype than the others, or points outside its table.
        """
        n = len(self.name)
        if not self.strings or self.strings[0]:
            raise ProfileError("the string table of the ranges does not start with the empty string")
        for column, dtype in column_dtypes(Ranges).items():
            values = getattr(self, column)
            if values.dtype != dtype or values.shape != (n,):
                raise ProfileError(f"ranges: {column} is not a column of {n} {dtype.name}")
        if not n:
            return self
        for column in ("name", "domain", "category"):
            values = getattr(self, column)
            if values.min() < 0 or values.max() >= len(self.strings):
                raise ProfileError(f"ranges: {column} points outside the string table")
        if self.parent.min() < -1 or self.parent.max() >= n:
            raise ProfileError("ranges: parent points outside the ranges")
        if self.kind.max() > MARK or self.payload_type.max() >= len(PAYLOAD_TYPES):
            raise ProfileError("ranges: a kind or payload type is not known")
        if ((self.end_ns != OPEN) & (self.end_ns < self.begin_ns)).any():
            raise ProfileError("ranges: one ends before it begins")
        return self
