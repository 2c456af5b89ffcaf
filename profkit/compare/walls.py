"""How the walls of both sides are made up, run by run, and what capture added to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.compare.pair import Pair, Side
from profkit.identity.lookup_columns import rows_where
from profkit.measure.composition import Composition
from profkit.measure.critical_path import compose, least_beside
from profkit.measure.path_reading import NO_EFFECT, PathReading, capture_effects, path_rank, read_path
from profkit.measure.waits_by_name import also_computes, waits_for_gpu, waits_for_ranks
from profkit.model import Effect
from profkit.model.arrays import Bools, Floats, Rows, known, median


@dataclass(frozen=True, slots=True, eq=False)
class SideWalls:
    """The walls of one side's runs, `own_s` without what capture added; in s, shape (runs,).

    They are self times where a wall of either side is unknown. `capture_s` is the median of what capture
    added, 0 unless known of both sides. `parts` are over the table's rows.
    """

    seconds: Floats
    own_s: Floats
    capture_s: float
    parts: tuple[Composition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Walls:
    """The walls of both sides; `captured`: what capture added is known of each run."""

    baseline: SideWalls
    candidate: SideWalls
    captured: bool


def walls_of(pair: Pair, waits: Bools) -> Walls:
    """Return how the walls of a pair are made up; `waits` are the table's rows that wait by design."""
    rank = path_rank(pair.baseline.selected[0].processes, pair.candidate.selected[0].processes)
    effects = [_effects(side, rank) for side in pair.sides]
    # What capture added can only be compared if both sides know it.
    captured = all(effects) and any(side != [(NO_EFFECT, NO_EFFECT)] * len(side) for side in effects)
    names = pair.table.name
    masks = [waits, *(rows_where(names, of) for of in (waits_for_ranks, also_computes, waits_for_gpu))]
    readings = [
        _read(side, rows, rank, len(waits)) for side, rows in zip(pair.sides, pair.of_table, strict=True)
    ]
    # For how long helpers are active beside each second of the path's thread, on the side with more.
    beside = max(float(median([least_beside(reading) for reading in of_side])) for of_side in readings)
    seconds = [_seconds(side) for side in pair.sides]
    if any(of_side is None for of_side in seconds):  # a wall and self times do not compare
        seconds = [np.maximum(side.replicates.tottime.sum(axis=1), 1e-12) for side in pair.sides]
    first, second = (
        _side_walls(of_side, [compose(one, *masks, beside=beside) for one in read], added if captured else [])
        for of_side, read, added in zip(known(seconds), readings, effects, strict=True)
    )
    return Walls(first, second, captured)


def _read(side: Side, of_table: Rows, rank: int | None, n: int) -> list[PathReading]:
    """Read the path of each run of a side, over the table's `n` rows."""
    return [
        read_path(run, selected, rank).placed(of_table[rows] if len(rows) else np.zeros(0, np.int64), n)
        for run, selected, rows in zip(side.measured.runs, side.selected, side.rows, strict=True)
    ]


def _side_walls(
    seconds: Floats, parts: Sequence[Composition], effects: Sequence[tuple[Effect, Effect]]
) -> SideWalls:
    if not effects:
        return SideWalls(seconds, seconds, 0.0, tuple(parts))
    # Of what capture added to helpers, as large a part is on the path as of all that they did.
    whole = [
        of_path.plus(of_helpers, part.helpers_part)
        for part, (of_path, of_helpers) in zip(parts, effects, strict=True)
    ]
    added = np.array([max(0.0, effect.seconds) for effect in whole])
    less = seconds - added
    own = np.where(less > 0, less, seconds)
    parts = [part.less_capture(effect) for part, effect in zip(parts, whole, strict=True)]
    return SideWalls(seconds, own, float(median(added)), tuple(parts))


def _effects(side: Side, rank: int | None) -> list[tuple[Effect, Effect]]:
    """Return what capture added to the path and to helpers in each run of a side; empty unless known of all."""
    found = [
        capture_effects(run, selected, rank)
        for run, selected in zip(side.measured.runs, side.selected, strict=True)
    ]
    effects = known(found)
    return effects if len(effects) == len(found) else []


def _seconds(side: Side) -> Floats | None:
    """Return the wall of every run of a side in seconds, ``None`` where one is unknown."""
    walls = [run.manifest.wall_s for run in side.measured.runs if run.manifest is not None]
    complete = len(walls) == side.replicates.runs and all(wall > 0 for wall in walls)
    return np.array(walls, np.float64) if complete else None
