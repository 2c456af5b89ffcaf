"""What is known of a comparison: the one object that every rule of the diagnosis reads.

Gathered by `diff` from the runs' counters and from the table. Nothing is judged here.
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
from profkit.measure.starvation import Starvation
from profkit.measure.tables import DiffTable

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel
    from profkit.measure.range_stats import RangeChange

__all__ = ["Facts", "Growth"]


@dataclass(frozen=True, slots=True)
class Growth:
    """Where the main threads' added time went: parts of it, which sum to 1; negative where one shrank.

    Attributes
    ----------
    seconds
        Added to the life of an average main thread.
    run, wait, off
        On a CPU, queueing for one, and neither.
    hidden_wait
        Part of all added time that is `off` because the program's other threads and processes queued.
    """

    seconds: float
    run: float
    wait: float
    off: float
    hidden_wait: float


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Everything that a rule may look at.

    Attributes
    ----------
    total_scatter
        Standard deviation of ln of the ratio of both sides' totals, from their repeats; NaN without.
    signs : float64 array
        What the two rankings show of starvation, by `profkit.measure.signs.SIGNS`.
    starved
        How likely those numbers are with and without starvation, weighed by what was learnt on labelled runs.
    noisier
        Mean over functions of ln of the candidate's scatter over the baseline's, over repeats; NaN without.
    ranges, iterations
        NVTX ranges of both sides, and how their iterations go; empty and ``None`` where nothing tells.
    lump_s
        Median of the lumps that hit small functions, seconds; NaN where none did.
    threads_differ
        One side holds the calls of threads that the other side was not able to see.
    unmatched
        Part of the self time in functions that only one side has, of the side with less of it.
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
    ranges: tuple[RangeChange, ...] = ()
    iterations: tuple[IterationModel | None, IterationModel | None] = (None, None)

    @property
    def repeats(self) -> int:
        """Runs of the side with fewer."""
        return min(self.baseline.runs, self.candidate.runs)

    @property
    def counters(self) -> bool:
        """Whether both sides know how long their main threads queued for a CPU."""
        return self.baseline.wait_fraction is not None and self.candidate.wait_fraction is not None

    @property
    def growth(self) -> Growth | None:
        """Where the added time went; ``None`` without counters, or where nothing was added."""
        a, b = _life(self.baseline), _life(self.candidate)
        if a is None or b is None:
            return None
        run, wait, off = (after - before for before, after in zip(a, b, strict=True))
        added = run + wait + off
        if added <= 0:
            return None
        hidden = 0.0
        if off > 0:
            rest_run = _rise(self.baseline.rest_run_s, self.candidate.rest_run_s)
            rest_wait = _rise(self.baseline.rest_wait_s, self.candidate.rest_wait_s)
            # Whoever was waited for spent that time running or queueing; only the latter is want of a CPU.
            hidden = off / added * rest_wait / (rest_wait + rest_run) if rest_wait > 0 else 0.0
            hidden *= min(1.0, (rest_wait + rest_run) / off)
        return Growth(added, run / added, wait / added, off / added, hidden)

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
        """ln of the candidate's wall over the baseline's; of the totals where a wall is not known."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0


def _life(side: SideFacts) -> tuple[float, float, float] | None:
    """Seconds on a CPU, queueing and neither, of an average main thread."""
    if side.main_run_s is None or side.main_wait_s is None or side.main_off_s is None:
        return None
    count = max(1, side.mains)
    return side.main_run_s / count, side.main_wait_s / count, side.main_off_s / count


def _rise(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else max(0.0, after - before)
