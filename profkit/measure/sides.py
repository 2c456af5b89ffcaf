"""One side of a comparison: its replicates under common rows, and the medians over them.

Between `select` and `diff`. Runs of a side are aligned to the union of those before them, so that a function
that the first run lacks is not lost; what the sides are to each other is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.identity.align import align
from profkit.model import Profile, Roots
from profkit.model.estimates import estimates_of, known_calls
from profkit.model.profile import ESTIMATES

__all__ = ["Side", "gather", "ranked_times"]

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int32]
INDEX_COLUMNS = ("file", "name", "qualname", "module", "source_hash")
VALUE_COLUMNS = (
    "ncalls",
    "primitive_calls",
    "tottime",
    "cumtime",
    "wait",
    "blocked",
    "cumwait",
    "cumblocked",
)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Replicates of one side.

    Attributes
    ----------
    profile : Profile
        Every function of any run; counts and times are medians over the runs, 0 counting for a run that lacks
        the function, as are the limits of what was estimated. Without edges.
    roots : Roots
        Directories of all runs.
    ncalls, tottime, cumtime : float64 array, shape (runs, n)
        Each run's own.
    blocked, cumblocked : float64 array, shape (runs, n), or None
        Of these times, what was off the CPU without queueing, where a tracer measured that in every run.
    places : tuple of int32 arrays
        Row of `profile` for each row of each run.
    """

    profile: Profile
    roots: Roots
    ncalls: Floats
    tottime: Floats
    cumtime: Floats
    blocked: Floats | None
    cumblocked: Floats | None
    places: tuple[Index, ...]

    @property
    def runs(self) -> int:
        """Number of replicates."""
        return len(self.tottime)


def ranked_times(a: Side, b: Side, by: str) -> tuple[Floats, Floats]:
    """What functions are ranked by in every run of either side: active time where both sides know it.

    Parameters
    ----------
    a, b
        Baseline and candidate.
    by
        ``tottime`` or ``cumtime``.

    Returns
    -------
    baseline, candidate : float64 array, shape (runs of that side, functions of that side)
        Seconds.
    """
    active = a.blocked is not None and b.blocked is not None

    def times(side: Side) -> Floats:
        whole = side.tottime if by == "tottime" else side.cumtime
        off = side.blocked if by == "tottime" else side.cumblocked
        return np.maximum(whole - off, 0.0) if active and off is not None else whole

    return times(a), times(b)


def gather(profiles: Sequence[Profile], roots: Sequence[Roots]) -> Side:
    """Bring the profiles of one side's runs under common rows.

    Parameters
    ----------
    profiles, roots
        One per run, at least one.

    Returns
    -------
    Side
    """
    exact: Mapping[str, Any] = dict.fromkeys(ESTIMATES)
    union = replace(profiles[0], edges=None, **exact)
    known = roots[0]
    places = [np.arange(len(union), dtype=np.int32)]
    for profile, own in zip(profiles[1:], roots[1:], strict=True):
        found = align(union, profile, known, own)
        place = np.empty(len(profile), np.int32)
        place[found.candidate] = found.baseline
        place[found.candidate_only] = len(union) + np.arange(len(found.candidate_only), dtype=np.int32)
        union = _extended(union, profile, found.candidate_only)
        places.append(place)
        known = Roots(
            _both(known.stdlib, own.stdlib), _both(known.site, own.site), _both(known.project, own.project)
        )
    columns = {name: _stacked(profiles, places, name, len(union)) for name in VALUE_COLUMNS}
    ncalls, tottime, cumtime = columns["ncalls"], columns["tottime"], columns["cumtime"]
    assert ncalls is not None
    assert tottime is not None
    assert cumtime is not None
    values: dict[str, npt.NDArray[np.generic] | None] = {}
    for name, stack in columns.items():
        middle = None if stack is None else stack[0] if len(stack) == 1 else np.median(stack, axis=0)
        whole = name in ("ncalls", "primitive_calls") and middle is not None
        values[name] = np.rint(middle).astype(np.int64) if whole and middle is not None else middle
    middles: dict[str, Any] = {**values, **_estimates(profiles, places, len(union), values)}
    return Side(
        replace(union, **middles),
        known,
        ncalls,
        tottime,
        cumtime,
        columns["blocked"],
        columns["cumblocked"],
        tuple(places),
    )


def _estimates(
    profiles: Sequence[Profile], places: Sequence[Index], n: int, calls: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Medians over the runs of how well counts and times are known, and of calls; nothing where all is exact."""
    if all(profile.calls_low is None for profile in profiles):
        return {}
    stacks = {name: np.zeros((len(profiles), n)) for name in ESTIMATES}
    for i, (profile, place) in enumerate(zip(profiles, places, strict=True)):
        for name, values in estimates_of(profile).items():
            stacks[name][i, place] = values
    found: dict[str, Any] = {name: np.median(stack, axis=0) for name, stack in stacks.items()}
    found["samples"] = np.rint(found["samples"]).astype(np.int64)
    for name in ("ncalls", "primitive_calls"):
        found[name] = known_calls(calls[name], found["calls_low"])
    return found


def _both(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(first + second))


def _extended(union: Profile, profile: Profile, rows: Index) -> Profile:
    """The union with further rows; their times are filled in later, for all runs at once."""
    if not len(rows):
        return union
    table = {text: i for i, text in enumerate(union.strings)}
    place = np.array([table.setdefault(text, len(table)) for text in profile.strings], np.int32)
    columns: dict[str, npt.NDArray[np.generic] | None] = {
        name: np.concatenate([getattr(union, name), place[getattr(profile, name)[rows]]])
        for name in INDEX_COLUMNS
    }
    columns["line"] = np.concatenate([union.line, profile.line[rows]])
    for name in VALUE_COLUMNS:
        ours, theirs = getattr(union, name), getattr(profile, name)
        both = ours is not None and theirs is not None
        columns[name] = np.concatenate([ours, theirs[rows]]) if both else None
    return replace(union, strings=tuple(table), **columns)  # type: ignore[arg-type]


def _stacked(profiles: Sequence[Profile], places: Sequence[Index], name: str, n: int) -> Floats | None:
    """One column of all runs, ``None`` where some run lacks it."""
    stack = np.zeros((len(profiles), n))
    for i, (profile, place) in enumerate(zip(profiles, places, strict=True)):
        values = getattr(profile, name)
        if values is None:
            return None
        stack[i, place] = values
    return stack
