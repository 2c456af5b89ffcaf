"""Folding of comprehensions into their functions, since Python 3.12 inlines them (PEP 709)."""

from __future__ import annotations

import numpy as np

from profkit.compare.folded_functions import Parts, folded_profile
from profkit.identity.function_keys import infer_python
from profkit.identity.lookup_columns import Looked
from profkit.model import Profile
from profkit.model.arrays import Index, Rows

COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
#: The first Python that inlines comprehensions.
INLINED_FROM = (3, 12)
#: Without versions, a side inlines if it has at most this part of the other's comprehension rows. It is not
#: 0: 3.12 keeps comprehensions in class bodies as functions.
FEW = 0.1


def comprehension_rows(profile: Profile) -> Index:
    """Return the rows of list, dict and set comprehensions."""
    wanted = Looked(profile.name, profile.strings).where(COMPREHENSIONS.__contains__)
    return np.flatnonzero(wanted).astype(np.int32)


def fold_comprehensions(profile: Profile) -> tuple[Profile, Rows]:
    """Return the profile with comprehensions folded, and the new row of each row.

    The function's calls and cumulative time stay, since they include the comprehension.
    """
    inner = comprehension_rows(profile)
    target = np.arange(len(profile), dtype=np.int32)
    for row in inner.tolist():
        target[row] = _enclosing(profile, row, inner)
    # Nested comprehensions need one step per level.
    for _ in range(len(inner)):
        further = target[target]
        if np.array_equal(further, target):
            break
        target = further
    gone = inner[(target[inner] != inner) & ~np.isin(target[inner], inner)]
    if not len(gone):
        return profile, np.arange(len(profile))
    keep = np.ones(len(profile), np.bool_)
    keep[gone] = False
    rows = np.cumsum(keep) - 1
    rows[gone] = rows[target[gone]]
    callers, of = np.unique(target[gone], return_inverse=True)
    parts = Parts(gone, callers, np.eye(len(callers))[of.reshape(-1)])
    return folded_profile(profile, parts, keep, None), rows


def needs_folding(baseline: Profile, candidate: Profile) -> bool:
    """Return whether one side runs comprehensions as functions and the other inlines or merges them.

    Both then need folding: 3.12 inlines none in class bodies; plain profiles merge those nested on one line.
    """
    version, of_other = infer_python(baseline), infer_python(candidate)
    if version is not None and of_other is not None:
        differ = (version >= INLINED_FROM) != (of_other >= INLINED_FROM)
    else:
        differ = _inlines(baseline, candidate) != _inlines(candidate, baseline)
    if differ:
        return True
    return _mixed_up(baseline, candidate) or _mixed_up(candidate, baseline)


def _mixed_up(profile: Profile, other: Profile) -> bool:
    """Return whether `other` lacks qualified names and so merges comprehensions that `profile` separates."""
    if other.qualname.any() or not profile.qualname.any():
        return False
    rows = comprehension_rows(profile)
    places = np.stack([profile.file[rows], profile.line[rows], profile.name[rows]])
    return bool(np.unique(places, axis=1).shape[1] < len(rows))


def _inlines(profile: Profile, other: Profile) -> bool:
    """Return whether a profile's Python seems to inline comprehensions, where versions are unknown."""
    mine, theirs = len(comprehension_rows(profile)), len(comprehension_rows(other))
    return mine < theirs and mine <= FEW * theirs


def _enclosing(profile: Profile, row: int, inner: Index) -> int:
    """Return the row of the function around a comprehension, or `row` itself where unknown."""
    same_file = profile.file == profile.file[row]
    edges = profile.edges
    if edges is not None and len(edges):
        calls = np.flatnonzero((edges.callee == row) & (edges.caller != row))
        calls = calls[same_file[edges.caller[calls]]]
        if len(calls):
            best = np.lexsort((-edges.ncalls[calls], -edges.tottime[calls]))[0]
            return int(edges.caller[calls[best]])
    candidates = np.flatnonzero(same_file)
    outer_name, is_nested, _ = profile.strings[profile.qualname[row]].rpartition(".<locals>.")
    if profile.qualname[row]:
        names = [profile.strings[q] for q in profile.qualname[candidates].tolist()]
        wanted = [i for i, name in enumerate(names) if name == (outer_name if is_nested else "<module>")]
        if wanted:
            lines = profile.line[candidates[wanted]]
            above = np.where(lines <= profile.line[row], lines, -1)
            return int(candidates[wanted[int(above.argmax())]])
    candidates = candidates[~np.isin(candidates, inner) & (profile.line[candidates] <= profile.line[row])]
    if not len(candidates):
        return row
    return int(candidates[np.argmax(profile.line[candidates])])
