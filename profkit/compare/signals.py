"""The signals of a comparison: the one object from which all readings of the rules are taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from profkit.compare.call_sites import call_sites
from profkit.compare.call_table import CallTable
from profkit.compare.comparability import comparability, residue_of, same_captures
from profkit.compare.function_table import at_rows
from profkit.compare.longer_loops import LongerLoops, longer_loops
from profkit.compare.movement import Movement, movement
from profkit.compare.origins import Origins, find_origins
from profkit.compare.pair import Pair, Side
from profkit.compare.process_calls import calls_of_processes, started
from profkit.compare.ranking import ranking_of
from profkit.compare.result_types import Comparability, DiffTable, Ranking, Residue
from profkit.compare.sampled_calls import call_ratios
from profkit.compare.starvation_signs import Lumps, Starvation, lumps_of, matched, noisier, signs, starvation
from profkit.compare.time_shares import calls_unknown
from profkit.compare.waiting_rows import waiting_rows
from profkit.compare.walls import Walls, walls_of
from profkit.measure import noise
from profkit.measure.function_orders import location_and_spread
from profkit.measure.iterations import IterationModel, IterationNames, iteration_model, typical_model
from profkit.measure.range_stats import RangeChange, compare_ranges
from profkit.measure.side_facts import SideFacts, side_facts
from profkit.model import Process
from profkit.model.arrays import Floats, median

#: A shell reports a signal as this exit status plus the number of the signal, 1 to 64.
SIGNALLED = 128
MOST_SIGNALS = 64


def signal_number(exit_status: int) -> int | None:
    """Return the signal that ended a program, from its exit status in a shell; ``None`` for none."""
    return exit_status - SIGNALLED if SIGNALLED < exit_status <= SIGNALLED + MOST_SIGNALS else None


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """Everything that is measured of two sides.

    `total_scatter` is the standard deviation of ln(candidate / baseline total), and `noisier` the mean over
    functions of ln(candidate / baseline scatter); both are NaN without repeats. `lost_throughout`: at least
    three candidate repeats each took longer than every baseline run, with medians beyond their noise. `signs`
    are those of `profkit.compare.starvation_signs` by name; `lumps` are lost time slices. `threads_differ`:
    one side has calls of threads that the other could not see. `exits` are shell exit statuses of the first
    failed target, 0 also if unknown.
    """

    baseline: SideFacts
    candidate: SideFacts
    table: DiffTable
    calls: CallTable | None
    movement: Movement
    ranking: Ranking
    comparability: Comparability
    residue: Residue
    identical: bool
    python_differs: bool
    sampled_differs: bool
    threads_differ: bool
    total_scatter: float
    signs: Mapping[str, float]
    starved: Starvation
    noisier: float
    lumps: Lumps
    origins: Origins
    loops: LongerLoops
    lost_throughout: bool
    exits: tuple[int, int]
    ranges: tuple[RangeChange, ...]
    iterations: tuple[IterationModel | None, IterationModel | None]
    walls: Walls
    exact: bool

    @property
    def unmatched(self) -> float:
        """Part of self time in functions of one side only, on the side where it is smaller."""
        return min(self.residue.baseline_only_share, self.residue.candidate_only_share)

    @property
    def capture_s(self) -> tuple[float, float]:
        """Seconds that capture added to each wall, 0 unless both sides know it."""
        return self.walls.baseline.capture_s, self.walls.candidate.capture_s

    @property
    def repeats(self) -> int:
        """Number of runs of the side with fewer."""
        return min(self.baseline.runs, self.candidate.runs)

    @property
    def unfinished(self) -> bool:
        """Whether exit statuses differ, a signal ended a target, or one failed before any profiling."""
        failed = any(self.exits) and not len(self.table)
        return failed or self.exits[0] != self.exits[1] or any(map(signal_number, self.exits))

    @property
    def counters(self) -> bool:
        """Whether both sides know how long their main threads queued for a CPU."""
        return self.baseline.wait_fraction is not None and self.candidate.wait_fraction is not None

    @property
    def moved(self) -> bool:
        """Whether the order of functions, or the time between them, moved beyond noise."""
        return self.ranking.reordered or self.ranking.total_variation > noise.TV_P99

    @property
    def cpu_part(self) -> float:
        """Part of the log slow-down that growth of the program's CPU time explains; NaN if unknown."""
        run_a, run_b = self.baseline.own_run_s, self.candidate.own_run_s
        if not run_a or not run_b or self.log_slowdown <= 0:
            return float("nan")
        return min(1.0, max(0.0, math.log(run_b / run_a) / self.log_slowdown))

    @property
    def log_slowdown(self) -> float:
        """`log_walls` without what capture added."""
        a, b = (
            (side.wall_s or 0.0) - s
            for side, s in zip((self.baseline, self.candidate), self.capture_s, strict=True)
        )
        return math.log(b / a) if any(self.capture_s) and a > 0 and b > 0 else self.log_walls

    @property
    def log_walls(self) -> float:
        """Ln of the candidate's wall over the baseline's, or of their totals where a wall is unknown."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0


def signals_of(pair: Pair, iterations: IterationNames | None = None) -> Signals:
    """Measure a pair; `iterations` names the NVTX ranges that a user declared as one iteration."""
    table, calls = pair.table, pair.calls
    ratios = call_ratios(table)
    busy = _busy(pair, "tottime", "wait", "blocked")
    within = _busy(pair, "cumtime", "cumwait", "cumblocked")
    processes, recorded = _processes(pair)
    of_processes = calls_of_processes(table, calls, ratios, processes, recorded=recorded)
    sites = call_sites(table, calls, ratios)
    moved = movement(pair, busy, within, of_processes, sites, ratios)
    waits = waiting_rows(table, calls)
    origins = find_origins(pair, busy, within, waits, of_processes, sites, ratios)
    walls = walls_of(pair, waits)
    own = walls.baseline.own_s, walls.candidate.own_s
    both = matched(pair)
    shown = signs(both)
    residue, same = residue_of(pair), same_captures(pair)
    loops = longer_loops(table, None if pair.by_share else calls, ratios, waits)
    if pair.by_share:
        table, calls = calls_unknown(table, calls)
    return Signals(
        baseline=_facts(pair.baseline),
        candidate=_facts(pair.candidate),
        table=table,
        calls=calls,
        movement=moved,
        ranking=ranking_of(pair),
        comparability=comparability(pair, residue, moved.calls_shown, shared=bool(same.any())),
        residue=residue,
        # It takes more than a few shared captures to call the sides identical.
        identical=bool(same.any(axis=0).all() and same.any(axis=1).all()),
        python_differs=pair.python_differs,
        sampled_differs=pair.baseline.sampled != pair.candidate.sampled,
        threads_differ=pair.baseline.threads_mixed != pair.candidate.threads_mixed,
        total_scatter=_total_scatter(*own),
        signs=shown,
        starved=starvation(shown),
        # Samples scatter by themselves.
        noisier=noisier(both) if pair.exact else math.nan,
        lumps=lumps_of(both),
        origins=origins,
        loops=loops,
        lost_throughout=noise.lost_throughout(*own),
        exits=(_exit(pair.baseline), _exit(pair.candidate)),
        ranges=compare_ranges(pair.baseline.processes, pair.candidate.processes),
        iterations=(_iterations(pair.baseline, iterations), _iterations(pair.candidate, iterations)),
        walls=walls,
        exact=pair.exact,
    )


def _busy(pair: Pair, *names: str) -> tuple[Floats, Floats]:
    """Return CPU seconds by table row, or all time unless both sides measured waiting."""
    known = [[getattr(profile, name) for name in names] for profile in pair.profiles]
    measured = all(column is not None for of_side in known for column in of_side)
    before, after = (
        at_rows(np.maximum(whole - waited - blocked, 0.0) if measured else whole, rows)
        for (whole, waited, blocked), rows in zip(known, pair.behind, strict=True)
    )
    return before, after


def _processes(pair: Pair) -> tuple[tuple[int, int], bool]:
    """Return the number of processes, median over a side's runs, and whether more of them are in the table."""
    recorded = _numbers(pair, lambda processes: sum(process.profiled for process in processes))
    if recorded[0] != recorded[1]:
        return recorded, True
    numbers = _numbers(pair, len)
    # A plain profile holds one process; its calls show how many that one started.
    if numbers == (1, 1) and pair.exact:
        first, second = started(pair.table).processes
        numbers = 1 + first, 1 + second
    return numbers, False


def _numbers(pair: Pair, count: Callable[[tuple[Process, ...]], int]) -> tuple[int, int]:
    one, other = (int(median([count(run.processes) for run in side.selected])) for side in pair.sides)
    return one, other


def _facts(side: Side) -> SideFacts:
    totals = [
        sum(thread.profile.total for process in chosen for thread in process.threads)
        for chosen in side.processes
    ]
    return side_facts(side.runs, side.processes, float(median(totals)))


def _exit(side: Side) -> int:
    """Return the exit status of a side's first failed target; 0 where all succeeded or it is unknown."""
    statuses = (run.manifest.exit_status for run in side.runs.runs if run.manifest is not None)
    return next((status for status in statuses if status), 0)


def _total_scatter(totals_a: Floats, totals_b: Floats) -> float:
    """Return the standard deviation of ln(candidate total / baseline total) from repeats; NaN without."""
    if min(len(totals_a), len(totals_b)) < noise.MIN_RUNS_NOISE:
        return float("nan")
    spread_a, spread_b = (location_and_spread(np.log(totals))[1] for totals in (totals_a, totals_b))
    return math.hypot(spread_a, spread_b)


def _iterations(side: Side, names: IterationNames | None) -> IterationModel | None:
    runs = zip(side.runs.runs, side.processes, strict=True)
    return typical_model([iteration_model(replace(run, processes=chosen), names) for run, chosen in runs])
