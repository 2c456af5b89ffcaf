"""Folding of functions that not every run records separately into their callers.

A budget throttles at a machine-dependent time, and sampled stacks may lack native functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from profkit.compare.sampled_calls import unseen_seconds
from profkit.identity.function_keys import function_keys
from profkit.identity.lookup_columns import rows_in
from profkit.measure.side_facts import uses_gpu
from profkit.measure.waits_by_name import is_wait, waits_for_gpu
from profkit.model import (
    BUILTIN,
    Edges,
    FunctionKey,
    Line,
    Notice,
    OpenCall,
    Paths,
    Pause,
    Process,
    Profile,
    Run,
    RunSet,
    Thread,
)
from profkit.model.arrays import Bools, Floats, Ints, Rows
from profkit.model.thread import Definition, WrittenSize

_Record = TypeVar("_Record", OpenCall, Pause, Line, WrittenSize, Definition)

#: Edges, the callers that they go to, and the part of each edge that a caller gets.
Handed = tuple[Rows, Rows, Floats]

#: Limit on chains of folded functions; no program's hot loop has as many.
LEVELS = 64
#: Part of a folded function's time from which a caller gets its callees, and its changed source.
LEAST_PART = 0.01


def folded_alike(baseline: RunSet, candidate: RunSet) -> tuple[RunSet, RunSet, tuple[Notice, ...]]:
    """Fold throttled functions, and native ones that a sampled run lacks, in all runs of both sides.

    A caller's source hash then includes that of a folded function whose source differs.
    """
    runs = (*baseline.runs, *candidate.runs)
    throttled = throttled_in(runs)
    native = _native_in_callers(runs) - throttled
    keys = throttled | native
    if not keys:
        return baseline, candidate, ()
    hashes = [_hashes(side, keys) for side in (baseline, candidate)]
    differ = {key for key in keys if all(key in side for side in hashes) and hashes[0][key] != hashes[1][key]}
    sides = [
        replace(
            side,
            runs=tuple(folded(run, keys, {key: known[key] for key in differ}) for run in side.runs),
        )
        for side, known in zip((baseline, candidate), hashes, strict=True)
    ]
    notices = (
        Notice("functions-folded", "", {"functions": len(throttled)}),
        Notice("native-functions-folded", "", {"functions": len(native)}),
    )
    said = [notice for notice, found in zip(notices, (throttled, native), strict=True) if found]
    return sides[0], sides[1], tuple(said)


def _native_in_callers(runs: Sequence[Run]) -> frozenset[FunctionKey]:
    """Return the native functions, except waits, of any run in which some sampled run has no sample."""
    sampled = [run for run in runs if unseen_seconds(run.processes) > 0]
    if not sampled:
        return frozenset()
    known = frozenset[FunctionKey]().union(*(_native_in(run) for run in runs))
    lacking = known - frozenset.intersection(*(_native_in(run, hit=True) for run in sampled))
    on_gpu = any(map(uses_gpu, runs))
    return frozenset(
        key
        for key in lacking
        if not is_wait(key.qualname, key.root) and not (on_gpu and waits_for_gpu(key.qualname))
    )


def _native_in(run: Run, *, hit: bool = False) -> frozenset[FunctionKey]:
    """Return the native functions of a run; with `hit`, only those that have samples."""
    found: set[FunctionKey] = set()
    for process, thread in run.threads:
        keys = function_keys(thread.profile, process.roots)
        native = rows_in(keys, BUILTIN)
        if hit:
            native &= False if thread.profile.samples is None else thread.profile.samples > 0
        found.update(map(keys.item, np.flatnonzero(native).tolist()))
    return frozenset(found)


def throttled_in(runs: Iterable[Run]) -> frozenset[FunctionKey]:
    """Return the functions that were throttled in any thread of the runs."""
    found: set[FunctionKey] = set()
    for process, thread in chain.from_iterable(run.threads for run in runs):
        if thread.throttled:
            keys = function_keys(thread.profile, process.roots)
            found.update(keys[row] for row in thread.throttled)
    return frozenset(found)


def folded(run: Run, keys: frozenset[FunctionKey], changed: Mapping[FunctionKey, str] | None = None) -> Run:
    """Return a run with these functions folded into their callers; it must have been read with edges.

    `changed` has the source hash, on the run's side, of those whose source differs between the sides.
    """
    if not keys:
        return run
    return replace(
        run,
        processes=tuple(
            process.with_threads(partial(_folded_thread, process, keys, changed or {}))
            for process in run.processes
        ),
    )


def _hashes(side: RunSet, wanted: frozenset[FunctionKey]) -> dict[FunctionKey, str]:
    """Return the known source hashes of functions, from the first thread that has each."""
    found: dict[FunctionKey, str] = {}
    for process, thread in chain.from_iterable(run.threads for run in side.runs):
        profile = thread.profile
        if len(profile) and len(found) < len(wanted):
            for row, key in _rows_of(profile, process, wanted):
                text = profile.strings[profile.source_hash[row]]
                if text:
                    found.setdefault(key, text)
    return found


def _rows_of(
    profile: Profile, process: Process, wanted: frozenset[FunctionKey]
) -> list[tuple[int, FunctionKey]]:
    keys = function_keys(profile, process.roots)
    names = {key.qualname for key in wanted}
    likely = np.flatnonzero(keys.name.where(names.__contains__))
    return [(row, key) for row in likely.tolist() if (key := keys[row]) in wanted]


def _folded_thread(
    process: Process, keys: frozenset[FunctionKey], changed: Mapping[FunctionKey, str], thread: Thread
) -> Thread:
    profile = thread.profile
    if not len(profile) or profile.edges is None:
        return thread
    known = dict(_rows_of(profile, process, keys))
    parts = _parts(profile.edges, len(profile), np.array(sorted(known), np.int64))
    keep = np.ones(len(profile), np.bool_)
    keep[parts.rows] = False
    used = profile.ncalls.astype(np.bool_) | (profile.tottime != 0) | (profile.cumtime != 0)
    keep[[row for row in known if not used[row]]] = False  # named, but never called
    if keep.all():
        return thread
    place = np.where(keep, np.cumsum(keep) - 1, -1)
    goes = place.copy()
    goes[parts.rows] = place[parts.inherits]
    profile = _marked(profile, parts, {row: changed.get(key) for row, key in known.items()})
    calls = thread.range_calls
    if calls is not None:
        goes_or_none = np.append(goes, -1).astype(np.int32)
        calls = replace(calls, function=goes_or_none[calls.function], opener=goes_or_none[calls.opener])
    return replace(
        thread,
        profile=folded_profile(profile, parts, keep, thread.paths),
        open_calls=_placed(thread.open_calls, function=place),
        throttled=(),
        range_calls=calls,
        paths=None if thread.paths is None else _folded_paths(thread.paths, place),
        pauses=None if thread.pauses is None else _placed(thread.pauses, function=goes),
        lines=None if thread.lines is None else _placed(thread.lines, function=goes, within=place),
        slices=None,
        written_sizes=_placed(thread.written_sizes, function=place),
        definitions=_placed(thread.definitions, beside=place),
    )


def _placed(items: Iterable[_Record], **places: Ints) -> tuple[_Record, ...]:
    """Return records with the rows in some fields moved to their places, without those that have none."""
    found = []
    for item in items:
        rows: dict[str, Any] = {name: int(place[getattr(item, name)]) for name, place in places.items()}
        if min(rows.values()) >= 0:
            found.append(replace(item, **rows))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Where k functions are folded to; each of m callers gets the part `share`, shape (k, m)."""

    rows: Ints
    callers: Ints
    share: Floats

    @property
    def inherits(self) -> Ints:
        """For each function, the caller that gets most of it."""
        return self.callers[self.share.argmax(axis=1)] if len(self.rows) else self.rows


def _parts(edges: Edges, n: int, rows: Ints) -> Parts:
    """Divide functions among their remaining callers by the time that they took for each."""
    position = np.full(n, -1, np.int64)
    position[rows] = np.arange(len(rows))
    into = np.flatnonzero((position[edges.callee] >= 0) & (edges.caller != edges.callee))
    callee, caller = position[edges.callee[into]], edges.caller[into].astype(np.int64)
    weight = np.maximum(edges.tottime[into], 0.0)
    without = np.bincount(callee, weight, len(rows)) <= 0
    weight = np.where(without[callee], edges.ncalls[into], weight)
    columns = np.unique(np.concatenate([rows, caller]))
    one = np.zeros((len(rows), len(columns)))
    np.add.at(one, (callee, np.searchsorted(columns, caller)), weight)
    total = one.sum(axis=1, keepdims=True)
    one = np.divide(one, total, out=np.zeros_like(one), where=total > 0)
    gone = np.searchsorted(columns, rows)
    stays = np.ones(len(columns), np.bool_)
    stays[gone] = False
    share, left = one * stays, one[:, gone]
    for _ in range(LEVELS):
        if left.sum() < 1e-9:
            break
        further = left @ one
        share += further * stays
        left = further[:, gone]
    reached = share.sum(axis=1)
    found = reached > 0
    used = share[found] / reached[found, None]
    return Parts(rows[found], columns[stays], used[:, stays])


def _marked(profile: Profile, parts: Parts, changed: Mapping[int, str | None]) -> Profile:
    """Append the hashes of functions that differ between the sides to those of their callers."""
    added: dict[int, list[str]] = {}
    for row, share in zip(parts.rows.tolist(), parts.share, strict=True):
        text = changed.get(row)
        if text is not None:
            for caller in parts.callers[share >= LEAST_PART].tolist():
                if profile.source_hash[caller]:
                    added.setdefault(caller, []).append(text)
    if not added:
        return profile
    strings, hashes = list(profile.strings), profile.source_hash.copy()
    for caller, texts in added.items():
        strings.append("+".join([strings[hashes[caller]], *sorted(texts)]))
        hashes[caller] = len(strings) - 1
    return replace(profile, strings=tuple(strings), source_hash=hashes)


def folded_profile(profile: Profile, parts: Parts, keep: Bools, paths: Paths | None) -> Profile:
    """Add self times of folded functions to their callers, and leave out all rows not in `keep`."""
    row, gets = np.nonzero(parts.share > 0)
    pairs = parts.rows[row], parts.callers[gets], parts.share[row, gets]

    def handed(edges: Edges, outer: Rows) -> Handed:
        if paths is None:
            return _shared_out(edges, *pairs, outer)
        # `__build_class__` has a thousand callers and as many callees: whom a context does not tell apart,
        # and who gets next to nothing, is not known to be a caller.
        gone = np.zeros(len(profile), np.bool_)
        gone[parts.rows] = True
        known = _by_paths(edges, paths, gone, outer)
        kept = pairs[2] >= LEAST_PART
        some = pairs[0][kept], pairs[1][kept], pairs[2][kept]
        rest = _shared_out(edges, *some, np.setdiff1d(outer, known[0]))
        return (
            np.concatenate([known[0], rest[0]]),
            np.concatenate([known[1], rest[1]]),
            np.concatenate([known[2], rest[2]]),
        )

    def gathered(values: Floats | None) -> Floats | None:
        if values is None:
            return None
        result: Floats = values.copy()
        np.add.at(result, parts.callers, parts.share.T @ values[parts.rows])
        return result[keep]

    columns = profile.columns(keep)
    columns |= {name: gathered(getattr(profile, name)) for name in ("tottime", "wait", "blocked")}
    samples = gathered(None if profile.samples is None else profile.samples.astype(np.float64))
    squares = gathered(None if profile.tottime_error is None else profile.tottime_error**2)
    columns["samples"] = None if samples is None else np.rint(samples).astype(np.int64)
    columns["tottime_error"] = None if squares is None else np.sqrt(squares)
    edges = profile.edges
    if edges is not None:
        edges = _folded_edges(edges, parts.rows, keep, partial(handed, edges))
    return replace(profile, **columns, edges=edges)


def _shared_out(edges: Edges, rows: Rows, callers: Rows, share: Floats, outer: Rows) -> Handed:
    """Hand each of the `outer` edges to all callers of its folded function, by their shares.

    Each of `rows`, ascending, gives `share` to one of its `callers`.
    """
    first, end = (np.searchsorted(rows, edges.caller[outer], side) for side in ("left", "right"))
    many = end - first
    at = np.repeat(first - np.cumsum(many) + many, many) + np.arange(many.sum())
    return np.repeat(outer, many), callers[at], share[at]


def _by_paths(edges: Edges, paths: Paths, gone: Bools, outer: Rows) -> Handed:
    """Hand edges from folded functions to the callers from which calling contexts reach their callees."""
    n = len(gone)
    function, parent = paths.function.astype(np.int64), paths.parent.astype(np.int64)
    folded = (function >= 0) & gone[function]
    inner = np.flatnonzero((function >= 0) & ~folded & (parent >= 0) & folded[parent])
    at = parent[inner]
    while (climbs := (at >= 0) & folded[at]).any():
        at = np.where(climbs, parent[at], at)
    outer = outer[np.argsort(edges.caller[outer] * np.int64(n) + edges.callee[outer], kind="stable")]
    known = edges.caller[outer] * np.int64(n) + edges.callee[outer]
    wanted = function[parent[inner]] * n + function[inner]
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    ours = np.flatnonzero((at >= 0) & (function[at] >= 0) & (known[place] == wanted if len(known) else False))
    pairs, of = np.unique(place[ours] * n + function[at[ours]], return_inverse=True)
    edge = pairs // n
    calls = np.bincount(of.reshape(-1), paths.ncalls[inner[ours]], len(pairs))
    # A sample knows where it was, not how many calls there were: contexts without any count alike.
    calls = np.where(np.bincount(edge, calls, len(outer))[edge] > 0, calls, 1.0)
    return outer[edge], pairs % n, calls / np.bincount(edge, calls, len(outer))[edge]


def _folded_edges(edges: Edges, rows: Rows, keep: Bools, handed: Callable[[Rows], Handed]) -> Edges:
    """Return the edges among kept functions; callees of a folded one become its callers' callees.

    `handed` says to which callers edges from the folded `rows` go; a pair may then occur more than once.
    """
    gone = np.zeros(len(keep), np.bool_)
    gone[rows] = True
    of_caller, of_callee = gone[edges.caller], gone[edges.callee]
    stay = ~of_caller & ~of_callee
    edge, callers, share = handed(np.flatnonzero(of_caller & ~of_callee))
    place = (np.cumsum(keep) - 1).astype(np.int32)

    def joined(name: str) -> Floats:
        values = getattr(edges, name)
        return np.concatenate([values[stay], share * values[edge]])

    return Edges(
        place[np.concatenate([edges.caller[stay], callers])],
        place[np.concatenate([edges.callee[stay], edges.callee[edge]])],
        np.rint(joined("ncalls")).astype(np.int64),
        np.rint(joined("primitive_calls")).astype(np.int64),
        joined("tottime"),
        joined("cumtime"),
    )


def _folded_paths(paths: Paths, place: Ints) -> Paths:
    """Return the paths of remaining functions; a folded function's path joins its parent."""
    n = len(paths)
    known = paths.function >= 0
    function = np.where(known, place[np.where(known, paths.function, 0)], -1)
    folded = known & (function < 0) & (paths.parent >= 0)
    target = np.where(folded, paths.parent, np.arange(n))
    while folded[target].any():
        target = np.where(folded[target], target[target], target)
    row = np.cumsum(~folded) - 1
    parent = np.where(paths.parent >= 0, row[target[np.maximum(paths.parent, 0)]], -1)

    def summed(values: Floats) -> Floats:
        return np.bincount(row[target], values, int((~folded).sum())).astype(np.float64)

    return Paths(
        parent=parent[~folded].astype(np.int32),
        function=function[~folded].astype(np.int32),
        ncalls=paths.ncalls[~folded],
        tottime=summed(paths.tottime),
        wait=summed(paths.wait),
        blocked=summed(paths.blocked),
    )
