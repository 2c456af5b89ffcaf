"""Compare two sides: select, align, measure, account, judge; reads no files and prints nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from profkit.errors import UsageError
from profkit.identity.align import align_joined, join
from profkit.identity.alignment import Alignment
from profkit.identity.fold import fold_comprehensions, needs_folding
from profkit.identity.keys import function_keys, infer_python
from profkit.identity.readable import is_anonymous, readable_name
from profkit.measure import noise
from profkit.measure.call_sites import call_sites
from profkit.measure.calls import CallTable, call_table
from profkit.measure.comparability import (
    comparability,
    same_captures,
    sampled,
    threads_mixed,
    versions_differ,
)
from profkit.measure.counters import SideFacts, side_facts
from profkit.measure.critical_path import (
    Composition,
    PathReading,
    compose,
    path_effect,
    path_rank,
    read_path,
    reads_files,
    waits_for_ranks,
)
from profkit.measure.estimates import call_ratios, unseen_seconds
from profkit.measure.import_table import Imports, imports_of_side
from profkit.measure.intervals import UNKNOWN, Estimate, ratio_estimate
from profkit.measure.lines import FunctionLines, SeenLine, seen_lines
from profkit.measure.movement import movement
from profkit.measure.origins import find_origins
from profkit.measure.parts_of_callers import folded_alike
from profkit.measure.process_calls import calls_of_processes
from profkit.measure.rank import location_and_spread
from profkit.measure.ranking import ranking_of
from profkit.measure.select import Selected, check_ranked_by, select, select_pair, select_processes
from profkit.measure.settings import Setting, differences
from profkit.measure.shares import calls_unknown, in_shares
from profkit.measure.sides import Side, gather
from profkit.measure.signals import Signals
from profkit.measure.signs import lumps_of, matched, noisier, signs
from profkit.measure.started import started
from profkit.measure.starvation import starvation
from profkit.measure.table import build_table, busy_seconds, stopped_seconds
from profkit.measure.tables import Comparability, DiffTable, Ranking, Residue, SideSummary
from profkit.measure.waiting import waiting_rows
from profkit.model import PROJECT, Effect, Notice, Process, Profile, Ranges, Run, RunSet
from profkit.model.arrays import median
from profkit.verdict.account import Account, Part, account
from profkit.verdict.judge import judge, lone_function
from profkit.verdict.named_lines import lines_of_verdict
from profkit.verdict.readings import Case, spinning
from profkit.verdict.thresholds import value
from profkit.verdict.types import Diff

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationModel, IterationNames
    from profkit.measure.range_stats import RangeChange
    from profkit.measure.range_waiting import RangeWaiting
    from profkit.measure.stacks import PlacedPaths, StackTable

Index = npt.NDArray[np.int32]

#: What capture adds where it traces nothing.
_NO_EFFECT = Effect(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Gathered:
    """One side: its runs under common rows.

    `folded` are rows that took in comprehensions. For each run, `selected` is what is compared, and `rows`
    maps the rows of its selected profile to those of `side`.
    """

    side: Side
    folded: Index
    profiles: list[Profile]
    selected: list[Selected]
    rows: list[Index]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What was measured of two sides, before judging: `case`, and what a report shows beside it.

    `lines` returns the lines of a function by its row of the table.
    """

    case: Case
    account: Account
    comparability: Comparability
    ranking: Ranking
    residue: Residue
    summaries: tuple[SideSummary, SideSummary]
    slowdown: Estimate
    calls: CallTable | None
    stacks: StackTable | None
    warnings: tuple[Notice, ...]
    settings: tuple[Setting, ...]
    imports: tuple[Imports | None, Imports | None]
    lines: Callable[[int], FunctionLines]


def diff(
    baseline: RunSet,
    candidate: RunSet,
    *,
    by: str = "tottime",
    process: str | None = None,
    iterations: IterationNames | None = None,
    calls: bool = False,
) -> Diff:
    """Compare two sides and return what makes them differ; several runs of a side are replicates.

    `by` is the ranking, ``tottime`` or ``cumtime``. `process` is ``None`` (all, summed), ``main``, ``rank:N``
    or ``pid:N``. `calls` keeps `Diff.calls` and `Diff.stacks`. Raises `UsageError` where a side is empty,
    `by` is neither, or a run has no such process or range.
    """
    found = compare(baseline, candidate, by=by, process=process, iterations=iterations, stacks=calls)
    signals = found.case.signals
    verdict = judge(found.case)
    return Diff(
        baseline=found.summaries[0],
        candidate=found.summaries[1],
        comparability=found.comparability,
        verdict=verdict,
        account=found.account,
        ranking=found.ranking,
        table=signals.table,
        residue=found.residue,
        slowdown=found.slowdown,
        warnings=found.warnings,
        ranges=signals.ranges,
        iterations=signals.iterations,
        calls=found.calls if calls else None,
        stacks=found.stacks,
        settings=found.settings,
        imports=found.imports,
        lines=lines_of_verdict(verdict, found.account, signals.table.name, found.lines),
    )


def compare(
    baseline: RunSet,
    candidate: RunSet,
    *,
    by: str = "tottime",
    process: str | None = None,
    iterations: IterationNames | None = None,
    stacks: bool = False,
) -> Comparison:
    """Measure two sides; parameters and errors are those of `diff`, and `stacks` keeps calling contexts."""
    check_ranked_by(by)
    for side in (baseline, candidate):
        if not side.runs:
            raise UsageError(f"{side.label}: there is no run to compare")
    baseline, candidate, of_folded = folded_alike(baseline, candidate)
    selectors = select_pair(baseline.runs[0], candidate.runs[0], process)
    by_share = sampled(baseline) or sampled(candidate)
    # What the runs say of themselves stays; what is measured of functions is of these.
    before, after = in_shares(baseline, candidate, selectors[:2]) if by_share else (baseline, candidate)
    first, second = _sides(before, after, *((None, None) if by_share else selectors[:2]))
    a, b = first.side, second.side

    joined = join(a.profile, b.profile, a.roots, b.roots)
    found = align_joined(
        joined, a.profile, b.profile, baseline_folded=first.folded, candidate_folded=second.folded
    )
    table, rows = build_table(joined, found, a, b, by)
    pairs = call_table((first.profiles, second.profiles), (a.places, b.places), rows)
    residue = _residue(found, a, b, table, rows)
    busy = busy_seconds(a.profile, b.profile, rows)
    within = busy_seconds(a.profile, b.profile, rows, cumulative=True)
    other_python = versions_differ(baseline, candidate, a.profile, b.profile)
    processes = (_processes(first), _processes(second))
    if processes == (1, 1) and a.exact and b.exact:
        # A plain profile holds one; how many it started, its calls say.
        processes = started(table).processes
    of_processes = calls_of_processes(table, pairs, processes)
    sites = call_sites(table, pairs, call_ratios(table))
    moved = movement(
        table,
        *busy,
        of_processes,
        sites,
        python_differs=other_python,
        within=within,
        stopped=stopped_seconds(a.profile, b.profile, rows),
    )
    chosen_a, chosen_b = (partial(select_processes, process=selector) for selector in selectors[:2])
    facts_a = side_facts(baseline, _total(baseline, chosen_a), chosen_a)
    facts_b = side_facts(candidate, _total(candidate, chosen_b), chosen_b)
    ranking = ranking_of(table, rows, a, b, by)
    totals_a, totals_b = _totals(before, a), _totals(after, b)
    rank = path_rank(first.selected[0].processes, second.selected[0].processes)
    effects = _effects(first, rank), _effects(second, rank)
    # What is known of one side alone is no difference.
    known_effects = all(effects) and any(side != [_NO_EFFECT] * len(side) for side in effects)
    effects_a, effects_b = effects if known_effects else ([], [])
    own_a, own_b = _without(totals_a, effects_a), _without(totals_b, effects_b)
    both = matched(joined, found, a, b)
    shown = signs(both)
    waits = waiting_rows(table, pairs)
    origins = find_origins(
        table, pairs, busy, within, waits, of_processes, sites, python_differs=other_python
    )
    another = _another_program(table)
    if by_share:
        table, pairs = calls_unknown(table, pairs)
    known = Signals(
        baseline=facts_a,
        candidate=facts_b,
        table=table,
        movement=moved,
        rbo=ranking.rbo,
        rbo_floor=ranking.noise_floor,
        reordered=ranking.reordered,
        total_variation=ranking.total_variation,
        identical=same_captures(baseline, candidate),
        python_differs=other_python,
        sampled_differs=sampled(baseline) != sampled(candidate),
        threads_differ=threads_mixed(baseline) != threads_mixed(candidate),
        total_scatter=_total_scatter(own_a, own_b),
        signs=shown,
        starved=starvation(shown),
        # Samples scatter by themselves.
        noisier=noisier(both) if a.exact and b.exact else math.nan,
        lumps=lumps_of(both),
        origins=origins,
        another_program=another,
        lost_throughout=noise.lost_throughout(own_a, own_b),
        exits=(_exit(baseline), _exit(candidate)),
        ranges=_compared_ranges(baseline, candidate, selectors[0], selectors[1]),
        iterations=(
            _iterations(baseline, selectors[0], iterations),
            _iterations(candidate, selectors[1], iterations),
        ),
        unmatched=min(residue.baseline_only_share, residue.candidate_only_share),
        capture_s=(_middle_effect(effects_a), _middle_effect(effects_b)),
        exact=a.exact and b.exact,
    )
    # Only native functions wait for ranks, and of large tables hardly a row does.
    ranks, reads = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    native = [(i, table.name[i]) for i in np.flatnonzero(table.native).tolist()]
    ranks[[i for i, name in native if waits_for_ranks(name)]] = True
    reads[[i for i, name in native if reads_files(name)]] = True
    masks = (waits, ranks, reads)
    booked = account(
        table,
        _compositions(before, first, rows[0], rank, masks, effects_a),
        _compositions(after, second, rows[1], rank, masks, effects_b),
        known.origins,
        unknown_code=lone_function(Case(known)),
        spun_s=spinning(known),
        ranges=_queued_ranges(known.ranges),
        captured=known_effects,
    )
    said = [
        notice.at(file=run.path)
        for side in (baseline, candidate)
        for run in side.runs
        for notice in run.warnings
        if notice.code != "functions-throttled"  # which `of_folded` says of all
    ]
    return Comparison(
        case=Case(known, booked),
        account=booked,
        comparability=comparability(
            baseline, candidate, a.profile, b.profile, residue, moved.calls_shown, selectors[2]
        ),
        ranking=ranking,
        residue=residue,
        summaries=(_summary(baseline, a, facts_a), _summary(candidate, b, facts_b)),
        slowdown=UNKNOWN if by_share else ratio_estimate(totals_a, totals_b),
        calls=pairs,
        stacks=_stacks((first, second), rows) if stacks else None,
        warnings=tuple(dict.fromkeys((*said, *of_folded))),
        settings=differences(baseline, candidate),
        imports=(None, None) if by_share else (_imports(baseline, first), _imports(candidate, second)),
        lines=partial(_lines, table, (first, second), rows),
    )


def _imports(runs: RunSet, side: _Gathered) -> Imports | None:
    return imports_of_side(runs, [selected.processes for selected in side.selected])


def _lines(
    table: DiffTable,
    sides: tuple[_Gathered, _Gathered],
    behind: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]],
    row: int,
) -> FunctionLines:
    found: list[tuple[SeenLine, ...]] = []
    for side, rows in zip(sides, behind, strict=True):
        gathered = side.side
        keys = function_keys(gathered.profile, gathered.roots)
        at = int(rows[row])
        found.append(seen_lines(side.selected, side.rows, gathered.profile, keys, at) if at >= 0 else ())
    return FunctionLines(readable_name(table.name[row]), *found)


def _stacks(
    sides: tuple[_Gathered, _Gathered], behind: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]
) -> StackTable | None:
    """Calling contexts of both sides over the table's rows; ``None`` where a run has none."""
    from profkit.measure.stacks import placed_paths, stacks_of_paths

    found: list[list[list[PlacedPaths]]] = []
    for side, rows in zip(sides, behind, strict=True):
        of_table = _rows_of_table(side, rows)
        runs = [placed_paths(selected) for selected in side.selected]
        found.append(
            [
                [(paths, of_table[place[own]]) for paths, own in run]
                for run, place in zip(runs, side.rows, strict=True)
                if run is not None
            ]
        )
        if len(found[-1]) < len(runs):
            return None
    return stacks_of_paths(found)


def _rows_of_table(side: _Gathered, behind: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Row of the table for each row of a side, −1 without one."""
    of_table = np.full(len(side.side.profile), -1, np.int64)
    present = np.flatnonzero(behind >= 0)
    of_table[behind[present]] = present
    return of_table


def _processes(side: _Gathered) -> int:
    return int(median([len(selected.processes) for selected in side.selected]))


def _compositions(
    runs: RunSet,
    side: _Gathered,
    behind: npt.NDArray[np.integer],
    rank: int | None,
    masks: tuple[npt.NDArray[np.bool_], ...],
    effects: Sequence[Effect],
) -> list[Composition]:
    """How the wall of each run is made up, over the table's rows, and which part of it is capture's."""
    of_table = _rows_of_table(side, behind)

    def placed(reading: PathReading, rows: Index) -> PathReading:
        return reading.placed(of_table[rows] if len(rows) else np.zeros(0, np.int64), len(masks[0]))

    found = [
        compose(placed(read_path(run, selected, rank), rows), *masks)
        for run, selected, rows in zip(runs.runs, side.selected, side.rows, strict=True)
    ]
    if not effects:
        return found
    return [whole.less_capture(effect) for whole, effect in zip(found, effects, strict=True)]


def _effects(side: _Gathered, rank: int | None) -> list[Effect]:
    """What capture added to each run of a side; empty where it is not known of all."""
    found = [path_effect(selected, rank) for selected in side.selected]
    known = [effect for effect in found if effect is not None]
    return known if len(known) == len(found) else []


def _middle_effect(effects: Sequence[Effect]) -> float:
    return float(median([max(0.0, effect.seconds) for effect in effects])) if effects else 0.0


def _without(totals: npt.NDArray[np.float64], effects: Sequence[Effect]) -> npt.NDArray[np.float64]:
    """Totals of runs without what capture added, where something is left."""
    if not effects:
        return totals
    less = totals - np.array([max(0.0, effect.seconds) for effect in effects])
    own: npt.NDArray[np.float64] = np.where(less > 0, less, totals)
    return own


def _queued_ranges(changes: Sequence[RangeChange]) -> list[Part]:
    """NVTX ranges whose thread queued longer for a CPU than in the baseline, greatest growth first."""
    grown = []
    for change in changes:
        before, after = (0.0 if row is None else row.wait_s for row in (change.baseline, change.candidate))
        if before is not None and after is not None and after > before:
            grown.append(Part(-1, change.key.name, after - before, "range"))
    return sorted(grown, key=lambda part: -part.seconds)


def _another_program(table: DiffTable) -> bool:
    """Whether the sides share hardly any function of their projects, by number and by time.

    Module bodies and comprehensions do not count: every program has them. Where most functions are missing,
    one of equal name and other source (many a ``main``) counts as another.
    """
    project = table.in_roots(PROJECT)
    project[[row for row in np.flatnonzero(project).tolist() if is_anonymous(table.name[row])]] = False
    other_source = table.differs
    if not project.any():
        return False
    alone = table.one_sided
    for side, other in ((table.baseline, table.candidate), (table.candidate, table.baseline)):
        rows = project & side.present
        if not rows.any():
            return False
        lacking = rows & ~other.present
        if not (lacking & alone).any():
            return False  # samples may have missed them all
        if lacking.sum() > value("programs.residue") * rows.sum():
            lacking |= rows & other_source
        time = float(side.cumtime[rows].sum())
        by_time = float(side.cumtime[lacking].sum()) / time if time > 0 else 1.0
        if min(lacking.sum() / rows.sum(), by_time) < value("programs.another"):
            return False
    return True


def _exit(side: RunSet) -> int:
    """Exit status of a side's first target that failed; 0 where all succeeded or nothing is known."""
    statuses = (run.manifest.exit_status for run in side.runs if run.manifest is not None)
    return next((status for status in statuses if status), 0)


def _has_ranges(side: RunSet) -> bool:
    """Whether any run recorded NVTX ranges; the modules that process them are imported only then."""
    return any(process.ranges is not None for run in side.runs for process in run.processes)


def _iterations(side: RunSet, selector: str | None, names: IterationNames | None) -> IterationModel | None:
    if names is None and not _has_ranges(side):
        return None
    from profkit.measure.iterations import iteration_model, typical_model

    return typical_model(
        [iteration_model(replace(run, processes=select_processes(run, selector)), names) for run in side.runs]
    )


def _compared_ranges(
    baseline: RunSet, candidate: RunSet, selector_a: str | None, selector_b: str | None
) -> tuple[RangeChange, ...]:
    if not _has_ranges(baseline) and not _has_ranges(candidate):
        return ()
    from profkit.measure.range_stats import compare_ranges

    a, waits_a = _ranges(baseline, selector_a)
    b, waits_b = _ranges(candidate, selector_b)
    return compare_ranges(a, b, (waits_a, waits_b))


def _ranges(side: RunSet, selector: str | None) -> tuple[list[list[Ranges]], list[list[RangeWaiting | None]]]:
    """NVTX ranges of the selected processes of every run that recorded any, and their waiting."""
    from profkit.measure.range_waiting import waiting_of

    runs = [[p for p in select_processes(run, selector) if p.ranges is not None] for run in side.runs]
    runs = [run for run in runs if run]
    return [[p.ranges for p in run if p.ranges is not None] for run in runs], [
        waiting_of(run) for run in runs
    ]


def _sides(
    baseline: RunSet, candidate: RunSet, selector_a: str | None, selector_b: str | None
) -> tuple[_Gathered, _Gathered]:
    a = [select(run, selector_a) for run in baseline.runs]
    b = [select(run, selector_b) for run in candidate.runs]
    if needs_folding(a[0].profile, b[0].profile):
        return _folded(a), _folded(b)
    return _gathered(a), _gathered(b)


def _gathered(selected: list[Selected]) -> _Gathered:
    profiles = [one.profile for one in selected]
    side = gather(profiles, [one.roots for one in selected], _unseen(selected))
    return _Gathered(side, np.zeros(0, np.int32), profiles, selected, list(side.places))


def _unseen(selected: list[Selected]) -> list[float]:
    return [unseen_seconds(one.processes) for one in selected]


def _folded(selected: list[Selected]) -> _Gathered:
    folded = [fold_comprehensions(one.profile) for one in selected]
    profiles = [profile for profile, _ in folded]
    whole = gather(profiles, [one.roots for one in selected], _unseen(selected))
    taken_in = {
        int(place[row])
        for (_, taken), place in zip(folded, whole.places, strict=True)
        for row in taken.values()
    }
    rows = []
    for one, (_, taken), place in zip(selected, folded, whole.places, strict=True):
        stays = np.ones(len(one.profile), np.bool_)
        stays[list(taken)] = False
        of_folded = np.cumsum(stays).astype(np.int32) - 1
        for row, into in taken.items():
            of_folded[row] = into
        rows.append(place[of_folded])
    return _Gathered(whole, np.array(sorted(taken_in), np.int32), profiles, selected, rows)


def _total(side: RunSet, chosen: Callable[[Run], Sequence[Process]]) -> float:
    """Seconds of self time of the chosen processes of one run, median over the runs."""
    totals = [
        sum(thread.profile.total for process in chosen(run) for thread in process.threads)
        for run in side.runs
    ]
    return float(median(totals))


def _totals(runs: RunSet, side: Side) -> npt.NDArray[np.float64]:
    """Wall-clock seconds of every run of a side, or its self time where a wall is not known."""
    walls = [run.manifest.wall_s for run in runs.runs if run.manifest is not None]
    if len(walls) == side.runs and all(wall > 0 for wall in walls):
        return np.array(walls, np.float64)
    totals: npt.NDArray[np.float64] = np.maximum(side.tottime.sum(axis=1), 1e-12)
    return totals


def _total_scatter(totals_a: npt.NDArray[np.float64], totals_b: npt.NDArray[np.float64]) -> float:
    """Standard deviation of ln(candidate's total / baseline's), from the repeats; NaN without."""
    if min(len(totals_a), len(totals_b)) < noise.MIN_RUNS_NOISE:
        return float("nan")
    spread_a, spread_b = (location_and_spread(np.log(totals))[1] for totals in (totals_a, totals_b))
    return math.hypot(spread_a, spread_b)


def _residue(
    found: Alignment, a: Side, b: Side, table: DiffTable, rows: tuple[npt.NDArray[np.integer], ...]
) -> Residue:
    of_one_side = table.one_sided
    only_a, only_b = (
        only[np.isin(only, behind[of_one_side])]
        for only, behind in zip((found.baseline_only, found.candidate_only), rows, strict=True)
    )

    def share(side: Side, rows: Index) -> float:
        total = side.profile.total
        # Added in another order, a few of the rows can come to a little more than all of them.
        return min(1.0, float(side.profile.tottime[rows].sum()) / total) if total > 0 else 0.0

    return Residue(
        baseline_only=len(only_a),
        candidate_only=len(only_b),
        baseline_only_share=share(a, only_a),
        candidate_only_share=share(b, only_b),
    )


def _summary(side: RunSet, gathered: Side, facts: SideFacts) -> SideSummary:
    def middle(values: Sequence[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(median(known)) if known else None

    def summed(run_values: Sequence[float | None]) -> float | None:
        known = [v for v in run_values if v is not None]
        return float(sum(known)) if known else None

    run = side.runs[0]
    python = next((p.python for p in run.processes if p.python), None)
    inferred = None if python else infer_python(gathered.profile)
    return SideSummary(
        label=side.label,
        runs=len(side.runs),
        files=tuple(r.path for r in side.runs),
        wall_s=facts.wall_s,
        cpu_s=middle([summed([p.cpu_s for p in r.processes]) for r in side.runs]),
        total_s=facts.total_s,
        run_queue_wait_s=middle([summed([p.run_queue_wait_s for p in r.processes]) for r in side.runs]),
        host=facts.host or facts.cpu_model or None,
        python=python or (f"{inferred[0]}.{inferred[1]}" if inferred else None),
        processes=len(run.processes),
        skipped=side.skipped,
        inventory=facts.inventory,
        command=facts.command,
        environment=facts.environment,
        neighbours=facts.neighbours,
    )
