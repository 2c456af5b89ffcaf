"""One side's replicates under common rows, and the medians over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.identity.align import align
from profkit.identity.rooted_paths import joined_roots
from profkit.model import Profile, Roots
from profkit.model.arrays import Floats, Index, median
from profkit.model.estimates import estimates_of
from profkit.model.profile import ESTIMATES, MEASURED, SUMMED, TEXTS

CALL_COLUMNS = ("ncalls", "primitive_calls")
VALUE_COLUMNS = (*SUMMED, *MEASURED)
#: Values of columns that are not measured, and do not say how well others are known.
UNSTATED: Mapping[str, Any] = dict.fromkeys((*MEASURED, *ESTIMATES))


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Replicates of one side; `profile` holds their medians, without edges.

    `ncalls` to `blocked` have shape (runs, n): 0 where a run lacks a function, NaN for unknown calls,
    ``None`` unless every run measured them. `places` holds the row of `profile` for each row of each run.
    `unseen_s` is the most seconds that all runs may have missed of a function, 0 where one is exact.
    """

    profile: Profile
    roots: Roots
    ncalls: Floats
    tottime: Floats
    cumtime: Floats
    blocked: Floats | None
    places: tuple[Index, ...]
    unseen_s: float = 0.0

    @property
    def runs(self) -> int:
        return len(self.tottime)

    @property
    def exact(self) -> bool:
        """Whether all calls and times are exact."""
        return self.profile.calls_low is None


def ranked_times(a: Replicates, b: Replicates, by: str) -> tuple[Floats, Floats]:
    """Return the seconds that functions are ranked by, shape (runs, n): active time if both know it."""
    active = a.blocked is not None and b.blocked is not None
    return ranked_seconds(a, by, active), ranked_seconds(b, by, active)


def ranked_seconds(of: Replicates | Profile, by: str, active: bool = True) -> Floats:
    """Return the seconds that functions are ranked by; self time, if `active`, less unqueued time off the CPU."""
    if by == "cumtime":
        return of.cumtime
    return np.maximum(of.tottime - of.blocked, 0.0) if active and of.blocked is not None else of.tottime


def gather(profiles: Sequence[Profile], roots: Sequence[Roots], unseen_s: Sequence[float]) -> Replicates:
    """Bring one or more runs of a side under common rows; `unseen_s` is 0 for a run that is exact."""
    union = replace(profiles[0], edges=None, **UNSTATED)
    known = roots[0]
    places = [np.arange(len(union), dtype=np.int32)]
    for profile, own in zip(profiles[1:], roots[1:], strict=True):
        found = align(union, profile, known, own)
        place = np.empty(len(profile), np.int32)
        place[found.candidate] = found.baseline
        place[found.candidate_only] = len(union) + np.arange(len(found.candidate_only), dtype=np.int32)
        union = _extended(union, profile, found.candidate_only)
        places.append(place)
        known = joined_roots((known, own))
    columns: dict[str, Any] = {name: _stacked(profiles, places, name, len(union)) for name in VALUE_COLUMNS}
    estimates = _estimates(profiles, places, unseen_s, len(union))
    if estimates is not None:
        unknown = np.isnan(estimates["calls_low"])
        columns |= {name: np.where(unknown, np.nan, columns[name]) for name in CALL_COLUMNS}
    values: dict[str, Any] = {
        name: None if stack is None else stack[0] if len(stack) == 1 else _median(stack)
        for name, stack in columns.items()
    }
    values |= {name: np.rint(np.nan_to_num(values[name])).astype(np.int64) for name in CALL_COLUMNS}
    if estimates is not None:
        values |= _middle_estimates(estimates, columns["tottime"])
    return Replicates(
        replace(union, **values),
        known,
        columns["ncalls"],
        columns["tottime"],
        columns["cumtime"],
        columns["blocked"],
        tuple(places),
        # Samples of all runs add up.
        1.0 / sum(1.0 / seconds for seconds in unseen_s) if all(s > 0 for s in unseen_s) else 0.0,
    )


def _median(stack: Floats) -> Floats:
    """Return the median over the runs that know a value, NaN where none does."""
    known = ~np.isnan(stack)
    if known.all():
        whole: Floats = median(stack, axis=0)
        return whole
    result = np.full(stack.shape[1], np.nan)
    some = known.any(axis=0)
    result[some] = np.nanmedian(stack[:, some], axis=0)
    return result


def _estimates(
    profiles: Sequence[Profile], places: Sequence[Index], unseen_s: Sequence[float], n: int
) -> dict[str, Floats] | None:
    """Return how well each run knows each row, by name; ``None`` where all are exact."""
    if all(p.calls_low is None and not unseen for p, unseen in zip(profiles, unseen_s, strict=True)):
        return None
    stacks = {name: np.zeros((len(profiles), n)) for name in ESTIMATES}
    for i, (profile, place, unseen) in enumerate(zip(profiles, places, unseen_s, strict=True)):
        if unseen > 0:
            stacks["calls_low"][i] = stacks["calls_high"][i] = np.nan
            stacks["tottime_error"][i] = unseen
        for name, values in estimates_of(profile).items():
            stacks[name][i, place] = values
    return stacks


def _middle_estimates(stacks: dict[str, Floats], tottime: Floats) -> dict[str, npt.NDArray[np.generic]]:
    """Return columns `ESTIMATES` of the medians: medians of limits enclose the median value."""
    error, middle = stacks["tottime_error"], median(tottime, axis=0)
    above, below = (median(tottime + sign * error, axis=0) for sign in (1, -1))
    return {
        "calls_low": _median(stacks["calls_low"]),
        "calls_high": _median(stacks["calls_high"]),
        "samples": np.rint(median(stacks["samples"], axis=0)).astype(np.int64),
        "tottime_error": np.maximum(above - middle, middle - below),
    }


def _extended(union: Profile, profile: Profile, rows: Index) -> Profile:
    """Return the union with further rows, and with what aligns them; `gather` fills in all times."""
    if not len(rows):
        return union
    table = {text: i for i, text in enumerate(union.strings)}
    place = np.array([table.setdefault(text, len(table)) for text in profile.strings], np.int32)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(union, name), place[getattr(profile, name)[rows]]]) for name in TEXTS
    }
    for name in ("line", *CALL_COLUMNS, "tottime", "cumtime"):
        columns[name] = np.concatenate([getattr(union, name), getattr(profile, name)[rows]])
    return replace(union, strings=tuple(table), **columns)


def _stacked(profiles: Sequence[Profile], places: Sequence[Index], name: str, n: int) -> Floats | None:
    """Return one column of all runs, shape (runs, n), or ``None`` where a run lacks it."""
    stack = np.zeros((len(profiles), n))
    for i, (profile, place) in enumerate(zip(profiles, places, strict=True)):
        values = getattr(profile, name)
        if values is None:
            return None
        stack[i, place] = values
    return stack
