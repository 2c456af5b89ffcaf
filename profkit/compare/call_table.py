"""Caller–callee sums of both sides under the rows of a `DiffTable`: pairs, not longer paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.model import Profile
from profkit.model.arrays import distinct, median

Index = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CallSide:
    """One side's columns of a `CallTable`, shape (m,): medians over runs; times are seconds."""

    ncalls: npt.NDArray[np.int64]
    tottime: Floats
    cumtime: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CallTable:
    """Caller–callee pairs (rows of the function table) by callee; a pair of equal rows is recursion."""

    caller: Index
    callee: Index
    baseline: CallSide
    candidate: CallSide

    def __len__(self) -> int:
        return len(self.caller)


def call_table(
    profiles: tuple[Sequence[Profile], Sequence[Profile]],
    places: tuple[Sequence[Index], Sequence[Index]],
    of_table: tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]],
    n: int,
) -> CallTable | None:
    """Return caller–callee sums of both sides under the n table rows; ``None`` if no profile has edges."""
    if not any(profile.edges is not None for side in profiles for profile in side):
        return None
    pairs = [
        [_pairs(profile, rows[place], n) for profile, place in zip(side, placed, strict=True)]
        for side, placed, rows in zip(profiles, places, of_table, strict=True)
    ]
    # Lookups by searchsorted are many times as fast in sorted pairs.
    orders = [[np.argsort(pair, kind="stable") for pair in side_pairs] for side_pairs in pairs]
    pairs = [
        [pair[order] for pair, order in zip(*of_side, strict=True)]
        for of_side in zip(pairs, orders, strict=True)
    ]
    keys = distinct(np.concatenate([pair for side_pairs in pairs for pair in side_pairs]))
    keys = keys[keys >= 0]
    sides = [_side(*of_side, keys) for of_side in zip(profiles, pairs, orders, strict=True)]
    return CallTable((keys % max(n, 1)).astype(np.int32), (keys // max(n, 1)).astype(np.int32), *sides)


def _pairs(profile: Profile, of_table: npt.NDArray[np.integer], n: int) -> npt.NDArray[np.int64]:
    """Return ``callee · n + caller`` for every edge, −1 for an edge with an end outside the table."""
    if profile.edges is None:
        return np.zeros(0, np.int64)
    caller, callee = of_table[profile.edges.caller], of_table[profile.edges.callee]
    return np.where((caller >= 0) & (callee >= 0), callee * n + caller, -1)


def _side(
    profiles: Sequence[Profile],
    pairs: Sequence[npt.NDArray[np.int64]],
    orders: Sequence[npt.NDArray[np.intp]],
    keys: npt.NDArray[np.int64],
) -> CallSide:
    """Sum each run's edges by key; `pairs` are sorted, and `orders` are the edge numbers in that order."""
    shape = (len(profiles), len(keys))
    counts, own, times = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for run, (profile, pair, order) in enumerate(zip(profiles, pairs, orders, strict=True)):
        if profile.edges is None:
            continue
        within = int(np.searchsorted(pair, 0))
        known = order[within:]
        at = np.searchsorted(keys, pair[within:])
        counts[run] = np.bincount(at, profile.edges.ncalls[known], len(keys))
        own[run] = np.bincount(at, profile.edges.tottime[known], len(keys))
        times[run] = np.bincount(at, profile.edges.cumtime[known], len(keys))
    if len(profiles) == 1:
        return CallSide(np.rint(counts[0]).astype(np.int64), own[0], times[0])
    count, own_time, time = (median(values, axis=0) for values in (counts, own, times))
    return CallSide(np.rint(count).astype(np.int64), own_time, time)
