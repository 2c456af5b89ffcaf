"""The signals of a comparison: the one object that every reading of the rules is taken from.

`verdict.diagnosis` gathers it from the runs' counters and from the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from profkit.compare.movement import Movement
from profkit.compare.origins import Origins
from profkit.compare.result_types import DiffTable
from profkit.compare.starvation import Starvation
from profkit.compare.starvation_signs import Lumps
from profkit.measure import noise
from profkit.measure.side_facts import SideFacts

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel
    from profkit.measure.range_stats import RangeChange

#: A shell's exit status of a program that a signal ended: this much and the signal's number, of which there are 64.
SIGNALLED = 128
MOST_SIGNALS = 64


def signal_number(exit_status: int) -> int | None:
    """Return the signal that ended a program, from its exit status as a shell sees it; ``None`` for none."""
    return exit_status - SIGNALLED if SIGNALLED < exit_status <= SIGNALLED + MOST_SIGNALS else None


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """Everything that is known of two sides.

    `total_scatter` is the standard deviation of ln of the ratio of totals, and `noisier` the mean over
    functions of ln of candidate's over baseline's scatter, both from repeats, else NaN. `lost_throughout`: at
    least three repeats of the candidate each took longer than every baseline run, with medians beyond their
    noise. `signs` has the order of `profkit.compare.starvation_signs.SIGNS`; `lumps` are the slices lost.

    `threads_differ`: one side has calls of threads that the other could not see. `unmatched` is the part of
    self time in functions of one side only, of the side with less of it. `exits` are as a shell sees them, of
    the first target that failed; 0 also if not known. `capture_s` was added to each wall, 0 if not known of
    both.
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
    lumps: Lumps
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
        """Part of ln of the slow-down that the tree's growth in CPU time explains; NaN if unknown."""
        run_a, run_b = self.baseline.own_run_s, self.candidate.own_run_s
        if not run_a or not run_b or self.log_slowdown <= 0:
            return float("nan")
        return min(1.0, max(0.0, math.log(run_b / run_a) / self.log_slowdown))

    @property
    def log_slowdown(self) -> float:
        """`log_walls` of the program alone, without what capture added."""
        a, b = (
            (side.wall_s or 0.0) - s
            for side, s in zip((self.baseline, self.candidate), self.capture_s, strict=True)
        )
        return math.log(b / a) if any(self.capture_s) and a > 0 and b > 0 else self.log_walls

    @property
    def log_walls(self) -> float:
        """Return ln of the candidate's wall over the baseline's; of the totals where one is unknown."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0
