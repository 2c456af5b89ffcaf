"""Which file of one side is which of the other: a vote pairs the prefixes of two checkouts.

Ambiguous files stay in the residue, which is visible; a wrong pair would not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.identity.function_keys import unique_files
from profkit.identity.rooted_paths import rooted_all
from profkit.model import PROJECT, SITE, Profile, Roots

Index = npt.NDArray[np.int32]

#: Two files vote for their directories only if they share at least this part of the smaller one's function
#: names. Otherwise they merely have the same file name (``utils.py``).
MIN_SHARED_NAMES = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class FileMatch:
    """Common file number of each row of either side, and ``(root, path)`` by that number."""

    baseline: Index
    candidate: Index
    keys: tuple[tuple[str, str], ...]


class KnownFiles:
    """Roots and paths of files, kept over several alignments: replicates mostly have the same files."""

    def __init__(self) -> None:
        self._of_roots: dict[Roots, dict[str, tuple[str, str]]] = {}
        self._all: set[tuple[str, str]] = set()
        self._ordered: list[tuple[str, str]] = []

    def keys(self, files: Sequence[str], roots: Roots) -> list[tuple[str, str]]:
        """Return root and path of each file."""
        known = self._of_roots.setdefault(roots, {})
        new = [file for file in files if file not in known]
        known.update(zip(new, rooted_all(new, roots), strict=True))
        return list(map(known.__getitem__, files))

    def ordered(self, keys: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return these keys sorted by root and path."""
        if keys != self._all:
            paths: dict[str, list[str]] = {}
            for root, path in keys:
                paths.setdefault(root, []).append(path)
            # Strings sort twice as fast as tuples.
            self._ordered = [(root, path) for root in sorted(paths) for path in sorted(paths[root])]
            self._all = keys
        return self._ordered.copy()


def match_files(
    baseline: Profile,
    candidate: Profile,
    baseline_roots: Roots,
    candidate_roots: Roots,
    baseline_names: Index,
    candidate_names: Index,
    known: KnownFiles | None = None,
) -> FileMatch:
    """Give the same file the same number on both sides; shared names are the evidence of the vote."""
    known = known or KnownFiles()
    files_a, of_row_a = unique_files(baseline)
    files_b, of_row_b = unique_files(candidate)
    keys_a = known.keys([baseline.strings[f] for f in files_a.tolist()], baseline_roots)
    keys_b = known.keys([candidate.strings[f] for f in files_b.tolist()], candidate_roots)

    # Sorted, so that numbers, and ties broken by them, do not depend on the order of rows.
    of_a, of_b = set(keys_a), set(keys_b)
    keys = known.ordered(of_a | of_b)
    numbers = dict(zip(keys, range(len(keys)), strict=True))
    left_a, left_b = _leftover(of_a - of_b), _leftover(of_b - of_a)
    if left_a and left_b:
        names_a = _names_by_file(of_row_a, baseline_names, keys_a, set(left_a))
        names_b = _names_by_file(of_row_b, candidate_names, keys_b, set(left_b))
        for key_a, key_b, common in _vote(left_a, left_b, names_a, names_b):
            root = SITE if SITE in (key_a[0], key_b[0]) else PROJECT
            numbers[key_a] = numbers[key_b] = len(keys)
            keys.append((root, common))
    number_a = np.fromiter(map(numbers.__getitem__, keys_a), np.int32, len(keys_a))
    number_b = np.fromiter(map(numbers.__getitem__, keys_b), np.int32, len(keys_b))
    return FileMatch(
        number_a[of_row_a] if len(number_a) else of_row_a,
        number_b[of_row_b] if len(number_b) else of_row_b,
        tuple(keys),
    )


def _leftover(mine: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the files of the project or of packages, sorted."""
    return sorted(k for k in mine if k[0] in (PROJECT, SITE))


def _names_by_file(
    of_row: Index, names: Index, keys: Sequence[tuple[str, str]], wanted: set[tuple[str, str]]
) -> dict[tuple[str, str], set[int]]:
    order = np.argsort(of_row, kind="stable")
    bounds = np.searchsorted(of_row[order], np.arange(len(keys) + 1)).tolist()
    ordered = names[order].tolist()
    found: dict[tuple[str, str], set[int]] = {}
    for i, key in enumerate(keys):
        if key in wanted:
            found.setdefault(key, set()).update(ordered[bounds[i] : bounds[i + 1]])
    return found


def _vote(
    left_a: list[tuple[str, str]],
    left_b: list[tuple[str, str]],
    names_a: dict[tuple[str, str], set[int]],
    names_b: dict[tuple[str, str], set[int]],
) -> list[tuple[tuple[str, str], tuple[str, str], str]]:
    """Pair files by the prefix pairs that share most functions; return ``(key_a, key_b, common path)``."""
    votes: dict[tuple[str, str, str, str], int] = {}
    for key_a, key_b, common in _longest_suffixes(left_a, left_b):
        if key_a[0] == SITE and key_b[0] == SITE:
            continue
        ours, theirs = names_a[key_a], names_b[key_b]
        shared = len(ours & theirs)
        if shared < MIN_SHARED_NAMES * min(len(ours), len(theirs)):
            continue
        pair = (key_a[0], key_a[1][: -len(common)], key_b[0], key_b[1][: -len(common)])
        votes[pair] = votes.get(pair, 0) + shared

    inside_a = _by_prefix(left_a, {(p[0], p[1]) for p in votes})
    there = set(left_b)
    taken_a: set[tuple[str, str]] = set()
    taken_b: set[tuple[str, str]] = set()
    matched: list[tuple[tuple[str, str], tuple[str, str], str]] = []
    by_weight: dict[int, list[tuple[str, str, str, str]]] = {}
    for pair, weight in votes.items():
        by_weight.setdefault(weight, []).append(pair)
    for weight in sorted(by_weight, reverse=True):
        proposals: list[tuple[tuple[str, str], tuple[str, str], str]] = []
        seen: set[tuple[tuple[str, str], tuple[str, str]]] = set()
        for root_a, prefix_a, root_b, prefix_b in sorted(by_weight[weight]):
            for key_a in inside_a[root_a, prefix_a]:
                common = key_a[1][len(prefix_a) :]
                key_b = (root_b, prefix_b + common)
                free = key_a not in taken_a and key_b in there and key_b not in taken_b
                if free and (key_a, key_b) not in seen:
                    seen.add((key_a, key_b))
                    proposals.append((key_a, key_b, common))
        wishes_a: dict[tuple[str, str], int] = {}
        wishes_b: dict[tuple[str, str], int] = {}
        for key_a, key_b, _ in proposals:
            wishes_a[key_a] = wishes_a.get(key_a, 0) + 1
            wishes_b[key_b] = wishes_b.get(key_b, 0) + 1
        for key_a, key_b, common in proposals:
            # Equal votes for two partners decide nothing, so fewer votes for a third must not either.
            taken_a.add(key_a)
            taken_b.add(key_b)
            if wishes_a[key_a] == 1 and wishes_b[key_b] == 1:
                matched.append((key_a, key_b, common))
    return matched


def _longest_suffixes(
    left_a: list[tuple[str, str]], left_b: list[tuple[str, str]]
) -> list[tuple[tuple[str, str], tuple[str, str], str]]:
    """Return pairs whose longest common path suffix is unique on each side."""
    endings_a, endings_b = _endings(left_a), _endings(left_b)
    pairs = []
    for key_a in left_a:
        path = key_a[1]
        best = ""
        at = len(path)
        while at >= 0:
            at = path.rfind("/", 0, at) if at else -1
            suffix = path[at + 1 :]
            if suffix not in endings_b:
                break
            best = suffix
            if at < 0:
                break
        if not best:
            continue
        key_b = endings_b[best]
        if key_b is not None and endings_a[best] is not None:
            pairs.append((key_a, key_b, best))
    return pairs


def _endings(keys: list[tuple[str, str]]) -> dict[str, tuple[str, str] | None]:
    """Return the file for each path suffix, ``None`` if several files end with it."""
    found: dict[str, tuple[str, str] | None] = {}
    for key in keys:
        path = key[1]
        at = len(path)
        while at >= 0:
            at = path.rfind("/", 0, at) if at else -1
            suffix = path[at + 1 :]
            found[suffix] = None if suffix in found else key
            if at <= 0:
                break
        if path.startswith("/"):
            found[path] = None if path in found and found[path] != key else key
    return found


def _by_prefix(
    keys: list[tuple[str, str]], prefixes: set[tuple[str, str]]
) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the files under each prefix, by cutting paths at separators instead of trying every prefix."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {p: [] for p in prefixes}
    for key in keys:
        root, path = key
        at = -1
        while True:
            members = found.get((root, path[: at + 1]))
            if members is not None:
                members.append(key)
            at = path.find("/", at + 1)
            if at < 0:
                break
    return found
