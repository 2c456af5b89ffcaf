"""Which file of one side is which of the other: a vote pairs the prefixes of two checkouts.

Ambiguous files stay in the residue, which is visible; a wrong pair would not be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import TypeAlias

import numpy as np

from profkit.identity.function_keys import unique_files
from profkit.identity.rooted_paths import CELLS, rooted_all
from profkit.model import GENERATED, PROJECT, SITE, Profile, Roots
from profkit.model.arrays import Index, Ints

#: Two files vote for their directories only if they share at least this part of the smaller one's function
#: names. Otherwise they merely have the same file name (``utils.py``).
MIN_SHARED_NAMES = 0.5


#: Root of a file, and its path below that.
File: TypeAlias = tuple[str, str]
#: A file of either side, and the end of their paths by which they are the same.
Match: TypeAlias = tuple[File, File, str]


def match_files(
    baseline: Profile,
    candidate: Profile,
    baseline_roots: Roots,
    candidate_roots: Roots,
    baseline_names: Index,
    candidate_names: Index,
    sources: tuple[Index, Index] | None = None,
) -> tuple[Index, Index, tuple[File, ...]]:
    """Return a number for the file of each row of either side, the same for the same file, and all files.

    Names, and `sources` (hashes), are in numbers common to both sides. Shared names are the evidence of the vote.
    """
    files_a, of_row_a = unique_files(baseline)
    files_b, of_row_b = unique_files(candidate)
    keys_a = rooted_all(map(baseline.strings.__getitem__, files_a.tolist()), baseline_roots)
    keys_b = rooted_all(map(candidate.strings.__getitem__, files_b.tolist()), candidate_roots)

    # Sorted, so that numbers, and ties broken by them, do not depend on the order of rows.
    of_a, of_b = set(keys_a), set(keys_b)
    keys = sorted(of_a | of_b)
    numbers = dict(zip(keys, range(len(keys)), strict=True))
    cells_a, cells_b = _cells(of_a - of_b), _cells(of_b - of_a)
    if len(cells_a) == len(cells_b) == 1:
        # The name of a notebook's cell has the hash of its text: this one was edited.
        numbers[cells_a[0]] = numbers[cells_b[0]]
    left_a, left_b = _leftover(of_a - of_b), _leftover(of_b - of_a)
    if left_a and left_b:
        names_a = _names_by_file(of_row_a, baseline_names, keys_a, set(left_a))
        names_b = _names_by_file(of_row_b, candidate_names, keys_b, set(left_b))
        for key_a, key_b, common in _vote(left_a, left_b, names_a, names_b):
            root = SITE if SITE in (key_a[0], key_b[0]) else PROJECT
            numbers[key_a] = numbers[key_b] = len(keys)
            keys.append((root, common))
            del names_a[key_a], names_b[key_b]
        if sources is not None:
            sources_a = _of_project(of_row_a, baseline_names, sources[0], keys_a, names_a)
            sources_b = _of_project(of_row_b, candidate_names, sources[1], keys_b, names_b)
            for key_a, key_b in _renamed(names_a, names_b, sources_a, sources_b):
                numbers[key_a] = numbers[key_b]
    number_a = np.fromiter(map(numbers.__getitem__, keys_a), np.int32, len(keys_a))
    number_b = np.fromiter(map(numbers.__getitem__, keys_b), np.int32, len(keys_b))
    return number_a[of_row_a], number_b[of_row_b], tuple(keys)


def _cells(mine: set[File]) -> list[File]:
    return [k for k in mine if k[0] == GENERATED and k[1].startswith(CELLS)]


def _leftover(mine: set[File]) -> list[File]:
    """Return the files of the project or of packages, sorted."""
    return sorted(k for k in mine if k[0] in (PROJECT, SITE))


def _names_by_file(
    of_row: Index, names: Index | Ints, keys: Sequence[File], wanted: set[File]
) -> dict[File, set[int]]:
    order = np.argsort(of_row, kind="stable")
    bounds = np.searchsorted(of_row[order], np.arange(len(keys) + 1)).tolist()
    ordered = names[order].tolist()
    found: dict[File, set[int]] = {}
    for i, key in enumerate(keys):
        if key in wanted:
            found.setdefault(key, set()).update(ordered[bounds[i] : bounds[i + 1]])
    return found


def _vote(
    left_a: list[File], left_b: list[File], names_a: dict[File, set[int]], names_b: dict[File, set[int]]
) -> list[Match]:
    """Pair files by the prefix pairs that share most functions."""
    votes: Counter[tuple[str, str, str, str]] = Counter()
    for key_a, key_b, common in _longest_suffixes(left_a, left_b):
        if key_a[0] == SITE and key_b[0] == SITE:
            continue
        ours, theirs = names_a[key_a], names_b[key_b]
        shared = len(ours & theirs)
        if shared < MIN_SHARED_NAMES * min(len(ours), len(theirs)):
            continue
        pair = (key_a[0], key_a[1][: -len(common)], key_b[0], key_b[1][: -len(common)])
        votes[pair] += shared

    inside_a = _by_prefix(left_a, {(p[0], p[1]) for p in votes})
    there = set(left_b)
    taken_a: set[File] = set()
    taken_b: set[File] = set()
    matched: list[Match] = []
    most_first = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    for _, equal in groupby(most_first, key=lambda vote: vote[1]):
        proposals: dict[tuple[File, File], str] = {}
        for (root_a, prefix_a, root_b, prefix_b), _ in equal:
            for key_a in inside_a[root_a, prefix_a]:
                common = key_a[1][len(prefix_a) :]
                key_b = (root_b, prefix_b + common)
                if key_a not in taken_a and key_b in there and key_b not in taken_b:
                    proposals.setdefault((key_a, key_b), common)
        wishes_a = Counter(key_a for key_a, _ in proposals)
        wishes_b = Counter(key_b for _, key_b in proposals)
        # Equal votes for two partners decide nothing, so fewer votes for a third must not either.
        taken_a.update(wishes_a)
        taken_b.update(wishes_b)
        matched += [
            (key_a, key_b, common)
            for (key_a, key_b), common in proposals.items()
            if wishes_a[key_a] == 1 and wishes_b[key_b] == 1
        ]
    return matched


def _of_project(
    of_row: Index, names: Index, hashes: Index, keys: Sequence[File], left: Mapping[File, set[int]]
) -> dict[File, set[int]]:
    """Return a number for each name with its known source, by file of the project."""
    known = hashes != 0
    sources = (names[known].astype(np.int64) << 32) | hashes[known]
    return _names_by_file(of_row[known], sources, keys, {key for key in left if key[0] == PROJECT})


def _renamed(
    names_a: Mapping[File, set[int]],
    names_b: Mapping[File, set[int]],
    sources_a: Mapping[File, set[int]],
    sources_b: Mapping[File, set[int]],
) -> list[tuple[File, File]]:
    """Pair files of the project with other names, such as ``train_old.py`` and ``train_new.py``.

    They have a function of one name and source in common, and more of the names than any other two.
    """
    shared = {
        (key_a, key_b): len(names_a[key_a] & names_b[key_b])
        for key_a in sorted(sources_a)
        for key_b in sorted(sources_b)
        if sources_a[key_a] & sources_b[key_b]
    }
    found = []
    for (key_a, key_b), number in shared.items():
        rivals = [n for pair, n in shared.items() if (pair[0] == key_a) != (pair[1] == key_b)]
        if number >= MIN_SHARED_NAMES * max(len(names_a[key_a]), len(names_b[key_b])) and number > max(
            rivals, default=0
        ):
            found.append((key_a, key_b))
    return found


def _longest_suffixes(left_a: list[File], left_b: list[File]) -> list[Match]:
    """Return pairs whose longest common path suffix is unique on each side."""
    endings_a, endings_b = _endings(left_a), _endings(left_b)
    pairs = []
    for key_a in left_a:
        *_, best = ("", *takewhile(endings_b.__contains__, _suffixes(key_a[1])))
        key_b = endings_b.get(best)
        if best and key_b is not None and endings_a[best] is not None:
            pairs.append((key_a, key_b, best))
    return pairs


def _endings(keys: list[File]) -> dict[str, File | None]:
    """Return the file for each path suffix, ``None`` if several files end with it."""
    found: dict[str, File | None] = {}
    for key in keys:
        for suffix in _suffixes(key[1]):
            found[suffix] = None if suffix in found else key
    return found


def _suffixes(path: str) -> Iterator[str]:
    """Yield the ends of a path that follow a separator, shortest first, and then the path itself."""
    at = len(path)
    while (at := path.rfind("/", 0, at)) >= 0:
        yield path[at + 1 :]
    yield path


def _by_prefix(keys: list[File], prefixes: set[File]) -> dict[File, list[File]]:
    """Return the files under each prefix, by cutting paths at separators instead of trying every prefix."""
    found: dict[File, list[File]] = {prefix: [] for prefix in prefixes}
    for key in keys:
        root, path = key
        for cut in (0, *(at + 1 for at, letter in enumerate(path) if letter == "/")):
            if (root, path[:cut]) in found:
                found[root, path[:cut]].append(key)
    return found
