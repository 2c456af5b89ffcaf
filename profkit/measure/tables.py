"""What the measurements of two sides return: tables of functions, rankings, summaries. Holds data, computes nothing.

Tables are columns over the functions of both sides, ordered by what the user sorted by, so that a renderer
only slices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from profkit.measure.estimates import UNSEEN
from profkit.measure.intervals import Estimate
from profkit.measure.inventory import Inventory
from profkit.model import FunctionKey, Neighbours, Notice

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SideTable:
    """One side's columns of a `DiffTable`; where ``present`` is false the other columns are 0 (rank too).

    Attributes
    ----------
    present : bool array, shape (n,)
    rank : int64 array, shape (n,)
        1 is the function with the most of what the table is ranked by: active self time, or cumtime.
    ncalls, primitive_calls, tottime, cumtime : arrays, shape (n,)
        Over replicates: medians, counts rounded to integers. Seconds.
    active : float64 array, shape (n,)
        Self time, less what was off the CPU without queueing where tracers of both sides measured that. Seconds.
    share : float64 array, shape (n,)
        Of this side's own total active time, 0 to 1 (of the largest cumtime when ranked by cumtime).
    wait, cumwait : float64 array, shape (n,), or None
        Seconds queued for a CPU, of self time and including callees, where a tracer measured it.
    calls_low, calls_high, samples, tottime_error : arrays, shape (n,), or None
        How well calls and self time are known, as in `profkit.model.Profile`; ``None`` where all is exact. Calls of a
        function that the side may have missed are not known (NaN).
    """

    present: npt.NDArray[np.bool_]
    rank: Ints
    ncalls: Ints
    primitive_calls: Ints
    tottime: Floats
    cumtime: Floats
    active: Floats
    share: Floats
    wait: Floats | None = None
    cumwait: Floats | None = None
    calls_low: Floats | None = None
    calls_high: Floats | None = None
    samples: Ints | None = None
    tottime_error: Floats | None = None

    @property
    def estimates(self) -> tuple[Floats, Floats, Ints, Floats]:
        """Limits of calls, samples, and errors of self times; also where all is exact."""
        low, high, samples, error = self.calls_low, self.calls_high, self.samples, self.tottime_error
        if low is None or high is None or samples is None or error is None:
            calls, none = self.ncalls.astype(np.float64), np.zeros(len(self.ncalls))
            return calls, calls, none.astype(np.int64), none
        return low, high, samples, error

    def estimate(self, row: int) -> tuple[float, float, int, float]:
        """Return what `estimates` has of one function."""
        if self.calls_low is None:
            return float(self.ncalls[row]), float(self.ncalls[row]), 0, 0.0
        low, high, samples, error = self.estimates
        return float(low[row]), float(high[row]), int(samples[row]), float(error[row])


@dataclass(frozen=True, slots=True, eq=False)
class DiffTable:
    """Functions of both sides; rows are ordered by the change in seconds, greatest absolute change first.

    Attributes
    ----------
    keys
        Identity of each row.
    name
        As reports show it: ``qualname`` where known, else the name.
    file, line
        As the candidate has it, else the baseline.
    match
        A rung of `RUNGS`, ``new`` (candidate only), ``gone`` (baseline only), or ``unseen``: only one side has it,
        and the other was sampled and may have missed it.
    per_call_ratio : float64 array, shape (n,)
        Candidate's over baseline's self time per call; NaN where either has none, or calls are not known well enough.
    same_source
        True or False where both sides hash the function's source, else ``None``.
    anomalous
        Moved beyond the noise that the rows themselves show.
    p_value : float64 array, shape (n,)
        NaN where the number of runs permits none.
    by_share
        A side was sampled: times are shares of the baseline's total, and calls (0 here) are not known.
    """

    keys: tuple[FunctionKey, ...]
    name: tuple[str, ...]
    file: tuple[str, ...]
    line: tuple[int, ...]
    match: tuple[str, ...]
    baseline: SideTable
    candidate: SideTable
    per_call_ratio: Floats
    same_source: tuple[bool | None, ...]
    anomalous: npt.NDArray[np.bool_]
    p_value: Floats
    by_share: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def one_sided(self) -> npt.NDArray[np.bool_]:
        """Rows that only one side has, and that the other would have seen."""
        alone: npt.NDArray[np.bool_] = ~(self.baseline.present & self.candidate.present)
        alone[[row for row in np.flatnonzero(alone).tolist() if self.match[row] == UNSEEN]] = False
        return alone


@dataclass(frozen=True, slots=True)
class SideSummary:
    """What heads a side of the report; medians over its runs, ``None`` where not known.

    Attributes
    ----------
    inventory
        Thread pools, workers and CPUs of its first run.
    command, environment
        What its first run ran, and the variables recorded of it.
    neighbours
        Who else ran while it queued.
    """

    label: str
    runs: int
    files: tuple[str, ...]
    wall_s: float | None
    cpu_s: float | None
    total_s: float
    run_queue_wait_s: float | None
    host: str | None
    python: str | None
    processes: int
    skipped: tuple[Notice, ...] = ()
    inventory: Inventory | None = None
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    neighbours: Neighbours | None = None


@dataclass(frozen=True, slots=True)
class Comparability:
    """How far the two sides can be compared: 1 is alike in all that is known."""

    score: float
    warnings: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How far the order of functions moved.

    Attributes
    ----------
    by
        ``tottime`` or ``cumtime``.
    rbo
        Rank-biased overlap *distance* of the top 50, p = 0.9 (Webber et al. 2010): 0 alike, 1 disjoint.
    total_variation
        Half the sum of absolute differences of self-time shares.
    reordered
        Beyond `noise_floor`.
    noise_floor
        The RBO distance that clean repeats of one program reach.
    rbo_interval
        95 % bootstrap interval of `rbo` over the replicates; NaN below three runs a side.
    displacement
        Mean of |ln(rank / rank)| over heavy functions, weighted by share, with its interval; ``None`` where no
        order was compared.
    """

    by: str
    rbo: float
    total_variation: float
    reordered: bool
    noise_floor: float
    rbo_interval: tuple[float, float] = (math.nan, math.nan)
    displacement: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Residue:
    """What only one side has: how many functions, and their share of that side's self time."""

    baseline_only: int
    candidate_only: int
    baseline_only_share: float
    candidate_only_share: float
