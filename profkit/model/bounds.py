"""Bounds of the numbers in a record, as part of its field types (``wall_s: Seconds``).

Readers refuse other numbers (objects: ``formats.codec``, columns: `model.columns.check_columns`) and writers
omit them, so later code can add, divide and print without checks. Text is limited in ``formats.limits``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Floats, Ints

#: Up to this, float64 and every JSON reader keep whole numbers exact. So many calls would take years.
EXACT = 1 << 53
#: Greatest clock time, nanoseconds: 73 years. Sums and differences of two fit into 64 bits.
LAST_NS = 1 << 61
#: Longest duration, seconds: 30 000 years. Sums, and products of a few, stay finite.
MOST_S = 1e12
#: Smallest number other than 0. Subtracting times leaves at least 1e-9 × 2**-53 = 1e-25, and a share of that
#: is hardly less than its square. Products of four ratios of such times are finite.
TINY = 1e-60


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number, or each number of a column, can be.

    Attributes
    ----------
    least, most
        Limits, both included.
    tiny
        Least absolute value of numbers other than 0.
    nan
        Whether NaN is allowed.
    """

    least: float
    most: float
    tiny: float = 0.0
    nan: bool = False

    def problem(self, value: float) -> str:
        """Return what is wrong with a number, as words to follow its name; empty if nothing is."""
        if value != value:
            return "" if self.nan else "is not a number"
        if not self.least <= value <= self.most:
            return f"is {value:g}, not between {self.least:g} and {self.most:g}"
        return f"is {value:g}, too small to be measured" if 0 < abs(value) < self.tiny else ""

    def problem_in(self, values: npt.NDArray[Any]) -> str:
        """Return what is wrong with the numbers of a column; empty if nothing is."""
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
    """Return the bounds of a type, ``None`` if it has none."""
    notes = getattr(type_, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Bounds)), None)


Seconds = Annotated[float, Bounds(0, MOST_S, TINY)]
#: Profiler times. They may be negative: some profilers subtract too much for their own cost, or mix threads.
SignedSeconds = Annotated[float, Bounds(-MOST_S, MOST_S, TINY)]
#: Clock time, seconds.
Moment = Annotated[float, Bounds(0, LAST_NS / 1e9, TINY)]
MomentNs = Annotated[int, Bounds(0, LAST_NS)]
Count = Annotated[int, Bounds(0, EXACT)]
#: Process or thread id.
Id = Annotated[int, Bounds(0, EXACT)]
Rank = Annotated[int, Bounds(0, 1 << 31)]
Cpus = Annotated[int, Bounds(0, 1 << 20)]
#: Cores (a quota may be a fraction), or an average number of tasks.
Amount = Annotated[float, Bounds(0, 1 << 20, TINY)]
#: As a shell reports it, or as Windows does, where it may be negative.
ExitStatus = Annotated[int, Bounds(-(1 << 31), 1 << 32)]

#: Counts of a column.
Counts = Annotated[Ints, Bounds(0, EXACT)]
#: Limits of the interval of a count; NaN where the count is not known.
CallLimits = Annotated[Floats, Bounds(0, EXACT, TINY, nan=True)]
#: Non-recursive calls. Negative where cProfile, from Python 3.12 on, sees several threads in one stack and
#: subtracts too many recursive calls.
PrimitiveCounts = Annotated[Ints, Bounds(-EXACT, EXACT)]
#: Thread ids.
Ids = Annotated[Ints, Bounds(0, EXACT)]
#: Seconds, which may be negative.
Times = Annotated[Floats, Bounds(-MOST_S, MOST_S, TINY)]
#: Half widths of the intervals of times, seconds.
Errors = Annotated[Floats, Bounds(0, MOST_S, TINY)]
#: Seconds, which may be negative; NaN where not measured.
Waits = Annotated[Floats, Bounds(-MOST_S, MOST_S, TINY, nan=True)]
#: Clock times, nanoseconds.
Moments = Annotated[Ints, Bounds(0, LAST_NS)]
#: The same; −1 for what did not end.
Ends = Annotated[Ints, Bounds(-1, LAST_NS)]
#: Counter readings; NaN where a reading failed.
Readings = Annotated[Floats, Bounds(-1e18, 1e18, TINY, nan=True)]
