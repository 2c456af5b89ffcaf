"""Summing profiles: threads of a process, processes of a job, rows of one function.

Functions are the same here if file, line, name and qualified name are equal, character by character: that is
right within one machine and one interpreter. Matching functions *across* machines or versions is alignment
and lives in ``identity``. Nothing here reads files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.estimates import estimates_of, known_calls, summed_estimates
from profkit.model.profile import ESTIMATES, Edges, Floats, Index, Ints, Profile

_KEY = ("file", "line", "name", "qualname")
_PLAIN_KEY = ("file", "line", "name")


def collapse(profile: Profile, *, qualified: bool = True) -> Profile:
    """Sum the rows of one profile that stand for the same function, and the edges between the same rows.

    Parameters
    ----------
    profile
        Any valid profile.
    qualified
        Whether the qualified name distinguishes functions; plain pstats data does not have it.

    Returns
    -------
    Profile
        The profile itself where every key is unique. Otherwise rows in order of first occurrence; module and
        source hash are those of a group's first row that knows them.
    """
    return _collapse(profile, _KEY if qualified else _PLAIN_KEY)[0]


def merge_profiles(profiles: Sequence[Profile], *, edges: bool = True) -> Profile:
    """Sum profiles by ``(file, line, name, qualname)``.

    Parameters
    ----------
    profiles
        Profiles with any string tables.
    edges
        Whether the result has edges; it has them if any of the profiles has.

    Returns
    -------
    Profile
        One row per function, in order of first occurrence. ``wait``, ``blocked`` and their cumulative twins
        are summed over the profiles that have them, so they cover those only, and are ``None`` where none has
        them. Intervals are those of the sums, ``None`` where all profiles are exact.
    """
    return merge_with_rows(profiles, edges=edges)[0]


def merge_with_rows(profiles: Sequence[Profile], *, edges: bool = True) -> tuple[Profile, tuple[Index, ...]]:
    """Sum profiles, and say where their rows went.

    Parameters
    ----------
    profiles, edges
        As for `merge_profiles`.

    Returns
    -------
    profile : Profile
        As `merge_profiles` returns it.
    rows : tuple of int32 arrays
        For each given profile, the row of the result that each of its rows was added to.
    """
    if not profiles:
        return Profile.empty(), ()
    if len(profiles) == 1:
        only, group = _collapse(profiles[0] if edges else _without_edges(profiles[0]), _KEY)
        return only, (group,)
    strings, maps = _union([profile.strings for profile in profiles])
    sizes = [len(profile) for profile in profiles]
    offsets = np.cumsum([0, *sizes])

    def text(column: str) -> Index:
        return np.concatenate(
            [table[getattr(profile, column)] for table, profile in zip(maps, profiles, strict=True)]
        )

    def plain(column: str) -> npt.NDArray[np.int64]:
        return np.concatenate([getattr(profile, column) for profile in profiles])

    def measured(column: str) -> Floats | None:
        values = [getattr(profile, column) for profile in profiles]
        if all(value is None for value in values):
            return None
        return np.concatenate(
            [np.zeros(n) if value is None else value for value, n in zip(values, sizes, strict=True)]
        )

    estimates: dict[str, Any] = {}
    if any(profile.calls_low is not None for profile in profiles):
        known = [estimates_of(profile) for profile in profiles]
        estimates = {name: np.concatenate([columns[name] for columns in known]) for name in ESTIMATES}

    joined = Profile(
        strings,
        text("file"),
        np.concatenate([profile.line for profile in profiles]),
        text("name"),
        text("qualname"),
        text("module"),
        text("source_hash"),
        plain("ncalls"),
        plain("primitive_calls"),
        np.concatenate([profile.tottime for profile in profiles]),
        np.concatenate([profile.cumtime for profile in profiles]),
        edges=_joined_edges(profiles, offsets) if edges else None,
        wait=measured("wait"),
        blocked=measured("blocked"),
        cumwait=measured("cumwait"),
        cumblocked=measured("cumblocked"),
        **estimates,
    )
    whole, group = _collapse(joined, _KEY)
    return whole, tuple(group[start:end] for start, end in pairwise(offsets.tolist()))


def _without_edges(profile: Profile) -> Profile:
    return replace(profile, edges=None)


def _union(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Index]]:
    """Return one string table for all, and for each table where its entries are in it."""
    if all(table is tables[0] for table in tables):
        return tables[0], [np.arange(len(tables[0]), dtype=np.int32)] * len(tables)
    known: dict[int, Index] = {}
    union: dict[str, int] = {"": 0}
    for table in tables:
        if id(table) not in known:
            intern = union.setdefault
            known[id(table)] = np.fromiter((intern(text, len(union)) for text in table), np.int32, len(table))
    return tuple(union), [known[id(table)] for table in tables]


def _joined_edges(profiles: Sequence[Profile], offsets: Ints) -> Edges | None:
    present = [
        (p.edges, int(offset)) for p, offset in zip(profiles, offsets, strict=False) if p.edges is not None
    ]
    if not present:
        return None
    return Edges(
        np.concatenate([edges.caller + np.int32(offset) for edges, offset in present]),
        np.concatenate([edges.callee + np.int32(offset) for edges, offset in present]),
        np.concatenate([edges.ncalls for edges, _ in present]),
        np.concatenate([edges.primitive_calls for edges, _ in present]),
        np.concatenate([edges.tottime for edges, _ in present]),
        np.concatenate([edges.cumtime for edges, _ in present]),
    )


def _text_ids(strings: tuple[str, ...]) -> Ints | None:
    """Return one number for equal strings, should the table hold a string twice; ``None`` where it does not."""
    if len(set(strings)) == len(strings):
        return None
    first: dict[str, int] = {}
    return np.fromiter((first.setdefault(text, i) for i, text in enumerate(strings)), np.int64, len(strings))


def _groups(columns: Sequence[Ints]) -> tuple[Index, Index]:
    """Number equal rows in order of first occurrence.

    Returns
    -------
    group : int32 array, shape (n,)
        Group of each row.
    first : int32 array, shape (groups,)
        First row of each group.
    """
    n = len(columns[0])
    key = np.zeros(n, np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        if (int(key.max(initial=0)) + 1) * span >= 1 << 62:
            _, dense = np.unique(key, return_inverse=True)
            key = dense.reshape(-1).astype(np.int64)
        key = key * span + (column - low)
    ordered = np.sort(key)  # much faster than to find where each is, and mostly all are different
    if (ordered[1:] != ordered[:-1]).all():
        alone = np.arange(n, dtype=np.int32)
        return alone, alone
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    group: Index = rank[inverse.reshape(-1)]
    return group, first[order].astype(np.int32)


def _sum_counts(values: Ints, group: Index, n: int) -> Ints:
    total = np.zeros(n, np.int64)
    np.add.at(total, group, values)
    return total


def _sum_times(values: Floats, group: Index, n: int) -> Floats:
    total = np.zeros(n, np.float64)
    np.add.at(total, group, values)
    return total


def _collapse(profile: Profile, key: tuple[str, ...]) -> tuple[Profile, Index]:
    """Sum equal rows; also returns the row of the result for each row."""
    if not len(profile):
        return profile, np.zeros(0, np.int32)
    ids = _text_ids(profile.strings)
    columns = [
        getattr(profile, c).astype(np.int64) if c == "line" or ids is None else ids[getattr(profile, c)]
        for c in key
    ]
    group, first = _groups(columns)
    n = len(first)
    unique_rows = n == len(profile)
    edges = profile.edges
    if edges is not None:
        edges = _collapse_edges(edges, None if unique_rows else group)
    if unique_rows:
        return (profile if edges is profile.edges else replace(profile, edges=edges)), group

    def known(column: Index) -> Index:
        values: Index = column[first].copy()
        (rows,) = np.nonzero(column)
        # Written back to front, so that a group's first row that knows it stays.
        values[group[rows[::-1]]] = column[rows[::-1]]
        return values

    def measured(column: Floats | None) -> Floats | None:
        return None if column is None else _sum_times(column, group, n)

    ncalls = _sum_counts(profile.ncalls, group, n)
    primitive_calls = _sum_counts(profile.primitive_calls, group, n)
    estimates: Mapping[str, Any] = {}
    if profile.calls_low is not None:
        estimates = summed_estimates(profile.ncalls, estimates_of(profile), group, n)
        ncalls, primitive_calls = (
            known_calls(calls, estimates["calls_low"]) for calls in (ncalls, primitive_calls)
        )
    summed = Profile(
        profile.strings,
        profile.file[first],
        profile.line[first],
        profile.name[first],
        known(profile.qualname),
        known(profile.module),
        known(profile.source_hash),
        ncalls,
        primitive_calls,
        _sum_times(profile.tottime, group, n),
        _sum_times(profile.cumtime, group, n),
        edges=edges,
        wait=measured(profile.wait),
        blocked=measured(profile.blocked),
        cumwait=measured(profile.cumwait),
        cumblocked=measured(profile.cumblocked),
        **estimates,
    )
    return summed, group


def _collapse_edges(edges: Edges, group: Index | None) -> Edges:
    """Sum edges between the same functions; the edges themselves where there is nothing to sum."""
    if not len(edges):
        return edges
    caller = (edges.caller if group is None else group[edges.caller]).astype(np.int64)
    callee = (edges.callee if group is None else group[edges.callee]).astype(np.int64)
    link, first = _groups([callee, caller])
    n = len(first)
    if group is None and n == len(edges):
        return edges
    return Edges(
        caller[first].astype(np.int32),
        callee[first].astype(np.int32),
        _sum_counts(edges.ncalls, link, n),
        _sum_counts(edges.primitive_calls, link, n),
        _sum_times(edges.tottime, link, n),
        _sum_times(edges.cumtime, link, n),
    )
