"""Calls of mpi4py, which no tracer sees, as functions, from samples (``native/tracer/rank_calls.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model import Edges, Paths, Profile, RangeCalls, Thread
from profkit.model.arrays import Floats, Ints
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
    parts = np.array([seconds for seconds, _ in seen.values()])
    parts = np.divide(parts, tottime, out=np.zeros(parts.shape), where=tottime > 0)
    whole = parts.sum(axis=0)
    parts *= np.where(whole >= WRAPS, 1.0 / np.maximum(whole, WRAPS), 1.0)
    called = parts.any(axis=1)
    methods = [method for method, is_called in zip(seen, called.tolist(), strict=True) if is_called]
    if not methods:
        return thread
    parts, new = parts[called], n + len(methods)
    looks = np.array([seen[method][1] for method in methods])
    file, name = np.array([texts[method] for method in methods]).T
    paths, ranges = thread.paths, thread.range_calls
    if paths is not None:
        callers, columns = _inside_callers(paths, parts)
        parent = np.append(paths.parent, callers).astype(np.int32)
        paths = replace(paths, parent=parent, **columns).validate(new)
    if ranges is not None:
        callers, columns = _inside_callers(ranges, parts)
        context = np.append(ranges.context, ranges.context[callers]).astype(np.int32)
        ranges = replace(ranges, context=context, **columns).validate(new)
    profile = _profile(thread.profile, parts, looks, {"file": file, "name": name}, strings)
    return replace(thread, profile=profile.validate(), paths=paths, range_calls=ranges)


def _profile(
    profile: Profile,
    parts: Floats,
    looks: Ints,
    texts: Mapping[str, npt.NDArray[Any]],
    strings: tuple[str, ...],
) -> Profile:
    """Return a profile with a row for each method, which gets its `parts` of the callers' self times."""
    method, callers = np.nonzero(parts)
    taken = profile.tottime * parts
    edges = profile.edges or Edges.empty()
    none, unknown = np.zeros(len(callers), np.int64), np.full(len(looks), np.nan)
    error = NORMAL * taken.sum(axis=1) / np.sqrt(np.maximum(looks, 1))
    new = {**texts, "calls_low": unknown, "calls_high": unknown, "samples": looks, "tottime_error": error}
    known: Mapping[str, Any] = estimates_of(profile)
    before = replace(profile, **known).columns(np.ones(len(profile), np.bool_))
    columns: dict[str, Any] = {
        column: np.append(values, new.get(column, np.zeros(len(looks)))).astype(values.dtype)
        for column, values in before.items()
        if values is not None
    }
    for own, cumulative in (("tottime", "cumtime"), ("wait", "cumwait"), ("blocked", "cumblocked")):
        if own in columns:
            moved = before[own] * parts
            columns[own] = np.append(before[own] - moved.sum(axis=0), moved.sum(axis=1))
            columns[cumulative][len(profile) :] = moved.sum(axis=1)
    return replace(
        profile,
        strings=strings,
        edges=Edges(
            np.append(edges.caller, callers).astype(np.int32),
            np.append(edges.callee, len(profile) + method).astype(np.int32),
            np.append(edges.ncalls, none),
            np.append(edges.primitive_calls, none),
            np.append(edges.tottime, taken[method, callers]),
            np.append(edges.cumtime, taken[method, callers]),
        ),
        **columns,
    )


def _inside_callers(sums: Paths | RangeCalls, parts: Floats) -> tuple[npt.NDArray[np.intp], dict[str, Any]]:
    """Return the rows of the methods' callers, and the columns with the methods' own rows inside them."""
    of = np.where(sums.function >= 0, parts[:, np.maximum(sums.function, 0)], 0.0)
    method, callers = np.nonzero(of)
    columns = {
        "function": np.append(sums.function, parts.shape[1] + method).astype(np.int32),
        "ncalls": np.append(sums.ncalls, np.zeros(len(callers), np.int64)),
    }
    for name in ("tottime", "wait", "blocked"):
        taken = getattr(sums, name) * of
        columns[name] = np.append(getattr(sums, name) - taken.sum(axis=0), taken[method, callers])
    return callers, columns
