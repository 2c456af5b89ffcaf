"""Weighted stacks of any tool as a profile: the one place where samples become functions.

A sample says where a thread was, not how often anything was called. So calls are not known here, and self times
have the interval that the number of samples gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from profkit.model import Edges, Profile, ProfileError
from profkit.model.bounds import EXACT

#: A file, the first line of a function in it (0: not known), and the function's qualified name.
Frame: TypeAlias = tuple[str, int, str]
#: The outermost frame comes first.
Stack: TypeAlias = tuple[Frame, ...]
#: A stack, its seconds, and in how many samples it was seen.
Weighted: TypeAlias = tuple[Stack, float, int]

_NORMAL = 1.96
#: Added to the samples that were taken, so that the interval of few is wide enough (`capture.mapped_tables`).
_FEW_SAMPLES = 2.0
#: Upper limit of the 95 % interval of a count of which nothing was seen (`measure.estimates.NONE_SEEN`).
_NONE_SEEN = 3.0


def profile_from_stacks(stacks: Iterable[Weighted]) -> Profile:
    """Sum weighted stacks by function, and by caller and callee; self times are sampled, calls are not known.
    Of recursion, cumulative time counts once. Stacks without a frame are left out. The caller bounds how many
    there are, and how deep they are; raise `ProfileError` for numbers that no profile has."""
    whole: dict[Stack, list[float]] = {}
    for stack, seconds, samples in stacks:
        if stack:
            of = whole.setdefault(stack, [0.0, 0])
            of[0] += seconds
            of[1] += samples
    rows: dict[Frame, list[float]] = {}  # self time, cumulative time, samples
    pairs: dict[tuple[int, int], list[float]] = {}  # the callee's self time, and its cumulative time
    numbers: dict[Frame, int] = {}
    for stack, (seconds, count) in whole.items():
        places = [numbers.setdefault(frame, len(numbers)) for frame in stack]
        for frame in dict.fromkeys(stack):
            rows.setdefault(frame, [0.0, 0.0, 0])[1] += seconds
        links = list(zip(places, places[1:], strict=False))
        for link in dict.fromkeys(links):
            pairs.setdefault(link, [0.0, 0.0])[1] += seconds
        leaf = rows[stack[-1]]
        leaf[0] += seconds
        leaf[2] += count
        if links:
            pairs[links[-1]][0] += seconds
    try:
        own, cumulative, taken = np.array(list(rows.values()), np.float64).reshape(-1, 3).T.copy()
        lines = np.array([line for _, line, _ in numbers], np.int32)
    except OverflowError:
        raise ProfileError("holds a number that no profile has") from None
    if not ((taken >= 0) & (taken <= EXACT)).all() or not np.isfinite(own).all():
        raise ProfileError("holds a number of samples or a time that no profile has")
    all_taken = taken.sum()
    interval = own.sum() / all_taken if all_taken else 0.0
    weight = np.divide(own, taken, out=np.full(len(own), interval), where=taken > 0)
    error = np.where(taken > 0, _NORMAL * np.sqrt(taken + _FEW_SAMPLES), _NONE_SEEN) * weight
    unknown = np.full(len(rows), np.nan)
    strings, file, name, qualname = _texts(list(numbers))
    nothing, none = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int64)
    between = np.array(list(pairs), np.int32).reshape(-1, 2).T.copy()
    times = np.array(list(pairs.values()), np.float64).reshape(-1, 2).T.copy()
    no_calls = np.zeros(len(pairs), np.int64)
    return Profile(
        strings,
        file,
        lines,
        name,
        qualname,
        nothing,
        nothing,
        none,
        none,
        own,
        cumulative,
        edges=Edges(between[0], between[1], no_calls, no_calls, times[0], times[1]),
        calls_low=unknown,
        calls_high=unknown,
        samples=taken.astype(np.int64),
        tottime_error=error,
    ).validate()


def _texts(frames: Sequence[Frame]) -> tuple[tuple[str, ...], Any, Any, Any]:
    """Return a string table, and in it the files, the names and the qualified names of frames."""
    strings: dict[str, int] = {"": 0}

    def numbered(values: Iterable[str]) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array([strings.setdefault(value, len(strings)) for value in values], np.int32)

    file = numbered(file for file, _, _ in frames)
    qualname = numbered(name for _, _, name in frames)
    name = numbered(_last_part(name) for _, _, name in frames)
    return tuple(strings), file, name, qualname


def _last_part(qualname: str) -> str:
    """Return the name of a Python function; names of C++ are left whole."""
    last = qualname.rpartition(".")[2]
    return last if last.isidentifier() or last.startswith("<") else qualname
