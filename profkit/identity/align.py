"""One-to-one alignment of the functions of two profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from profkit.identity.file_matches import match_files
from profkit.identity.function_keys import clean_name
from profkit.identity.nearest import pair_nearest
from profkit.identity.rooted_paths import ANYWHERE
from profkit.model import Profile, Roots
from profkit.model.arrays import Bools, Index, Ints, Rows, distinct

#: Rungs, most reliable first; `Alignment.rung` is an index into this.
RUNGS = ("exact", "rooted", "same-source", "nearest-line", "folded-comprehension")
_EXACT, _ROOTED, _SAME_SOURCE, _NEAREST, _FOLDED = range(len(RUNGS))


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Matched rows of two profiles, shape (k,), and the residue; `rung` is an index into `RUNGS`."""

    baseline: Index
    candidate: Index
    rung: npt.NDArray[np.int8]
    baseline_only: Index
    candidate_only: Index


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows of one side in numbers common to both sides; string 0 is "not known"."""

    raw_file: Index
    raw_name: Index
    file: Index
    line: Index
    name: Index
    qualname: Index
    source_hash: Index


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Both sides in common numbering; `strings` have no addresses, `files` are ``(root, path)``."""

    baseline: Columns
    candidate: Columns
    strings: tuple[str, ...]
    files: tuple[tuple[str, str], ...]


def join(
    baseline: Profile,
    candidate: Profile,
    baseline_roots: Roots = ANYWHERE,
    candidate_roots: Roots = ANYWHERE,
) -> Joined:
    """Number strings and files of two profiles in common; empty roots are inferred."""
    table = {"": 0}
    place_a, place_b = (_number(profile.strings, table) for profile in (baseline, candidate))
    clean = _clean(table)
    names = clean[place_a[baseline.name]], clean[place_b[candidate.name]]
    sources = place_a[baseline.source_hash], place_b[candidate.source_hash]
    file_a, file_b, files = match_files(baseline, candidate, baseline_roots, candidate_roots, *names, sources)

    def columns(profile: Profile, place: Index, file: Index) -> Columns:
        raw_name, qualname = place[profile.name], place[profile.qualname]
        return Columns(
            raw_file=place[profile.file],
            raw_name=raw_name,
            file=file,
            line=profile.line,
            name=clean[raw_name],
            qualname=clean[qualname],
            source_hash=place[profile.source_hash],
        )

    own, others = columns(baseline, place_a, file_a), columns(candidate, place_b, file_b)
    return Joined(own, others, tuple(table), files)


def align(
    baseline: Profile,
    candidate: Profile,
    baseline_roots: Roots = ANYWHERE,
    candidate_roots: Roots = ANYWHERE,
) -> Alignment:
    """Match the functions of two validated profiles; pairs are in the baseline's order."""
    joined = join(baseline, candidate, baseline_roots, candidate_roots)
    return align_joined(joined, baseline, candidate)


def align_joined(
    joined: Joined,
    baseline: Profile,
    candidate: Profile,
    folded: tuple[npt.ArrayLike, npt.ArrayLike] = ((), ()),
) -> Alignment:
    """Match as `align` does after `join`; pairs with a `folded` row of either side get the rung of folded ones."""
    a, b = joined.baseline, joined.candidate
    n, m = len(baseline), len(candidate)
    partner = np.full(n, -1, np.int32)
    rung = np.full(n, _ROOTED, np.int8)
    free_b = np.ones(m, np.bool_)

    def take(rows_a: Rows, rows_b: Rows, how: int) -> None:
        partner[rows_a] = rows_b
        rung[rows_a] = how
        free_b[rows_b] = False

    group_a, group_b = _groups(a, b)
    size = int(max(group_a.max(initial=-1), group_b.max(initial=-1))) + 1
    count_a, count_b = np.bincount(group_a, minlength=size), np.bincount(group_b, minlength=size)
    single = (count_a == 1) & (count_b == 1)
    rows_a, rows_b = np.flatnonzero(single[group_a]), np.flatnonzero(single[group_b])
    by_group = np.empty(size, np.int64)
    by_group[group_b[rows_b]] = rows_b
    take(rows_a, by_group[group_a[rows_a]], _ROOTED)

    shared = (count_a > 0) & (count_b > 0) & ~single
    free_a = shared[group_a]
    # Within a group, a unique source hash is better evidence than the order of lines.
    sources = a.source_hash, b.source_hash
    take(*_unique_pairs((group_a, group_b), sources, (free_a, shared[group_b])), _ROOTED)
    left_a, left_b = np.flatnonzero(free_a & (partner < 0)), np.flatnonzero(shared[group_b] & free_b)
    on_both = _marked(a.raw_file[left_a], joined) & _marked(b.raw_file[left_b], joined)
    letters = _letters(joined, left_a, left_b)
    order_a = _order(left_a, group_a, a, baseline, on_both, letters)
    order_b = _order(left_b, group_b, b, candidate, on_both, letters)
    count_a = np.bincount(group_a[order_a], minlength=size)
    count_b = np.bincount(group_b[order_b], minlength=size)
    equal = count_a == count_b
    take(order_a[equal[group_a[order_a]]], order_b[equal[group_b[order_b]]], _ROOTED)
    both = (count_a > 0) & (count_b > 0) & (count_a != count_b)
    rest_a, rest_b = order_a[both[group_a[order_a]]], order_b[both[group_b[order_b]]]
    if len(rest_a):
        matched = np.flatnonzero(partner >= 0)
        anchors = (a.file[matched], a.line[matched], b.line[partner[matched]])
        rows = pair_nearest((rest_a, rest_b), (group_a, group_b), (a.file, b.file), (a.line, b.line), anchors)
        take(*rows, _NEAREST)
    take(*_same_source(a, b, partner < 0, free_b), _SAME_SOURCE)

    left = np.flatnonzero(partner >= 0).astype(np.int32)
    right = partner[left]
    same = (
        (a.raw_file[left] == b.raw_file[right])
        & (a.line[left] == b.line[right])
        & (a.raw_name[left] == b.raw_name[right])
    )
    how = np.where(same, np.int8(_EXACT), rung[left]).astype(np.int8)
    how[np.isin(left, folded[0]) | np.isin(right, folded[1])] = _FOLDED
    return Alignment(
        baseline=left,
        candidate=right,
        rung=how,
        baseline_only=np.flatnonzero(partner < 0).astype(np.int32),
        candidate_only=np.flatnonzero(free_b).astype(np.int32),
    )


def _number(strings: tuple[str, ...], table: dict[str, int]) -> Index:
    """Return the place of each string in the common table, which gets the missing ones."""
    place = np.fromiter(map(table.get, strings, repeat(-1)), np.int32, len(strings))
    for at in np.flatnonzero(place < 0).tolist():
        place[at] = table.setdefault(strings[at], len(table))
    return place


def _clean(table: dict[str, int]) -> Index:
    """Return for each string its number without addresses; the table gets strings that it lacks."""
    place = np.arange(len(table), dtype=np.int32)
    # One search over all strings, since few profiles have addresses.
    addressed = list(table) if " at 0x" in "\n".join(table) else []
    for i, text in enumerate(addressed):
        if " at 0x" in text:
            place[i] = table.setdefault(clean_name(text), len(table))
    return place


def _groups(a: Columns, b: Columns) -> tuple[Index, Index]:
    """Number groups of rows that may be one function: same file and name, and qualname if all have it."""
    n = len(a.file)
    plain = _dense(np.concatenate([a.file, b.file]), np.concatenate([a.name, b.name]))
    qualname = np.concatenate([a.qualname, b.qualname])
    if not qualname.any():
        return plain[:n], plain[n:]
    lacking = np.bincount(plain[qualname == 0], minlength=int(plain.max(initial=-1)) + 1)
    group = _dense(plain, np.where(lacking[plain] == 0, qualname, 0))
    return group[:n], group[n:]


def _dense(first: Rows, second: Rows) -> Index:
    """Number pairs from 0, equal pairs alike."""
    pairs = (first.astype(np.int64) << 32) | second.astype(np.int64)
    dense: Index = np.unique(pairs, return_inverse=True)[1].reshape(len(pairs)).astype(np.int32)
    return dense


def _letters(joined: Joined, rows_a: Ints, rows_b: Ints) -> Index:
    """Return the alphabetic rank of these rows' strings: string numbers depend on which side came first."""
    used = distinct(
        np.concatenate(
            [
                column[rows]
                for side, rows in ((joined.baseline, rows_a), (joined.candidate, rows_b))
                for column in (side.raw_file, side.source_hash, side.qualname)
            ]
        )
    )
    return sorted_places(used, joined.strings)


def sorted_places(used: Rows, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Index:
    """Return for each text its place among the sorted texts in use, 0 for those that are not."""
    place = np.zeros(len(texts), np.int32)
    place[sorted(used.tolist(), key=texts.__getitem__)] = np.arange(len(used), dtype=np.int32)
    return place


def _marked(texts: Index, joined: Joined) -> Bools:
    """Return for each string number whether it occurs in `texts`."""
    marked = np.zeros(len(joined.strings), np.bool_)
    marked[texts] = True
    return marked


def _order(
    rows: Ints,
    group: Index,
    side: Columns,
    profile: Profile,
    on_both: Bools,
    letters: Index,
) -> Ints:
    """Order rows by group, line, and then by what repeats from run to run.

    Copies of a module that count as one file differ in raw names, used if both sides have them (`on_both`).
    Generated methods share file, line and name, so calls and times are the last resort.
    """
    raw_file = np.where(on_both[side.raw_file], side.raw_file, 0)
    calls = (profile.tottime, profile.primitive_calls, profile.ncalls)
    texts = (letters[raw_file[rows]], letters[side.source_hash[rows]], letters[side.qualname[rows]])
    columns = (*(column[rows] for column in calls), *texts, side.line[rows], group[rows])
    return rows[np.lexsort(columns)]


def _unique_pairs(
    group: tuple[Index, Index], value: tuple[Index, Index], free: tuple[Bools, Bools]
) -> tuple[Ints, Ints]:
    """Return free rows whose known (group, value) occurs once among the free rows of each side."""
    rows_a, rows_b = (np.flatnonzero((known != 0) & mine) for known, mine in zip(value, free, strict=True))
    key = _dense(*(np.concatenate([one[rows_a], other[rows_b]]) for one, other in (group, value)))
    key_a, key_b = key[: len(rows_a)], key[len(rows_a) :]
    size = int(key.max(initial=-1)) + 1
    once_a, once_b = np.bincount(key_a, minlength=size) == 1, np.bincount(key_b, minlength=size) == 1
    once = once_a & once_b
    at_b = np.zeros(len(once), np.int64)
    at_b[key_b] = rows_b
    chosen = once[key_a]
    return rows_a[chosen], at_b[key_a[chosen]]


def _same_source(a: Columns, b: Columns, free_a: Bools, free_b: Bools) -> tuple[Ints, Ints]:
    """Return functions that moved to another file: name and source are unique on each side."""
    everywhere = np.ones_like(free_a), np.ones_like(free_b)
    rows_a, rows_b = _unique_pairs((a.name, b.name), (a.source_hash, b.source_hash), everywhere)
    both = free_a[rows_a] & free_b[rows_b]
    return rows_a[both], rows_b[both]
