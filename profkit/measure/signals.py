"""The signals of a comparison: the one object that every reading of the rules is taken from.

Gathered by `verdict.comparison` from the runs' counters and from the table. Nothing is judged here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from profkit.measure import noise
from profkit.measure.counters import SideFacts
from profkit.measure.movement import Movement
from profkit.measure.origins import Origins
from profkit.measure.starvation import Starvation
from profkit.measure.tables import DiffTable

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel
    from profkit.measure.range_stats import RangeChange

#: A shell's exit status of a program that a signal ended: this much and the signal's number, of which there are 64.
SIGNALLED = 128
MOST_SIGNALS = 64


def signal_number(exit_status: int) -> int | None:
    """Number of the signal that ended a program, by its exit status as a shell sees it; ``None`` where none did."""
    return exit_status - SIGNALLED if SIGNALLED < exit_status <= SIGNALLED + MOST_SIGNALS else None


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """Everything that is known of two sides.

    Attributes
    ----------
    total_scatter
        Standard deviation of ln of the ratio of both sides' totals, from their repeats; NaN without.
    lost_throughout
        Whether each of at least three repeats of the candidate took longer than every run of the baseline, and the
        medians differ by more than their noise; false with fewer repeats.
    signs : float64 array
        What the two rankings show of starvation, by `profkit.measure.signs.SIGNS`.
    starved
        How likely those numbers are with and without starvation, weighed by what was learnt on labelled runs.
    noisier
        Mean over functions of ln of the candidate's scatter over the baseline's, over repeats; NaN without.
    ranges, iterations
        NVTX ranges of both sides, and how their iterations go; empty and ``None`` where there are none.
    lump_s
        Median of the lumps that hit small functions, seconds; NaN where none did.
    threads_differ
        One side holds the calls of threads that the other side was not able to see.
    unmatched
        Part of the self time in functions that only one side has, of the side with less of it.
    another_program
        Hardly a function of either project is in the other.
    exits
        Exit status of each side's targets, as a shell sees it: of the first that failed; 0 where all succeeded or
        nothing is known.
    origins
        Where other calls and other costs come from.
    capture_s
        What capture added to the wall of either side, median over its runs; 0 where that is not known of both.
    exact
        Calls and times of both sides are exact.
    """

    baseline: SideFacts
    candidate: SideFacts
    table: DiffTable
    movement: Movement
    rbo: float
    rbo_floor: float
    reordered: bool
    total_variation: float
    identical: bool
    python_differs: bool
    sampled_differs: bool
    threads_differ: bool
    unmatched: float
    total_scatter: float
    signs: npt.NDArray[np.float64]
    starved: Starvation
    noisier: float
    lump_s: float
    origins: Origins
    another_program: bool = False
    lost_throughout: bool = False
    exits: tuple[int, int] = (0, 0)
    ranges: tuple[RangeChange, ...] = ()
    iterations: tuple[IterationModel | None, IterationModel | None] = (None, None)
    capture_s: tuple[float, float] = (0.0, 0.0)
    exact: bool = True

    @property
    def repeats(self) -> int:
        """Runs of the side with fewer."""
        return min(self.baseline.runs, self.candidate.runs)

    @property
    def unfinished(self) -> bool:
        """Whether the targets ended in different ways, or by a signal, or failed before anything was profiled."""
        failed = any(self.exits) and not len(self.table)
        return failed or self.exits[0] != self.exits[1] or any(map(signal_number, self.exits))

    @property
    def counters(self) -> bool:
        """Whether both sides know how long their main threads queued for a CPU."""
        return self.baseline.wait_fraction is not None and self.candidate.wait_fraction is not None

    @property
    def moved(self) -> bool:
        """Whether the order of functions, or the time between them, left the noise."""
        return self.reordered or self.total_variation > noise.TV_P99

    @property
    def cpu_part(self) -> float:
        """Part of the logarithm of the slow-down that the tree's growth in CPU time explains; NaN if unknown."""
        run_a, run_b = self.baseline.own_run_s, self.candidate.own_run_s
        if not run_a or not run_b or self.log_slowdown <= 0:
            return float("nan")
        return min(1.0, max(0.0, math.log(run_b / run_a) / self.log_slowdown))

    @property
    def log_slowdown(self) -> float:
        """`log_walls`, what capture added to the walls left out: the program's own."""
        a, b = (
            (side.wall_s or 0.0) - s
            for side, s in zip((self.baseline, self.candidate), self.capture_s, strict=True)
        )
        return math.log(b / a) if any(self.capture_s) and a > 0 and b > 0 else self.log_walls

    @property
    def log_walls(self) -> float:
        """ln of the candidate's wall over the baseline's; of the totals where a wall is not known."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0
