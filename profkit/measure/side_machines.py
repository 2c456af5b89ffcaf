"""A side's machines over all its repeats: how fast they did fixed work, and what else ran on them while it queued."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from profkit.model import Neighbour, Neighbours, Run, Yardstick
from profkit.model.arrays import known, median

#: Cores from which a neighbour is worth naming.
NOTICED = 0.05


@dataclass(frozen=True, slots=True)
class Speed:
    """One yardstick over a side's runs: CPU seconds, and relative `scatter`, ``None`` if not recorded."""

    seconds: float
    scatter: float | None


def speeds(runs: Sequence[Run]) -> Mapping[str, Speed]:
    """Return the yardsticks that all runs have, except readings taken beside the command, which adds load."""
    each = [{one.name: one for one in _of_run(run)} for run in runs]
    names = [name for name in each[0] if all(name in of for of in each)] if each else []
    return {name: _over([of[name] for of in each]) for name in names}


def _of_run(run: Run) -> Sequence[Yardstick]:
    found = run.manifest.yardsticks if run.manifest is not None else ()
    return [one for one in found if _seconds(one) > 0]


def _seconds(one: Yardstick) -> float:
    measured = [seconds for seconds in (one.before_s, one.after_s) if seconds]
    return float(np.mean(measured)) if measured else math.nan


def _over(several: Sequence[Yardstick]) -> Speed:
    seconds = np.array([_seconds(one) for one in several])
    middle = float(median(seconds))
    inside = known(one.scatter for one in several)
    if len(inside) < len(several):
        return Speed(middle, None)
    low, high = np.percentile(seconds, (25, 75))
    return Speed(middle, max(float(median(inside)), float(high - low) / middle))


def neighbours_of(runs: Sequence[Run]) -> Neighbours | None:
    """Return a side's mean neighbours, matched by order of cores used, since pids differ between runs."""
    each = known(None if run.machine is None else run.machine.neighbours for run in runs)
    if len(each) < 2:
        return each[0] if each else None
    kinds: dict[tuple[str, str, str], list[list[Neighbour]]] = {}
    for number, found in enumerate(each):
        for one in found.listed:
            of_runs = kinds.setdefault((one.name, one.user, one.group), [[] for _ in each])
            of_runs[number].append(one)
    listed = [_mean(place, len(each)) for of_runs in kinds.values() for place in zip_longest(*of_runs)]
    cores = [found.cores for found in each]
    return Neighbours(
        queued_s=sum(found.queued_s for found in each),
        listed=tuple(sorted(listed, key=lambda one: -one.cores)),
        cores=None if None in cores else sum(c for c in cores if c is not None) / len(cores),
        all_visible=all(found.all_visible for found in each),
    )


def _mean(place: Sequence[Neighbour | None], runs: int) -> Neighbour:
    present = known(place)
    same = len({one.pid for one in present}) == 1
    return replace(
        present[0],
        cores=sum(one.cores for one in present) / runs,
        pid=present[0].pid if same else None,
        processes=max(one.processes for one in present),
    )
