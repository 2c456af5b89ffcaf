"""Functions inside the ranges of each name, and their openers, for pushed ranges of traced threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.identity.function_keys import function_keys
from profkit.measure.range_stats import RangeKey
from profkit.model import FunctionKey, Profile, RangeCalls, Roots, Run
from profkit.model.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """One function inside all ranges of one name, nested ranges included; seconds, ``None`` if not measured.

    `ncalls` is 0 for a function already running when they began.
    """

    key: FunctionKey
    name: str
    file: str
    line: int
    ncalls: int
    tottime: float
    share: float
    wait: float | None
    blocked: float | None


@dataclass(frozen=True, slots=True)
class Opener:
    """A function that opened ranges of one name; libraries open them for their callers."""

    key: FunctionKey
    name: str
    file: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class RangeFunctions:
    """Functions that opened ranges of one name (most first) or ran inside (most self time first)."""

    opened_by: tuple[Opener, ...]
    functions: tuple[RangeFunction, ...]
    total_s: float


#: What ran inside ranges, by `RangeKey.pattern`.
InsideRanges: TypeAlias = Mapping[RangeKey, RangeFunctions]


class _Functions:
    """Numbers functions by key, over all threads."""

    def __init__(self) -> None:
        self.known: dict[FunctionKey, int] = {}
        self.described: list[tuple[FunctionKey, str, str, int]] = []

    def numbers(self, profile: Profile, roots: Roots, used: Ints) -> Ints:
        """Return a number for each row of a profile; −1 for unused rows."""
        keys = function_keys(profile, roots)
        number = np.full(len(profile), -1, np.int64)
        for row in used.tolist():
            key = keys[row]
            found = self.known.setdefault(key, len(self.known))
            if found == len(self.described):
                self.described.append((key, *profile.function(row)))
            number[row] = found
        return number


def range_functions(run: Run) -> InsideRanges:
    """Sum up what ran inside the ranges of a run, over its processes and threads."""
    functions, keys = _Functions(), dict[RangeKey, int]()
    inside: list[Floats] = []
    openers: list[Ints] = []
    for process, thread in run.threads:
        calls = thread.range_calls
        if calls is None or not len(calls.parent):
            continue
        known = calls.opener >= 0
        used = np.unique(np.concatenate([calls.function, calls.opener[known]]).astype(np.int64))
        number = functions.numbers(thread.profile, process.roots, used)
        own = np.array([_key(calls, i, keys) for i in range(len(calls.parent))], np.int64)
        inside += _rows(calls, own, number)
        openers.append(np.stack([own[known], number[calls.opener[known]], calls.count[known]]))
    if not keys:
        return {}
    rows = _by_key(np.concatenate(inside, axis=1), len(keys))
    opened = _by_key(np.concatenate(openers, axis=1), len(keys))
    return {key: _of_key(rows[number], opened[number], functions) for key, number in keys.items()}


def _by_key(columns: npt.NDArray[Any], n: int) -> list[npt.NDArray[Any]]:
    """Split columns by the first one, and drop that."""
    ordered = columns[:, np.argsort(columns[0], kind="stable")]
    return np.split(ordered[1:], np.searchsorted(ordered[0], np.arange(1, n)), axis=1)


def _key(calls: RangeCalls, context: int, keys: dict[RangeKey, int]) -> int:
    name, domain = (calls.strings[int(column[context])] for column in (calls.name, calls.domain))
    return keys.setdefault(RangeKey(name, domain).pattern, len(keys))


def _rows(calls: RangeCalls, own: Ints, number: Ints) -> Iterator[Floats]:
    """Yield (key, function, calls, self time, wait, blocked) of each row, once per range name around it."""
    around: list[list[int]] = []
    for context, parent in enumerate(calls.parent.tolist()):
        outer = around[parent] if parent >= 0 else []
        here = int(own[context])
        around.append(outer if here in outer else [*outer, here])
    depth = np.array([len(keys) for keys in around], np.int64)
    values = np.stack(
        [number[calls.function], calls.ncalls, calls.tottime, calls.wait, calls.blocked]
    ).astype(float)
    for level in range(int(depth.max())):
        at_level = np.array([keys[level] if level < len(keys) else -1 for keys in around], np.int64)
        key = at_level[calls.context]
        held = key >= 0
        yield np.concatenate([key[None, held].astype(float), values[:, held]])


def _of_key(mine: Floats, who: Ints, functions: _Functions) -> RangeFunctions:
    numbers, place = np.unique(mine[0].astype(np.int64), return_inverse=True)
    ncalls, tottime, wait, blocked = (
        np.asarray(np.bincount(place.reshape(-1), column, len(numbers)), float) for column in mine[1:]
    )
    total = float(tottime.sum())
    found = [
        RangeFunction(
            *functions.described[int(numbers[i])],
            ncalls=int(ncalls[i]),
            tottime=float(tottime[i]),
            share=float(tottime[i] / total) if total > 0 else 0.0,
            wait=_known(wait[i]),
            blocked=_known(blocked[i]),
        )
        for i in np.argsort(-tottime, kind="stable").tolist()
    ]
    counts = {number: int(who[1, who[0] == number].sum()) for number in np.unique(who[0]).tolist()}
    openers = [Opener(*functions.described[int(number)], count) for number, count in counts.items() if count]
    openers.sort(key=lambda opener: (-opener.count, opener.name))
    return RangeFunctions(tuple(openers), tuple(found), total)


def _known(seconds: np.floating) -> float | None:
    return float(seconds) if np.isfinite(seconds) else None
