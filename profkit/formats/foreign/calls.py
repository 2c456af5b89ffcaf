"""Nested intervals of threads as profiles and ranges: exact calls and times from tracers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from profkit.formats.foreign.stacks import DEEPEST, NATIVE, Frame, Stack, profile_of
from profkit.model import Edges, Profile, ProfileError, Ranges
from profkit.model.arrays import Floats
from profkit.model.bounds import Seconds, bounds_of
from profkit.model.merge import Strings
from profkit.model.ranges import PUSHED
from profkit.model.run import GpuIdle, GpuUse

#: Begin, end and frame of a call, in any time unit.
Call: TypeAlias = tuple[float, float, Frame]
#: Begin and end in nanoseconds, name, domain, thread, kind (`PUSHED` or `STARTED`).
RangeRow: TypeAlias = tuple[int, int, str, str, int, int]


def profile_from_calls(calls: Iterable[Call], unit_s: float) -> Profile:
    """Sum the calls of one thread by function, and by caller and callee.

    A call that outlasts its caller is cut. `unit_s` is the time unit in seconds. Raise `ProfileError` for
    impossible numbers.
    """
    numbers: dict[Frame, int] = {}
    # Calls, primitive calls, self time, cumulative time.
    rows: list[list[float]] = []
    pairs: dict[tuple[int, int], list[float]] = {}
    within: list[int] = []  # open calls of each function
    open_: list[tuple[float, float, int]] = []  # begin, end, function
    inside: list[float] = []  # time of the callees of each open call

    def close() -> None:
        begin, end, row = open_.pop()
        own = end - begin - inside.pop()
        within[row] -= 1
        sums = [rows[row]]
        if open_:
            inside[-1] += end - begin
            sums.append(pairs.setdefault((open_[-1][2], row), [0, 0, 0.0, 0.0]))
        for of in sums:
            of[0] += 1
            of[1] += not within[row]
            of[2] += own * unit_s
            of[3] += 0.0 if within[row] else (end - begin) * unit_s

    for begin, end, frame in sorted(calls, key=_outer_first):
        while open_ and open_[-1][1] <= begin:
            close()
        row = numbers.setdefault(frame, len(numbers))
        if row == len(rows):
            rows.append([0, 0, 0.0, 0.0])
            within.append(0)
        within[row] += 1
        open_.append((begin, max(begin, min(end, open_[-1][1]) if open_ else end), row))
        inside.append(0.0)
    while open_:
        close()
    return _profile(list(numbers), np.array(rows, np.float64).reshape(-1, 4), pairs)


def _outer_first(call: Call) -> tuple[float, float]:
    return call[0], -call[1]


def segments(calls: Iterable[Call]) -> Iterator[tuple[Stack, float, float]]:
    """Yield the stacks of one thread in time order with begin and end, without overlaps."""
    ends: list[float] = []
    frames: list[Frame] = []
    at = 0.0
    for begin, end, frame in [*sorted(calls, key=_outer_first), (math.inf, math.inf, ("", 0, ""))]:
        while ends and ends[-1] <= begin:
            if ends[-1] > at:
                yield tuple(frames), at, ends[-1]
            at = max(at, ends.pop())
            frames.pop()
        if ends and begin > at:
            yield tuple(frames), at, begin
        at = begin
        ends.append(min(end, ends[-1]) if ends else end)
        frames.append(frame)
        if len(frames) > DEEPEST:
            raise ProfileError(f"its calls nest deeper than {DEEPEST:,}")


def _profile(frames: Sequence[Frame], sums: Floats, pairs: dict[tuple[int, int], list[float]]) -> Profile:
    of_pairs = np.array(list(pairs.values()), np.float64).reshape(-1, 4)
    between = np.array(list(pairs), np.int32).reshape(-1, 2).T.copy()
    counts, times = sums[:, :2].T.astype(np.int64), sums[:, 2:].T.copy()
    link_counts, link_times = of_pairs[:, :2].T.astype(np.int64), of_pairs[:, 2:].T.copy()
    # Float subtraction may leave values slightly below 0.
    times[0], link_times[0] = (np.where(np.abs(own) < 1e-12, 0.0, own) for own in (times[0], link_times[0]))
    return profile_of(frames, (*counts, *times), Edges(*between, *link_counts, *link_times))


def ranges_from(rows: Sequence[RangeRow]) -> Ranges:
    """Return ranges; a pushed one is inside the innermost pushed one around it, of its thread and domain."""
    rows = sorted(rows, key=lambda row: (row[4], row[0], -row[1]))
    strings = Strings()
    parents: list[int] = []
    open_: dict[tuple[int, str], list[int]] = {}
    for i, (begin, end, _, domain, thread, kind) in enumerate(rows):
        if kind != PUSHED:
            parents.append(-1)
            continue
        around = open_.setdefault((thread, domain), [])
        while around and rows[around[-1]][1] < max(end, begin + 1):
            around.pop()
        parents.append(around[-1] if around else -1)
        around.append(i)
    names, domains = strings.join([tuple(row[2] for row in rows), tuple(row[3] for row in rows)])
    n = len(rows)
    try:
        begin_ns, end_ns, threads = (np.array([row[i] for row in rows], np.int64) for i in (0, 1, 4))
    except OverflowError:
        raise ProfileError("holds an invalid time") from None
    return Ranges(
        strings=tuple(strings.texts),
        name=names,
        domain=domains,
        category=np.zeros(n, np.int32),
        kind=np.array([row[5] for row in rows], np.uint8),
        thread=threads,
        begin_ns=begin_ns,
        end_ns=end_ns,
        parent=np.array(parents, np.int32),
        color=np.zeros(n, np.uint32),
        payload_type=np.zeros(n, np.uint8),
        payload=np.zeros(n, np.uint64),
    ).validate()


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
