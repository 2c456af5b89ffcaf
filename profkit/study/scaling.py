"""Compare runs of one program by numbers of processes and nodes: times, speed-ups, POP's efficiencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from profkit.errors import UsageError
from profkit.formats.load import repetitions, unreadable
from profkit.model import Notice
from profkit.study.rank_read import Member, Task, read_file
from profkit.study.rank_study import Efficiency, efficiency
from profkit.study.setting_results import median_of, median_quantiles, pooled_spread
from profkit.study.workers import Crew

#: Ratio from which a place is slower where nothing ran twice; repeats on a quiet machine vary by less.
UNREPEATED = 1.1


@dataclass(frozen=True, slots=True)
class Point:
    """One run; `wall_s` is that of the longest process's command."""

    processes: int
    nodes: int
    wall_s: float
    efficiency: Efficiency


@dataclass(frozen=True, slots=True)
class Place:
    """All runs with the same numbers of processes and nodes; values are medians over the runs.

    `low_s` and `high_s`: 95 % interval of the wall, NaN where nothing ran twice. `ideal`: speed-up without losses, 1
    if the work grows with the processes. `computation`: useful time of the reference over this one's, summed over
    processes, or their mean if the work grows. `whole` = `parallel` × `computation`, POP's global efficiency.
    """

    processes: int
    nodes: int
    runs: int
    median_s: float
    low_s: float
    high_s: float
    speedup: float
    ideal: float
    parallel: float
    balance: float
    communication: float
    computation: float
    whole: float


@dataclass(frozen=True, slots=True)
class SlowDown:
    """A place slower than a neighbour with fewer processes or nodes; positions in `Scaling.places`."""

    fewer: int
    more: int
    factor: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """A set of runs; `places` by processes, then nodes, the first being the reference.

    `weak`: the work grows with the processes. `spread`: standard deviation of ln(time) at one place, or NaN.
    """

    places: tuple[Place, ...]
    slowdowns: tuple[SlowDown, ...]
    weak: bool
    spread: float
    notices: tuple[Notice, ...]


def read_points(
    paths: Sequence[str], workers: Crew, *, waits: tuple[str, ...] = ()
) -> tuple[list[Point], list[Notice]]:
    """Read runs from the files of `expand`, joining files that are ranks of one job; `waits` as in `Task`.

    Runs that failed are left out, with a notice.
    """
    notices: list[Notice] = []
    runs: list[list[Member]] = []
    groups: dict[tuple[object, ...], list[Member]] = {}
    for file in workers(partial(read_file, task=Task(waits=waits)), paths):
        if file.skipped is not None:
            notices.append(file.skipped)
            continue
        members = [reading.member for reading in file.readings]
        if len(members) == 1 and members[0].rank is not None:
            # Without a job name from the launcher, the command and the number of ranks identify the job.
            job = (members[0].job or members[0].command, members[0].size)
            groups.setdefault(job, []).append(members[0])
        else:
            runs.append(members)
    for group in groups.values():
        in_order = sorted(group, key=lambda m: m.started)
        runs += repetitions(in_order, lambda m: m.rank)
    points: list[Point] = []
    for members in runs:
        failed = next((m for m in members if m.exit_status), None)
        if failed is None:
            points.append(_point(members))
        else:
            known = failed.exit_status >= 0
            how = f"it ended with exit status {failed.exit_status}" if known else "how it ended is not known"
            problem = f"left out, since {how}"
            notices.append(Notice("file-skipped", failed.path, {"problem": problem}))
    return points, notices


def _point(members: Sequence[Member]) -> Point:
    size = max((m.size or 0 for m in members), default=0)
    return Point(
        processes=max(len(members), size),
        nodes=len({m.host for m in members if m.host}) or 1,
        wall_s=max(m.life_s if m.wall_s is None else m.wall_s for m in members),
        efficiency=efficiency(members),
    )


def scaling(points: Sequence[Point], *, weak: bool = False, notices: Sequence[Notice] = ()) -> Scaling:
    """Compare runs by their numbers of processes and nodes; raises `UsageError` if these are all the same.

    POP's hierarchy: global efficiency = parallel efficiency × computation scaling (source:
    `rank_study.efficiency`).
    """
    grouped: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.processes, point.nodes), []).append(point)
    if len(grouped) < 2:
        left_out = f"; {unreadable(notices[0])}" if notices else ""
        raise UsageError(
            f"all runs have the same numbers of processes ({points[0].processes}) and nodes ({points[0].nodes}); "
            f"name runs with different ones{left_out}"
        )
    keys = sorted(grouped)
    times = [np.array([point.wall_s for point in grouped[key]]) for key in keys]
    spread = pooled_spread(times)
    half, _ = median_quantiles(tuple(len(t) for t in times))
    reference = grouped[keys[0]]
    places = [
        _place(key, grouped[key], reference, spread * float(width), weak=weak)
        for key, width in zip(keys, half, strict=True)
    ]
    return Scaling(tuple(places), tuple(_slowdowns(places)), weak, spread, tuple(notices))


def _useful(points: Sequence[Point], *, weak: bool) -> float:
    return median_of(p.efficiency.useful_s * (1 if weak else p.efficiency.processes) for p in points)


def _place(
    key: tuple[int, int], points: Sequence[Point], reference: Sequence[Point], width: float, *, weak: bool
) -> Place:
    median = median_of(point.wall_s for point in points)
    parallel = median_of(point.efficiency.parallel for point in points)
    useful = _useful(points, weak=weak)
    computation = _useful(reference, weak=weak) / useful if useful > 0 else math.nan
    return Place(
        processes=key[0],
        nodes=key[1],
        runs=len(points),
        median_s=median,
        low_s=median * math.exp(-width),
        high_s=median * math.exp(width),
        speedup=median_of(point.wall_s for point in reference) / median if median > 0 else math.nan,
        ideal=1.0 if weak else key[0] / reference[0].processes,
        parallel=parallel,
        balance=median_of(point.efficiency.balance for point in points),
        communication=median_of(point.efficiency.communication for point in points),
        computation=computation,
        whole=parallel * computation,
    )


def _slowdowns(places: Sequence[Place]) -> list[SlowDown]:
    """Compare each place with its nearest neighbours that have fewer processes or fewer nodes.

    They have as many nodes, as many processes, or as many processes on each node.
    """
    sizes = [(place.nodes, place.processes, place.processes / place.nodes) for place in places]
    found = []
    for i, place in enumerate(places):
        neighbours = set()
        for size in range(3):
            alike = [j for j in range(i) if sizes[j][size] == sizes[i][size]]
            neighbours.update(alike[-1:])
        for j in sorted(neighbours):
            factor = place.median_s / places[j].median_s
            known = math.isfinite(place.low_s) and math.isfinite(places[j].high_s)
            if place.low_s > places[j].high_s if known else factor > UNREPEATED:
                found.append(SlowDown(j, i, factor))
    return sorted(found, key=lambda slow: -slow.factor)
