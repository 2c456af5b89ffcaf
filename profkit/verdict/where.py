"""Where the waiting fell, and what asked for the CPUs: functions, NVTX ranges and thread pools, as evidence.

Read by the rules of contention: want of CPUs is also *where* it hurt. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from profkit.measure.signals import Facts
from profkit.measure.inventory import Inventory
from profkit.verdict.types import Evidence
from profkit.identity.readable import readable_name
from profkit.verdict.wording import percent, seconds

if TYPE_CHECKING:
    from profkit.measure.range_stats import RangeChange

__all__ = ["what_asked", "where_it_fell"]

#: Functions and ranges that are named.
NAMED = 3
#: Part of its own time that a range must have waited to be named.
LEAST_SHARE = 0.1
#: Part of all queueing in functions that one must hold to be named.
LEAST_PART = 0.05


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
    top = [
        row for row in np.argsort(-after, kind="stable")[:NAMED].tolist() if after[row] >= LEAST_PART * whole
    ]
    return [
        Evidence(
            f"queueing in {readable_name(table.name[row])}",
            _of(None if before is None else float(before[row]), float(table.baseline.tottime[row])),
            _of(float(after[row]), float(table.candidate.tottime[row])),
            f"{percent(float(after[row]) / whole)} of all queueing in functions",
        )
        for row in top
    ]


def _of(waited: float | None, whole: float) -> str:
    """Seconds waited, and which part of a function's self time they are."""
    if waited is None or whole <= 0:
        return "–"
    return f"{seconds(waited)} ({percent(min(1.0, waited / whole))} of it)"


def _ranges(changes: Sequence[RangeChange]) -> list[Evidence]:
    waited = [
        (change.candidate.wait_s, change)
        for change in changes
        if change.candidate is not None
        and change.candidate.wait_s is not None
        and (change.candidate.wait_share or 0.0) >= LEAST_SHARE
    ]
    waited.sort(key=lambda item: -item[0])

    def told(change: RangeChange, side: str) -> str:
        row = getattr(change, side)
        return (
            "–"
            if row is None or row.wait_s is None
            else f"{seconds(row.wait_s)} ({percent(row.wait_share)} of it)"
        )

    return [
        Evidence(
            f"queueing in range {change.key.name}",
            told(change, "baseline"),
            told(change, "candidate"),
            "NVTX range",
        )
        for _, change in waited[:NAMED]
    ]


def what_asked(facts: Facts) -> tuple[Evidence, ...]:
    """Say how many cores the thread pools of both sides ask for, and why; nothing where nobody looked."""
    a, b = facts.baseline.inventory, facts.candidate.inventory
    if a.expected_cores is None or b.expected_cores is None:
        return ()
    says = f"{b.available_cpus:g} are there" if b.available_cpus else "what their settings ask for"
    cell, origin = _asked(b)
    return (
        Evidence(
            "cores that its processes and thread pools ask for",
            _asked(a)[0],
            cell,
            says + (f" ({origin})" if origin else ""),
        ),
    )


def _asked(of: Inventory) -> tuple[str, str]:
    """Cores asked for with the largest pools, and where the size of these came from."""
    text = f"{of.expected_cores:.3g}"
    rows = [row for row in of.rows if row.threads and row.threads > 1 and not row.process.idle]
    if not rows:
        return text, ""
    largest = max(rows, key=lambda row: row.threads or 0)
    alike = len({row.process.pid for row in rows if row.threads == largest.threads})
    words = {"default": "by default", "program": "set by the program"}
    many = f"{alike} × " if alike > 1 else ""
    origin = largest.pool.variable or words.get(largest.pool.origin, "")
    return f"{text}: {many}{largest.library} {largest.threads}", origin
