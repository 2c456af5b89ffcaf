"""GPU idle time in a trace, and what the launching CPU thread did meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from profkit.formats.foreign.stacks import NATIVE, Stack
from profkit.model import ProfileError
from profkit.model.bounds import Seconds, bounds_of
from profkit.model.gpu_use import GpuIdle, GpuUse

#: Most entries of `GpuUse.idle`.
_KEPT = 50


def gpu_use(
    work: Iterable[tuple[float, float]], running: Iterable[tuple[Stack, float, float]], unit_s: float
) -> GpuUse | None:
    """Return how much the GPUs worked, ``None`` if they did not; raise `ProfileError` for impossible times.

    `work` are begins and ends. `running` are the stacks of the launching thread, in time order without
    overlaps. `unit_s` is the time unit in seconds.
    """
    busy: list[list[float]] = []
    for begin, end in sorted(work):
        if busy and begin <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([begin, end])
    if not busy:
        return None
    pauses = [(before[1], after[0]) for before, after in pairwise(busy)]
    span, worked = busy[-1][1] - busy[0][0], sum(end - begin for begin, end in busy)
    found: dict[tuple[str, str], float] = {}
    at = 0
    for stack, begin, end in running:
        while at < len(pauses) and pauses[at][1] <= begin:
            at += 1
        i = at
        while i < len(pauses) and pauses[i][0] < end:
            part = min(end, pauses[i][1]) - max(begin, pauses[i][0])
            key = _named(stack)
            found[key] = found.get(key, 0.0) + part
            i += 1
    rest = max(0.0, span - worked - sum(found.values()))
    if rest > (span - worked) / 1000:
        found["", ""] = rest
    longest = sorted(found.items(), key=lambda item: -item[1])[:_KEPT]
    idle = tuple(GpuIdle(function, within, seconds * unit_s) for (function, within), seconds in longest)
    bounds = bounds_of(Seconds)
    assert bounds is not None
    for seconds in (span * unit_s, worked * unit_s, *(row.seconds for row in idle)):
        if problem := bounds.problem(seconds):
            raise ProfileError(f"a time of its GPU {problem}")
    return GpuUse(span * unit_s, worked * unit_s, idle)


def _named(stack: Stack) -> tuple[str, str]:
    python = next((name for file, _, name in reversed(stack) if file != NATIVE), "")
    innermost = stack[-1]
    return innermost[2], python if innermost[0] == NATIVE else ""
