"""Functions that wait by design (by name), and their callees and wrappers, whose time is not work."""

from __future__ import annotations

import numpy as np

from profkit.compare.call_table import CallTable
from profkit.compare.result_types import DiffTable
from profkit.identity.lookup_columns import rows_where
from profkit.measure.waits_by_name import also_computes
from profkit.model import BUILTIN, STDLIB
from profkit.model.arrays import Bools

#: Part of a function's calls that must come from waiting functions for it to serve them.
SERVES = 0.9
#: Part of a function's cumulative time that must be in waiting functions for it to wrap them.
WRAPS = 0.5
#: Most levels of wrappers and servants.
LEVELS = 6


def waiting_rows(table: DiffTable, calls: CallTable | None) -> Bools:
    """Return the functions that wait by design or only serve waiting; by name if calls are unknown.

    Only native and standard library functions wrap or serve: a project's polling loop does not.
    """
    named = np.zeros(len(table), np.bool_)
    # Project functions never wait by name, so most rows need no check.
    asked = np.flatnonzero(table.native | table.in_roots(STDLIB)).tolist()
    named[[row for row in asked if table.waits(row)]] = True
    if calls is None or not len(calls) or not named.any():
        return named
    n = len(named)
    library = table.in_roots(STDLIB, BUILTIN)
    caller, callee = calls.caller.astype(np.intp), calls.callee.astype(np.intp)
    count = (calls.baseline.ncalls + calls.candidate.ncalls).astype(np.float64)
    time = calls.baseline.cumtime + calls.candidate.cumtime
    called = np.bincount(callee, count, n)
    whole = table.baseline.cumtime + table.candidate.cumtime
    # Wrappers of file reads also compute, so they do not wait by design.
    waits: Bools = named & ~rows_where(table.name, also_computes)
    for _ in range(LEVELS):
        below = np.bincount(callee, count * waits[caller], n)
        within = np.bincount(caller, time * waits[callee], n)
        more = library & (
            ((called > 0) & (below >= SERVES * called)) | ((whole > 0) & (within >= WRAPS * whole))
        )
        following = waits | more
        if np.array_equal(following, waits):
            break
        waits = following
    return waits | named
