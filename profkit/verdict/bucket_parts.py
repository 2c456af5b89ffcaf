"""Parts of the buckets of an account: the functions and ranges that make one up, and what they waited for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from profkit.identity.readable_names import readable_name
from profkit.measure.range_stats import RangeChange
from profkit.model.arrays import Floats
from profkit.model.pauses import WAITS
from profkit.verdict.account import Part, Waited
from profkit.verdict.thresholds import value

#: Most functions kept for each bucket.
PARTS = 8


def queued_ranges(changes: Sequence[RangeChange]) -> list[Part]:
    """Return NVTX ranges whose thread queued longer than in the baseline, greatest growth first."""
    grown = []
    for change in changes:
        before, after = (0.0 if row is None else row.wait_s for row in (change.baseline, change.candidate))
        if before is not None and after is not None and after > before:
            grown.append(Part(-1, change.key.name, after - before, "range"))
    return sorted(grown, key=lambda part: -part.seconds)


def waited_kinds(names: Sequence[str], a: Floats | None, b: Floats | None) -> tuple[Waited, ...]:
    """Return what both sides waited for, by kind; `a` is ``None`` for one run alone.

    Rows are `WAITS`, and columns functions; one row alone is of the interpreter's lock, the first of them.
    """
    if b is None or not b.size:
        return ()
    b = np.atleast_2d(b)
    before = np.zeros(b.shape) if a is None else np.atleast_2d(a)
    change = b - before
    found = [
        Waited(what, float(before[i].sum()), float(b[i].sum()), row, readable_name(names[row]))
        for i, what in enumerate(WAITS[: len(b)])
        if b[i].any() or before[i].any()
        for row in (int(np.argmax(np.abs(change[i]))),)
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.candidate_s - one.baseline_s)))


def with_what(parts: Sequence[Part], a: Floats | None, b: Floats | None) -> tuple[Part, ...]:
    """Return the same parts, each with its main wait."""
    if b is None or not b.size:
        return tuple(parts)
    change = b if a is None else b - a
    found = []
    for part in parts:
        by_kind = change[:, part.row] * math.copysign(1.0, part.seconds)
        most = int(np.argmax(by_kind))
        found.append(
            replace(part, what=WAITS[most])
            if by_kind[most] >= value("part.most") * abs(part.seconds)
            else part
        )
    return tuple(found)


#: Fewest seconds for which a function held the lock: the kernel's clocks count ns.
_RESOLUTION_S = 1e-9


def holders(names: Sequence[str], a: Floats | None, b: Floats | None) -> tuple[Part, ...]:
    """Return functions that held the interpreter's lock while others waited longer for it."""
    if b is None:
        return ()
    return largest(names, b if a is None else b - a, 1.0, "holder", _RESOLUTION_S)


def largest(
    names: Sequence[str], rows: Floats | None, seconds: float, kind: str = "function", least: float = 0.0
) -> tuple[Part, ...]:
    """Return the functions that moved a bucket in its direction, by more than `least`, greatest first."""
    if rows is None or not len(rows) or not seconds:
        return ()
    pushed = rows * math.copysign(1.0, seconds)
    order = np.argsort(-pushed, kind="stable")[:PARTS]
    return tuple(
        Part(i, readable_name(names[i]), float(rows[i]), kind) for i in order.tolist() if pushed[i] > least
    )
