"""Which functions were edited, from where definitions stand: for profiles that hold no sources.

An edit that adds or removes lines moves every definition below it in its file, by as many lines. So the function
whose next one moved by more, or by less, than it did itself has another body now.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from profkit.identity.align import Alignment, Joined
from profkit.model import PROJECT
from profkit.model.arrays import distinct

Ints = npt.NDArray[np.int64]


def edited_rows(joined: Joined, found: Alignment) -> dict[int, int]:
    """Return the baseline's rows of functions of the project that were edited, with the lines that came in.

    An edit that leaves the number of lines as it was is not seen, nor is one below the last definition.
    """
    a, b = joined.baseline, joined.candidate
    left, right = found.baseline, found.candidate
    moved = distinct(a.file[left[a.line[left] != b.line[right]]])
    edited: dict[int, int] = {}
    for file in moved.tolist():
        if joined.files[file][0] == PROJECT:
            edited |= _of_file(joined, found, file)
    return edited


def standing_rows(joined: Joined, found: Alignment) -> tuple[Ints, Ints]:
    """Return the rows of the project's functions that one side lacks, and whose definition both sides have.

    Those of the baseline, and those of the candidate: the definitions before and after each of them are the same
    number of lines apart on both sides, the one before has no other source, and no function that only the other side
    has stands in its line. So it was not called, or not seen. What is in a line of such a function belongs to it.
    """
    a, b = joined.baseline, joined.candidate
    sides = ((a, found.baseline, found.baseline_only), (b, found.candidate, found.candidate_only))
    hash_a, hash_b = a.source_hash[found.baseline], b.source_hash[found.candidate]
    edited = (hash_a != hash_b) & (hash_a != 0) & (hash_b != 0)
    standing: tuple[list[int], list[int]] = ([], [])
    for rows, (own, matched, only), (other, matched_other, only_other) in zip(
        standing, sides, sides[::-1], strict=True
    ):
        for file in distinct(own.file[only]).tolist():
            pairs = np.flatnonzero(own.file[matched] == file)
            if joined.files[file][0] != PROJECT or not len(pairs):
                continue
            pairs = pairs[np.argsort(own.line[matched[pairs]], kind="stable")]
            here, there = (
                own.line[matched[pairs]].astype(np.int64),
                other.line[matched_other[pairs]].astype(np.int64),
            )
            taken = set(other.line[only_other[other.file[only_other] == file]].tolist())
            last, last_stands = -1, False  # the function around what has no name
            for row in sorted(only[own.file[only] == file].tolist(), key=lambda row: int(own.line[row])):
                line = int(own.line[row])
                at = int(np.searchsorted(here, line, "right"))
                inside = joined.strings[own.name[row]].startswith("<") and last > here[max(at - 1, 0)]
                stands = (
                    last_stands
                    if inside
                    else 0 < at < len(here)
                    and here[at] - here[at - 1] == there[at] - there[at - 1]
                    and not edited[pairs[at - 1]]
                    and line + int(there[at - 1] - here[at - 1]) not in taken
                )
                if not inside:
                    last, last_stands = line, stands
                if stands:
                    rows.append(row)
    return np.array(standing[0], np.int64), np.array(standing[1], np.int64)


def _of_file(joined: Joined, found: Alignment, file: int) -> dict[int, int]:
    a, b = joined.baseline, joined.candidate
    pairs = np.flatnonzero((a.file[found.baseline] == file) & (b.file[found.candidate] == file))
    pairs = pairs[np.argsort(a.line[found.baseline[pairs]], kind="stable")]
    rows = found.baseline[pairs]
    here, there = a.line[rows].astype(np.int64), b.line[found.candidate[pairs]].astype(np.int64)
    gone = np.sort(a.line[found.baseline_only[a.file[found.baseline_only] == file]])
    new = np.sort(b.line[found.candidate_only[b.file[found.candidate_only] == file]])
    # Two neighbours show the body between them only where they are neighbours on both sides.
    neighbours = (np.diff(here) > 0) & (np.diff(there) > 0)
    neighbours &= _between(gone, here) + _between(new, there) == 0
    grown = np.where(neighbours, np.diff(there) - np.diff(here), 0)
    edited: dict[int, int] = {}
    for at in np.flatnonzero(grown).tolist():
        # Below a lambda or a comprehension the rest of the function around it follows.
        for place in (at, *range(at - 1, -1, -1)):
            name = joined.strings[a.name[rows[place]]]
            if name == "<module>":
                break
            edited[int(rows[place])] = int(grown[at])
            if not name.startswith("<"):
                break
    return edited


def _between(lines: npt.NDArray[np.integer], borders: Ints) -> Ints:
    """Return how many lines lie between neighbouring borders; the borders may be in any order."""
    low, high = np.minimum(borders[:-1], borders[1:]), np.maximum(borders[:-1], borders[1:])
    count: Ints = np.searchsorted(lines, high) - np.searchsorted(lines, low, "right")
    return np.maximum(count, 0)
