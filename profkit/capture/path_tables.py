"""Converts an agent's calling contexts of one thread to `Paths`; contexts with little time are summed up."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.capture.record_types import ThreadTable
from profkit.model.arrays import Floats, Index, Ints
from profkit.model.paths import Paths, with_callees

#: Share of the thread's time, callees included, from which a context is kept.
LEAST_SHARE = 2e-5


def paths_of(table: ThreadTable, row_of: Index) -> Paths | None:
    """Return the contexts of a thread, or ``None``; `row_of` maps function numbers to profile rows, or −1."""
    seen = table.paths
    if not len(seen.parent):
        return None
    parent = seen.parent
    function = np.append(row_of, np.int32(-1))[seen.function]  # -1 is the last, also without functions
    kept = (function >= 0) & (with_callees(parent, seen.tottime) >= LEAST_SHARE * seen.tottime.sum())
    inside = parent >= 0
    while (inside & kept & ~kept[parent]).any():
        kept &= ~inside | kept[parent]
    (lost,) = np.nonzero(~kept)
    around = parent[lost]
    while (further := (around >= 0) & ~kept[around]).any():
        around[further] = parent[around[further]]
    # Omitted contexts become one row for each kept caller.
    found = np.zeros(len(parent) + 1, bool)
    found[around + 1] = True
    callers = np.flatnonzero(found) - 1
    group = (np.cumsum(found) - 1)[around + 1]
    number = np.cumsum(kept) - 1

    def summed(values: npt.NDArray[Any]) -> Floats:
        return np.concatenate([values[kept], np.bincount(group, values[lost], len(callers))])

    def numbered(rows: Ints) -> Ints:
        return np.where(rows >= 0, number[rows], -1)

    # Without kernel counters, a thread's waiting is unknown, not zero.
    unknown = 0.0 if table.measured else np.nan
    return Paths(
        np.concatenate([numbered(parent[kept]), numbered(callers)]).astype(np.int32),
        np.concatenate([function[kept], np.full(len(callers), -1)]).astype(np.int32),
        np.rint(summed(seen.calls)).astype(np.int64),
        summed(seen.tottime),
        summed(seen.wait) + unknown,
        summed(seen.blocked) + unknown,
    )
