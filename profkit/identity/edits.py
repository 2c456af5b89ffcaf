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
