"""Where the waiting fell, and what asked for the CPUs: functions, NVTX ranges and thread pools, as evidence.

Read by the rules of contention: want of CPUs is also *where* it hurt. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.analysis.facts import Facts
from profkit.analysis.inventory import Inventory
from profkit.analysis.ranges import RangeChange
from profkit.analysis.types import Evidence
from profkit.analysis.wording import percent, readable_name, seconds

__all__ = ["what_asked", "where_it_fell"]

#: Functions and ranges that are named.
NAMED = 3
#: Part of its own time that a range must have waited to be named.
LEAST_SHARE = 0.1


def where_it_fell(facts: Facts) -> tuple[Evidence, ...]:
    """Name the functions that queued most for a CPU, and the ranges that lost most to it.

    Parameters
    ----------
    facts
        With a table whose candidate has a column of waiting, or ranges with theirs; empty without either.
    """
    found = [*_functions(facts), *_ranges(facts.ranges)]
    return tuple(found)


def _functions(facts: Facts) -> list[Evidence]:
    table = facts.table
    after = table.candidate.wait
    if after is None:
        return []
    whole = float(after.sum())
    if whole <= 0:
        return []
    before = table.baseline.wait
    top = [row for row in np.argsort(-after, kind="stable")[:NAMED].tolist() if after[row] > 0]
    named = [
        f"{readable_name(table.name[row])} {seconds(float(after[row]))} "
        f"({percent(float(after[row]) / max(float(table.candidate.tottime[row]), 1e-12))} of it)"
        for row in top
    ]
    return [
        Evidence(
            "queueing, by function",
            seconds(float(before.sum())) if before is not None else "–",
            "; ".join(named),
            f"{percent(float(after[top].sum()) / whole)} of {seconds(whole)} in all functions",
        )
    ]


def _ranges(changes: Sequence[RangeChange]) -> list[Evidence]:
    waited = [
        (change.candidate.wait_s, change)
        for change in changes
        if change.candidate is not None
        and change.candidate.wait_s is not None
        and (change.candidate.wait_share or 0.0) >= LEAST_SHARE
    ]
    if not waited:
        return []
    waited.sort(key=lambda item: -item[0])
    top = [change for _, change in waited[:NAMED]]

    def told(change: RangeChange, side: str) -> str:
        row = getattr(change, side)
        if row is None or row.wait_s is None:
            return f"{change.key.name} –"
        return f"{change.key.name} {seconds(row.wait_s)} ({percent(row.wait_share)})"

    return [
        Evidence(
            "queueing, by NVTX range",
            "; ".join(told(change, "baseline") for change in top),
            "; ".join(told(change, "candidate") for change in top),
            "part of the ranges' own time; ranges lie within each other",
        )
    ]


def what_asked(facts: Facts) -> tuple[Evidence, ...]:
    """Say how many cores the thread pools of both sides ask for, and why; nothing where nobody looked."""
    a, b = facts.baseline.inventory, facts.candidate.inventory
    if a.expected_cores is None or b.expected_cores is None:
        return ()
    says = f"{b.available_cpus:g} are there" if b.available_cpus else "what their settings ask for"
    return (Evidence("cores that its processes and thread pools ask for", _asked(a), _asked(b), says),)


def _asked(of: Inventory) -> str:
    """Cores asked for, and the largest pool with where its size came from."""
    text = f"{of.expected_cores:.3g}"
    rows = [row for row in of.rows if row.threads and row.threads > 1 and not row.process.idle]
    if not rows:
        return text
    largest = max(rows, key=lambda row: row.threads or 0)
    alike = len({row.process.pid for row in rows if row.threads == largest.threads})
    origin = largest.pool.variable or {"default": "default", "program": "set by the program"}.get(
        largest.pool.origin, ""
    )
    many = f"{alike} × " if alike > 1 else ""
    return f"{text}: {many}{largest.library} {largest.threads}" + (f" ({origin})" if origin else "")
