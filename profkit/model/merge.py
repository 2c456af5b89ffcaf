"""Sums of profiles: over threads of a process, processes of a job, rows of one function.

Functions are the same here if file, line, name and qualified name are equal strings, which holds within one
machine and interpreter. ``identity`` aligns functions across machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Index, Ints
from profkit.model.columns import column_dtypes
from profkit.model.estimates import estimates_of, known_calls, summed_estimates
from profkit.model.profile import ESTIMATES, MEASURED, SUMMED, TEXTS, Edges, Profile

_KEY = ("file", "line", "name", "qualname")
_PLAIN_KEY = ("file", "line", "name")


def collapse(profile: Profile, *, qualified: bool = True) -> Profile:
    """Sum the rows of a profile that stand for one function, and the edges between the same rows.

    Rows are in order of first occurrence; module and source hash are those of a group's first row that has
    them. Plain pstats data is not `qualified`. A profile without equal rows is returned itself.
    """
    return _collapse(profile, _KEY if qualified else _PLAIN_KEY)[0]


def merge_profiles(profiles: Sequence[Profile], *, edges: bool = True) -> Profile:
    """Sum profiles by ``(file, line, name, qualname)``, in order of first occurrence.

    ``wait``, ``blocked`` and their cumulative twins are sums over the profiles that have them. Columns,
    intervals and `edges` are ``None`` if no profile has them.
    """
    return merge_with_rows(profiles, edges=edges)[0]


def merge_with_rows(profiles: Sequence[Profile], *, edges: bool) -> tuple[Profile, tuple[Index, ...]]:
    """Sum profiles as `merge_profiles` does, and return where their rows went.

    Returns
    -------
    profile : Profile
        The sum.
    rows : tuple of int32 arrays
        For each profile, the row of the sum to which each of its rows was added.
    """
    if not profiles:
        return Profile.empty(), ()
    if len(profiles) == 1:
        only, group = _collapse(profiles[0] if edges else replace(profiles[0], edges=None), _KEY)
        return only, (group,)
    strings, places = _union([profile.strings for profile in profiles])
    offsets = np.cumsum([0, *map(len, profiles)])
    columns: dict[str, Any] = dict(joined_columns(profiles, places, not_measured=0.0))
    joined = Profile(strings, **columns, edges=_joined_edges(profiles, offsets) if edges else None)
    whole, group = _collapse(joined, _KEY)
    return whole, tuple(group[start:end] for start, end in pairwise(offsets.tolist()))


def joined_columns(
    profiles: Sequence[Profile], places: Sequence[Index], *, not_measured: float
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the names of columns, and the rows of all profiles in one.

    `places` are those of each profile's strings in one table, `not_measured` stands for waiting that only
    others of the profiles have. Columns that none has are left out.
    """
    for name in column_dtypes(Profile):
        parts = [getattr(profile, name) for profile in profiles]
        if name in TEXTS:
            parts = [table[part] for table, part in zip(places, parts, strict=True)]
        yield name, np.concatenate(parts)
    for name in MEASURED:
        parts = [getattr(profile, name) for profile in profiles]
        if any(part is not None for part in parts):
            pairs = zip(profiles, parts, strict=True)
            yield name, np.concatenate([np.full(len(p), not_measured) if v is None else v for p, v in pairs])
    if any(profile.calls_low is not None for profile in profiles):
        known = [estimates_of(profile) for profile in profiles]
        for name in ESTIMATES:
            yield name, np.concatenate([columns[name] for columns in known])


class Strings:
    """A string table that grows with each table joined to it: every text once, the empty one first."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}

    def join(self, tables: Sequence[tuple[str, ...]]) -> list[Index]:
        """Return for each table the places of its entries in this one."""
        intern = self.texts.setdefault
        places: dict[int, Index] = {}  # threads of a process share a table
        for table in tables:
            if id(table) not in places:
                places[id(table)] = np.array([intern(text, len(self.texts)) for text in table], np.int32)
        return [places[id(table)] for table in tables]


def _union(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Index]]:
    """Return one string table for all, and for each table the places of its entries."""
    if all(table is tables[0] for table in tables):
        return tables[0], [np.arange(len(tables[0]), dtype=np.int32)] * len(tables)
    union = Strings()
    places = union.join(tables)
    return tuple(union.texts), places


def _joined_edges(profiles: Sequence[Profile], offsets: Ints) -> Edges | None:
    present = [
        (p.edges, int(offset)) for p, offset in zip(profiles, offsets, strict=False) if p.edges is not None
    ]
    if not present:
        return None
    return Edges(
        *(
            np.concatenate([getattr(edges, end) + np.int32(offset) for edges, offset in present])
            for end in ("caller", "callee")
        ),
        *(np.concatenate([getattr(edges, name) for edges, _ in present]) for name in SUMMED),
    )


def _text_ids(strings: tuple[str, ...]) -> Ints | None:
    """Number strings, equal ones alike; ``None`` if no string occurs twice."""
    if len(set(strings)) == len(strings):
        return None
    first: dict[str, int] = {}
    return np.fromiter((first.setdefault(text, i) for i, text in enumerate(strings)), np.int64, len(strings))


def groups_of(columns: Sequence[Ints]) -> tuple[Index, Index]:
    """Number equal rows in order of first occurrence; return each row's group, and each group's first row."""
    n = len(columns[0])
    key = np.zeros(n, np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        if (int(key.max(initial=0)) + 1) * span >= 1 << 62:
            _, dense = np.unique(key, return_inverse=True)
            key = dense.reshape(-1).astype(np.int64)
        key = key * span + (column - low)
    ordered = np.sort(key)  # much faster than argsort, and mostly all rows are different
    if (ordered[1:] != ordered[:-1]).all():
        alone = np.arange(n, dtype=np.int32)
        return alone, alone
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    group: Index = rank[inverse.reshape(-1)]
    return group, first[order].astype(np.int32)


def _sums(of: Profile | Edges, names: Sequence[str], group: Index, n: int) -> dict[str, Any]:
    """Return columns summed by group; absent columns are left out."""
    found = {}
    for name in names:
        values = getattr(of, name)
        if values is not None:
            found[name] = np.zeros(n, values.dtype)
            np.add.at(found[name], group, values)
    return found


def _collapse(profile: Profile, key: tuple[str, ...]) -> tuple[Profile, Index]:
    """Sum equal rows; also return the row of the result for each row."""
    if not len(profile):
        return profile, np.zeros(0, np.int32)
    ids = _text_ids(profile.strings)
    columns = [
        getattr(profile, c).astype(np.int64) if c == "line" or ids is None else ids[getattr(profile, c)]
        for c in key
    ]
    group, first = groups_of(columns)
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
        # Written back to front, so that a group's first known value stays.
        values[group[rows[::-1]]] = column[rows[::-1]]
        return values

    sums = _sums(profile, (*SUMMED, *MEASURED), group, n)
    if profile.calls_low is not None:
        sums |= summed_estimates(profile.ncalls, estimates_of(profile), group, n)
        for name in ("ncalls", "primitive_calls"):
            sums[name] = known_calls(sums[name], sums["calls_low"])
    sums |= {name: getattr(profile, name)[first] for name in _PLAIN_KEY}
    sums |= {name: known(getattr(profile, name)) for name in TEXTS if name not in _PLAIN_KEY}
    return Profile(profile.strings, **sums, edges=edges), group


def _collapse_edges(edges: Edges, group: Index | None) -> Edges:
    """Sum edges between the same functions; return the edges themselves if there is nothing to sum."""
    if not len(edges):
        return edges
    caller = (edges.caller if group is None else group[edges.caller]).astype(np.int64)
    callee = (edges.callee if group is None else group[edges.callee]).astype(np.int64)
    link, first = groups_of([callee, caller])
    n = len(first)
    if group is None and n == len(edges):
        return edges
    ends = caller[first].astype(np.int32), callee[first].astype(np.int32)
    return Edges(*ends, **_sums(edges, SUMMED, link, n))
