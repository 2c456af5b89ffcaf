"""Caller–callee sums of both sides under the rows of a `DiffTable`: pairs, not longer paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.model import Edges, Profile
from profkit.model.arrays import Floats, Index, Ints, Rows, distinct, median


@dataclass(frozen=True, slots=True, eq=False)
class CallSide:
    """One side's columns of a `CallTable`, shape (m,): medians over runs; times are seconds."""

    ncalls: Ints
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


def each_call(sides: tuple[Floats, Floats], calls: tuple[Floats, Floats]) -> Floats:
    """Return what each call has of a sum, in the baseline where that has calls, else in the candidate."""
    before, after = (whole / np.maximum(count, 1.0) for whole, count in zip(sides, calls, strict=True))
    return np.where(calls[0] > 0, before, after)


def call_table(
    profiles: tuple[Sequence[Profile], Sequence[Profile]],
    places: tuple[Sequence[Index], Sequence[Index]],
    of_table: tuple[Rows, Rows],
    n: int,
) -> CallTable | None:
    """Return caller–callee sums of both sides under the n table rows; ``None`` if no profile has edges."""
    if not any(profile.edges is not None for side in profiles for profile in side):
        return None
    runs = [
        [_pairs(profile.edges, rows[place], n) for profile, place in zip(side, placed, strict=True)]
        for side, placed, rows in zip(profiles, places, of_table, strict=True)
    ]
    keys = distinct(np.concatenate([pairs for side in runs for _, pairs, _ in side]))
    sides = [_side(of_side, keys) for of_side in runs]
    return CallTable((keys % max(n, 1)).astype(np.int32), (keys // max(n, 1)).astype(np.int32), *sides)


#: Edges of one run within the table, as ``callee · n + caller`` in ascending order, and their edge numbers.
_Pairs: TypeAlias = tuple[Edges, Ints, npt.NDArray[np.intp]]


def _pairs(edges: Edges | None, of_table: Rows, n: int) -> _Pairs:
    edges = edges or Edges.empty()
    caller, callee = of_table[edges.caller], of_table[edges.callee]
    pairs = np.where((caller >= 0) & (callee >= 0), callee * n + caller, -1)
    # Lookups by searchsorted are many times as fast in sorted pairs.
    order = np.argsort(pairs, kind="stable")
    order = order[int((pairs < 0).sum()) :]
    return edges, pairs[order], order


def _side(runs: Sequence[_Pairs], keys: Ints) -> CallSide:
    """Sum each run's edges by key, and return the medians over the runs."""

    places = [np.searchsorted(keys, pairs) for _, pairs, _ in runs]

    def middle(name: str) -> Floats:
        sums = [
            np.bincount(place, getattr(edges, name)[order], len(keys))
            for place, (edges, _, order) in zip(places, runs, strict=True)
        ]
        whole: Floats = median(sums, axis=0)
        return whole

    return CallSide(np.rint(middle("ncalls")).astype(np.int64), middle("tottime"), middle("cumtime"))
