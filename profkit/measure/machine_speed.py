"""How fast a side's machine did fixed work: the yardsticks of its runs, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.model import Run, Yardstick
from profkit.model.arrays import known, median


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
