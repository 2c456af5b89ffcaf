"""Results of measuring two sides: tables of functions, rankings, summaries. Data only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.identity.lookup_columns import rows_in, rows_where
from profkit.identity.readable_names import readable_name
from profkit.measure.intervals import Estimate
from profkit.measure.inventory import Inventory
from profkit.measure.waits_by_name import is_native, is_wait
from profkit.model import FunctionKey, Neighbours, Notice
from profkit.model.arrays import Bools, Floats, Ints

#: `DiffTable.match` of a row that one side lacks and may have missed.
UNSEEN = "unseen"
#: `DiffTable.match` of a row that one side defines, as neighbouring definitions show, but did not call.
UNCALLED = "uncalled"


@dataclass(frozen=True, slots=True, eq=False)
class SideTable:
    """One side's columns of a `DiffTable`, shape (n,): medians in seconds, 0 if not `present`.

    `rank` is 1 for the most `active` time (self time on a CPU, queueing or waiting for busy native threads,
    where both sides measured that), or the most cumtime; `share` is the part of total active time, or of the
    largest cumtime.
    `wait` and `cumwait` are queueing. Columns from `calls_low` on are as in `profkit.model.Profile`: ``None``
    where all is exact, NaN for calls of functions that may have been missed.
    """

    present: Bools
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
        """Limits of calls, samples, and errors of self times; defined also where all is exact."""
        low, high, samples, error = self.calls_low, self.calls_high, self.samples, self.tottime_error
        if low is None or high is None or samples is None or error is None:
            calls, none = self.ncalls.astype(np.float64), np.zeros(len(self.ncalls))
            return calls, calls, none.astype(np.int64), none
        return low, high, samples, error

    def estimate(self, row: int) -> tuple[float, float, int, float]:
        if self.calls_low is None:
            return float(self.ncalls[row]), float(self.ncalls[row]), 0, 0.0
        low, high, samples, error = self.estimates
        return float(low[row]), float(high[row]), int(samples[row]), float(error[row])


@dataclass(frozen=True, slots=True, eq=False)
class DiffTable:
    """Functions of both sides, greatest absolute change in seconds first.

    `name` is the ``qualname`` where known; `file` and `line` are the candidate's, else the baseline's.
    `match` is a rung of `RUNGS`, ``new``, ``gone``, ``uncalled`` (one side defines but did not call it), or
    ``unseen`` (one side was sampled and may have missed it). `per_call_ratio` is candidate over baseline self
    time per call, NaN where unknown. `same_source` comes from source hashes or from shifted definitions, else
    ``None``; `added_lines` counts the shift, 0 where not seen. `anomalous` rows moved beyond their noise.
    `p_value` is NaN with too few runs. `by_share`: a side was sampled, times are shares of the baseline's
    total, and calls are 0.
    """

    keys: Sequence[FunctionKey]
    name: Sequence[str]
    file: Sequence[str]
    line: Sequence[int]
    match: Sequence[str]
    baseline: SideTable
    candidate: SideTable
    per_call_ratio: Floats
    same_source: Sequence[bool | None]
    added_lines: Ints
    anomalous: Bools
    p_value: Floats
    by_share: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def one_sided(self) -> Bools:
        """Rows that one side lacks and would have seen."""
        both = self.baseline.present & self.candidate.present
        return ~both & ~rows_where(self.match, lambda match: match == UNSEEN)

    @property
    def uncalled(self) -> Bools:
        """Rows that one side defines but did not call."""
        return rows_where(self.match, lambda match: match == UNCALLED)

    @property
    def differs(self) -> Bools:
        """Rows whose source is known on both sides and differs."""
        return rows_where(self.same_source, lambda same: same is False)

    @property
    def sources_known(self) -> bool:
        """Whether any function's source is known on both sides."""
        return bool(rows_where(self.same_source, lambda same: same is not None).any())

    @property
    def native(self) -> Bools:
        """Rows whose name begins with "<": native functions, but also module bodies and lambdas."""
        return rows_where(self.name, is_native)

    @property
    def new(self) -> Bools:
        """Rows that the baseline lacks and would have seen."""
        return rows_where(self.match, lambda match: match == "new")

    def waits(self, row: int) -> bool:
        """Return whether a function waits by design."""
        return is_wait(self.name[row], self.keys[row].root)

    def shown(self, row: int) -> str:
        """Return the readable name of a function, empty for the row −1."""
        return readable_name(self.name[row]) if row >= 0 else ""

    def in_roots(self, *roots: str) -> Bools:
        """Return the rows of functions under some of `profkit.model.ROOTS`."""
        return rows_in(self.keys, *roots)


@dataclass(frozen=True, slots=True)
class SideSummary:
    """Facts about a side for a report: medians over its runs, or the first run's; ``None`` where unknown."""

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
    """How far the two sides can be compared; score 1 means no known difference."""

    score: float
    warnings: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How far the order of functions by `by` moved.

    `rbo` is the rank-biased overlap *distance* of the top 50, p = 0.9 (Webber et al. 2010): 0 alike, 1
    disjoint. `rbo_interval` is its 95 % bootstrap interval, NaN below three runs a side; beyond
    `noise_floor`, the distance of clean repeats, it is `reordered`. `total_variation` is half the sum of
    absolute differences of shares. `displacement` is the mean |ln(rank / rank)| of heavy functions weighted
    by share, ``None`` if not compared.
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
    """Number of functions that only one side has, and their share of that side's self time."""

    baseline_only: int
    candidate_only: int
    baseline_only_share: float
    candidate_only_share: float
