"""Which functions were edited, from the lines of definitions: for profiles without sources.

A function was edited if the next definition of its file moved by another number of lines than the function
itself.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeAlias

import numpy as np

from profkit.identity.align import Alignment, Columns, Joined
from profkit.model import PROJECT
from profkit.model.arrays import Bools, Ints, Rows, distinct

#: Columns of a side, its matched rows, and its unmatched rows.
_Side: TypeAlias = tuple[Columns, Rows, Rows]


def added_lines(joined: Joined, found: Alignment) -> Ints:
    """Return how many lines an edit added to each project function, by baseline row, and 0 for the row −1.

    Edits that keep the number of lines, or are below the last definition, are not detected.
    """
    a, b = joined.baseline, joined.candidate
    left, right = found.baseline, found.candidate
    moved = distinct(a.file[left[a.line[left] != b.line[right]]])
    added = np.zeros(len(a.line) + 1, np.int64)
    for file in moved.tolist():
        if joined.files[file][0] == PROJECT:
            _add_lines(joined, found, file, added)
    return added


def standing_rows(joined: Joined, found: Alignment) -> tuple[Ints, Ints]:
    """Return project functions listed by only one side but defined on both: the baseline's, the candidate's.

    Such a function was not called or not seen. Either its file is the same on both sides, or the definitions
    before and after it (or the beginning of the file and the one after it) are equally far apart on both
    sides, the one before has the same source, and no unmatched function of the other side is in its line. An
    anonymous function follows the unmatched function around it.
    """
    a, b = joined.baseline, joined.candidate
    hash_a, hash_b = a.source_hash[found.baseline], b.source_hash[found.candidate]
    known = (hash_a != 0) & (hash_b != 0)
    # The hash of a module is that of its whole file.
    module = joined.strings.index("<module>") if "<module>" in joined.strings else -1
    same_file = known & (hash_a == hash_b) & (a.name[found.baseline] == module)
    same = set(a.file[found.baseline[same_file]].tolist())
    edited = known & (hash_a != hash_b)
    before, after = (a, found.baseline, found.baseline_only), (b, found.candidate, found.candidate_only)
    return _standing(joined, before, after, edited, same), _standing(joined, after, before, edited, same)


def _standing(joined: Joined, side: _Side, against: _Side, edited: Bools, same_files: Set[int]) -> Ints:
    (own, matched, only), (other, matched_other, only_other) = side, against
    project = np.array([root == PROJECT for root, _ in joined.files], np.bool_)
    only = only[project[own.file[only]]]
    only = only[np.argsort(_place(own, only), kind="stable")]
    order = np.argsort(_place(own, matched), kind="stable")
    file, here = own.file[matched[order]], own.line[matched[order]].astype(np.int64)
    moved, edited = other.line[matched_other[order]].astype(np.int64) - here, edited[order]
    before = np.searchsorted(_place(own, matched[order]), _place(own, only), "right") - 1
    taken = set(_place(other, only_other).tolist())
    rows: list[int] = []
    around, stands = (-1, -1), False  # the enclosing function of anonymous ones, and whether it still stands
    for row, at in zip(only.tolist(), before.tolist(), strict=True):
        place = int(own.file[row]), int(own.line[row])
        follows = at >= 0 and int(file[at]) == place[0]
        nameless = joined.strings[own.name[row]].startswith("<")
        if not (nameless and around[0] == place[0] and around[1] > (int(here[at]) if follows else -1)):
            by = int(moved[at]) if follows else 0  # the beginning of a file does not move
            stands = place[0] in same_files or (
                at + 1 < len(file)
                and int(file[at + 1]) == place[0]
                and int(moved[at + 1]) == by
                and not (follows and edited[at])
                and _key(place[0], place[1] + by) not in taken
            )
            around = place
        if stands:
            rows.append(row)
    return np.array(rows, np.int64)


def _place(columns: Columns, rows: Rows) -> Ints:
    """Return numbers that order rows by file and line."""
    found: Ints = _key(columns.file[rows].astype(np.int64), columns.line[rows].astype(np.int64))
    return found


def _key(file: Any, line: Any) -> Any:
    return (file << 32) + line


def _add_lines(joined: Joined, found: Alignment, file: int, added: Ints) -> None:
    a, b = joined.baseline, joined.candidate
    pairs = np.flatnonzero((a.file[found.baseline] == file) & (b.file[found.candidate] == file))
    pairs = pairs[np.argsort(a.line[found.baseline[pairs]], kind="stable")]
    rows = found.baseline[pairs]
    here, there = a.line[rows].astype(np.int64), b.line[found.candidate[pairs]].astype(np.int64)
    gone = np.sort(a.line[found.baseline_only[a.file[found.baseline_only] == file]])
    new = np.sort(b.line[found.candidate_only[b.file[found.candidate_only] == file]])
    # The distance of two definitions is that of one body only if they are neighbours on both sides.
    neighbours = (np.diff(here) > 0) & (np.diff(there) > 0)
    neighbours &= _between(gone, here) + _between(new, there) == 0
    grown = np.where(neighbours, np.diff(there) - np.diff(here), 0)
    for at in np.flatnonzero(grown).tolist():
        # After a lambda or comprehension comes the rest of the enclosing function.
        for place in (at, *range(at - 1, -1, -1)):
            name = joined.strings[a.name[rows[place]]]
            if name == "<module>":
                break
            added[rows[place]] = grown[at]
            if not name.startswith("<"):
                break


def _between(lines: Rows, borders: Ints) -> Ints:
    """Return how many of `lines` lie between neighbouring borders, which may be in any order."""
    low, high = np.minimum(borders[:-1], borders[1:]), np.maximum(borders[:-1], borders[1:])
    count: Ints = np.searchsorted(lines, high) - np.searchsorted(lines, low, "right")
    return np.maximum(count, 0)
