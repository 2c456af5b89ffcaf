"""Calls of mpi4py, which no tracer sees, as functions, from samples (``native/tracer/rank_calls.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model import Edges, Paths, Profile, RangeCalls, Thread
from profkit.model.arrays import Floats
from profkit.model.estimates import NORMAL, estimates_of

#: Methods by the tracer's numbers; the first is of tracers that did not tell them apart.
_METHODS = """
call Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv Probe Recv Reduce Scatter
Scatterv Sendrecv Wait Waitall Waitany allgather allreduce alltoall barrier bcast sendrecv
Reduce_scatter Send Ssend ssend recv send gather scatter reduce probe wait
"""
RANK_METHODS = tuple(_METHODS.split())

#: Share of a function's self time in such calls from which all of it counts: samples miss the difference.
WRAPS = 0.8


def mpi_call(method: int) -> tuple[str, str]:
    """Return file and name of the native function that stands for a method."""
    return "~", f"<built-in method mpi4py.MPI.{RANK_METHODS[method]}>"


def with_mpi_calls(
    thread: Thread,
    seen: Mapping[int, tuple[Floats, int]],
    looked: Floats,
    texts: Mapping[int, tuple[int, int]],
    strings: tuple[str, ...],
) -> Thread:
    """Move callers' self time to a function for each method, whose number of calls is unknown.

    `seen` are seconds by the caller's row, and samples, of each method. `looked` are the seconds that samples
    saw of each row: of short calls, they see only a part.
    """
    n = len(thread.profile)
    tottime = np.where(looked > 0, looked, thread.profile.tottime)
    parts = {
        method: np.divide(seconds, tottime, out=np.zeros(n), where=tottime > 0)
        for method, (seconds, _) in seen.items()
    }
    whole = np.zeros(n) + sum(parts.values())
    scale = np.where(whole >= WRAPS, 1.0 / np.maximum(whole, WRAPS), 1.0)
    taken = np.zeros(n)
    for method, part in parts.items():
        own = part * scale
        # As a share of what the methods before it left.
        left = np.divide(own, 1.0 - taken, out=np.zeros(n), where=1.0 - taken > 1e-9)
        taken += own
        left = np.append(np.minimum(left, 1.0), np.zeros(len(thread.profile) - n))
        thread = _with_call(thread, left, seen[method][1], (*texts[method], strings))
    return thread


def _with_call(thread: Thread, part: Floats, looks: int, texts: tuple[int, int, tuple[str, ...]]) -> Thread:
    profile, new = thread.profile, len(thread.profile)
    callers = np.flatnonzero(part)
    if not len(callers):
        return thread
    return replace(
        thread,
        profile=_profile(profile, part, callers, looks, texts).validate(),
        paths=None if thread.paths is None else _paths(thread.paths, part, new).validate(new + 1),
        range_calls=None
        if thread.range_calls is None
        else _ranges(thread.range_calls, part, new).validate(new + 1),
    )


def _moved(values: Floats, part: Floats) -> Floats:
    """Return self times with the new function's `part` moved to the last row."""
    taken = values * part
    return np.append(values - taken, taken.sum())


def _profile(
    profile: Profile,
    part: Floats,
    callers: npt.NDArray[np.intp],
    looks: int,
    texts: tuple[int, int, tuple[str, ...]],
) -> Profile:
    file, name, strings = texts
    taken = profile.tottime[callers] * part[callers]
    edges = profile.edges or Edges.empty()
    none = np.zeros(len(callers), np.int64)
    error = NORMAL * float(taken.sum()) / max(looks, 1) ** 0.5
    new: dict[str, float] = {"file": file, "name": name}
    new |= {"calls_low": np.nan, "calls_high": np.nan, "samples": looks, "tottime_error": error}
    known: Mapping[str, Any] = estimates_of(profile)
    before = replace(profile, **known).columns(np.ones(len(profile), np.bool_))
    columns: dict[str, Any] = {
        column: np.append(values, new.get(column, 0)).astype(values.dtype)
        for column, values in before.items()
        if values is not None
    }
    for own, cumulative in (("tottime", "cumtime"), ("wait", "cumwait"), ("blocked", "cumblocked")):
        if own in columns:
            columns[own] = _moved(before[own], part)
            columns[cumulative][-1] = columns[own][-1]
    return replace(
        profile,
        strings=strings,
        edges=Edges(
            np.append(edges.caller, callers).astype(np.int32),
            np.append(edges.callee, np.full(len(callers), len(profile))).astype(np.int32),
            np.append(edges.ncalls, none),
            np.append(edges.primitive_calls, none),
            np.append(edges.tottime, taken),
            np.append(edges.cumtime, taken),
        ),
        **columns,
    )


def _inside_callers(
    sums: Paths | RangeCalls, part: Floats, new: int
) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Return the rows of the new function's callers, and the columns with its own rows inside them."""
    of = np.where(sums.function >= 0, part[np.maximum(sums.function, 0)], 0.0)
    callers = np.flatnonzero(of)
    columns = {
        "function": np.append(sums.function, np.full(len(callers), new)).astype(np.int32),
        "ncalls": np.append(sums.ncalls, np.zeros(len(callers), np.int64)),
    }
    for name in ("tottime", "wait", "blocked"):
        taken = getattr(sums, name) * of
        columns[name] = np.append(getattr(sums, name) - taken, taken[callers])
    return callers, columns


def _paths(paths: Paths, part: Floats, new: int) -> Paths:
    callers, columns = _inside_callers(paths, part, new)
    return replace(paths, parent=np.append(paths.parent, callers).astype(np.int32), **columns)


def _ranges(calls: RangeCalls, part: Floats, new: int) -> RangeCalls:
    callers, columns = _inside_callers(calls, part, new)
    return replace(
        calls, context=np.append(calls.context, calls.context[callers]).astype(np.int32), **columns
    )
