"""What numbers of a record can be, as part of the types of its fields.

A field says it once, by its type: ``wall_s: Seconds``. Readers refuse other numbers at the boundary
(``formats.codec`` those of objects, `model.columns.check_columns` those of columns), and writers leave them out, so
that what is behind them may add, divide and print whatever it gets. Text has no bounds of its own:
``formats.limits`` bounds how much of it a file may hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

#: Greatest whole number up to which a float64, and every reader of JSON, keeps each exact; as many calls take years.
EXACT = 1 << 53
#: Greatest time of a clock, nanoseconds: 73 years. The sum and the difference of two such times fit into 64 bits.
LAST_NS = 1 << 61
#: Most seconds that anything lasts, 30 000 years: no sum of them is infinite, nor are products of a few.
_MOST_S = 1e12
#: Smallest number that is not 0. What is left of a subtraction of times is 1e-9 × 2**-53 = 1e-25 at least, and a
#: share of it hardly less than its square. Products of four ratios of such times are finite.
TINY = 1e-60


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number, or each number of a column, can be.

    Attributes
    ----------
    least, most
        The least and the greatest.
    tiny
        Numbers other than 0 are not nearer to it than this.
    nan
        Whether NaN is possible as well.
    """

    least: float
    most: float
    tiny: float = 0.0
    nan: bool = False

    def problem(self, value: float) -> str:
        """Return what is wrong with a number, in words that go behind its name; empty where nothing is."""
        if value != value:
            return "" if self.nan else "is not a number"
        if not self.least <= value <= self.most:
            return f"is {value:g}, not between {self.least:g} and {self.most:g}"
        return f"is {value:g}, too small to be measured" if 0 < abs(value) < self.tiny else ""

    def problem_in(self, values: npt.NDArray[Any]) -> str:
        """Return what is wrong with the numbers of a column; empty where nothing is."""
        if not len(values):
            return ""
        right = (values >= self.least) & (values <= self.most)
        if self.tiny:
            right &= (values == 0) | (np.abs(values) >= self.tiny)
        if self.nan:
            right |= np.isnan(values)
        (wrong,) = np.nonzero(~right)
        return f"{self.problem(values[wrong[0]].item())}, in row {wrong[0]}" if len(wrong) else ""


def bounds_of(type_: Any) -> Bounds | None:
    """Return the bounds that a type has, ``None`` where it has none."""
    notes = getattr(type_, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Bounds)), None)


Seconds = Annotated[float, Bounds(0, _MOST_S, TINY)]
#: What a profiler found: those that take off their own cost, or mix threads, take off too much.
SignedSeconds = Annotated[float, Bounds(-_MOST_S, _MOST_S, TINY)]
#: Of a clock: seconds since it began.
Moment = Annotated[float, Bounds(0, LAST_NS / 1e9, TINY)]
MomentNs = Annotated[int, Bounds(0, LAST_NS)]
Count = Annotated[int, Bounds(0, EXACT)]
#: A number of the system's for a process or a thread.
Id = Annotated[int, Bounds(0, EXACT)]
Rank = Annotated[int, Bounds(0, 1 << 31)]
Cpus = Annotated[int, Bounds(0, 1 << 20)]
#: Cores, which a quota divides; tasks, which an average does.
Amount = Annotated[float, Bounds(0, 1 << 20, TINY)]
#: As a shell has it, or as Windows has it, where it may be negative.
ExitStatus = Annotated[int, Bounds(-(1 << 31), 1 << 32)]

#: Counts of a column.
Counts = Annotated[npt.NDArray[np.int64], Bounds(0, EXACT)]
#: Limits of an interval of a count; NaN where the count is not known.
CallLimits = Annotated[npt.NDArray[np.float64], Bounds(0, EXACT, TINY, nan=True)]
#: Calls that were not recursive. cProfile takes the recursive ones off all calls; where it sees several threads in
#: one stack (from Python 3.12 on), it takes off too many.
PrimitiveCounts = Annotated[npt.NDArray[np.int64], Bounds(-EXACT, EXACT)]
#: Numbers of threads.
Ids = Annotated[npt.NDArray[np.int64], Bounds(0, EXACT)]
#: Seconds of a column, which may be negative as well.
Times = Annotated[npt.NDArray[np.float64], Bounds(-_MOST_S, _MOST_S, TINY)]
#: Half the widths of their intervals.
Errors = Annotated[npt.NDArray[np.float64], Bounds(0, _MOST_S, TINY)]
#: Seconds of a column, which may be negative; NaN where it was not measured.
Waits = Annotated[npt.NDArray[np.float64], Bounds(-_MOST_S, _MOST_S, TINY, nan=True)]
#: Times of a clock, nanoseconds.
Moments = Annotated[npt.NDArray[np.int64], Bounds(0, LAST_NS)]
#: The same; −1 for what did not end.
Ends = Annotated[npt.NDArray[np.int64], Bounds(-1, LAST_NS)]
#: Whatever a counter can say; NaN where a reading failed.
Readings = Annotated[npt.NDArray[np.float64], Bounds(-1e18, 1e18, TINY, nan=True)]
