"""What is known of a comparison: the one object that every rule of the diagnosis reads.

Gathered by `diff` from the runs' counters and from the table. Nothing is judged here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from profkit.analysis import noise
from profkit.analysis.counters import SideFacts
from profkit.analysis.movement import Movement
from profkit.analysis.types import DiffTable

__all__ = ["Facts"]


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Everything that a rule may look at.

    Attributes
    ----------
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
        """ln of the candidate's wall over the baseline's; of the totals where a wall is not known."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0
