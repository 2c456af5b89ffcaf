"""NVTX ranges summed up by name, and compared between runs.

Durations within one run depend on each other, so they are described but not tested.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.measure.range_waiting import range_waiting
from profkit.model import Process
from profkit.model.arrays import Bools, Floats, Ints, quantile, ratio
from profkit.model.ranges import MARK, OPEN, Ranges

#: Replaces numbers in a folded name.
NUMBER = "{n}"
# A number before a letter is part of a word: `conv1d` and `conv2d` differ, `step1` and `step2` do not.
# Addresses count as numbers. The collector may have replaced numbers already.
_NUMBER = re.compile(r"(?<!\d)(?:0x[0-9a-fA-F]+(?!\w)|\d+(?:\.\d+)?(?![A-Za-z_\d]))")

#: Ranges a side from which a 95th percentile means something: below, it is the longest range.
MIN_P95 = 20
#: Ranges a side from which two distributions can be told apart: with fewer, more than 1 in 100 pairs of equal
#: programs do not overlap at all (2 / C(2n, n) for n ranges a side; 0.8 % for n = 5).
MIN_SHIFT = 5


@dataclass(frozen=True, slots=True)
class RangeKey:
    """What ranges of one row share: name and domain (empty for the default); a `mark` has no duration."""

    name: str
    domain: str
    mark: bool = False

    @property
    def pattern(self) -> RangeKey:
        """The same key for all names that differ only by numbers."""
        return replace(self, name=pattern_of(self.name))


@dataclass(frozen=True, slots=True)
class RangeRow:
    """All ranges of one name; times in seconds, shares 0 to 1.

    `names` counts the folded names, `count` the ranges that began, or marks, `unbalanced` those without an
    end. Times are of ended ranges (else 0 and ``None``); nested ranges of one name count twice in the total.
    `parent` is the row around most of its time, ``None`` without one. `wait_s` is queueing inside, ``None``
    where not measured (see `range_waiting`). `share_of_parent` is of the parent's ended ranges, and in them.
    """

    key: RangeKey
    names: int
    count: int
    total_s: float
    median_s: float | None
    p95_s: float | None
    parent: RangeKey | None
    share_of_parent: float | None
    unbalanced: int
    wait_s: float | None = None
    wait_share: float | None = None


@dataclass(frozen=True, slots=True)
class RangeChange:
    """One row on both sides of a comparison; a side without such ranges is ``None``.

    A side is its run with the median total; ratios are candidate over baseline. `slower` is the probability
    that a candidate's range is longer than a baseline's, ties counted half (Mann and Whitney's U over n·m):
    0.5 is no shift. It is ``None`` below `MIN_SHIFT` ranges a side.
    """

    key: RangeKey
    baseline: RangeRow | None
    candidate: RangeRow | None
    median_ratio: float | None = None
    p95_ratio: float | None = None
    slower: float | None = None

    @property
    def total_ratio(self) -> float | None:
        """The candidate's total over the baseline's; ``None`` where a side has none."""
        if self.baseline is None or self.candidate is None:
            return None
        return ratio(self.baseline.total_s, self.candidate.total_s)


@dataclass(frozen=True, slots=True)
class Repeated:
    """The counts of `key`, the longest of the innermost ranges, on both sides.

    `share` is the part of the innermost ranges' time in those whose counts changed by about the same factor;
    `added_s` is what so many more of these took if each were as long as before, and `of_growth` the part of their
    growth (as logarithms) that the counts explain, NaN where they did not grow.
    """

    key: RangeKey
    counts: tuple[int, int]
    share: float
    added_s: float
    of_growth: float

    @property
    def factor(self) -> float:
        """Candidate's count over the baseline's."""
        return self.counts[1] / self.counts[0]


def pattern_of(name: str) -> str:
    """Return a name with ``{n}`` for its numbers, equal for all names of one row."""
    return _NUMBER.sub(NUMBER, name)


def fold_names(names: Iterable[str]) -> dict[str, str]:
    """Return the row name of each name, with ``{n}`` for numbers if names coincide (of both sides)."""
    names = set(names)
    folded = {name: pattern_of(name) for name in names}
    uses = Counter(folded.values())
    return {name: pattern if uses[pattern] > 1 else name for name, pattern in folded.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    row: RangeRow
    durations: Floats


def range_rows(processes: Sequence[Process]) -> tuple[RangeRow, ...]:
    """Return the rows of a run's processes: most total time first, marks last."""
    groups = _grouped(processes, fold_names(_names(processes)))
    return tuple(sorted((group.row for group in groups.values()), key=_place))


def compare_ranges(
    baseline: Sequence[Sequence[Process]], candidate: Sequence[Sequence[Process]]
) -> tuple[RangeChange, ...]:
    """Return the rows of two sides, the processes of each run, greatest change of total first."""
    sides = (baseline, candidate)
    folded = fold_names(name for side in sides for run in side for name in _names(run))
    a, b = (_side([_grouped(run, folded) for run in side]) for side in sides)
    keys = [key for key in dict.fromkeys([*a, *b]) if not key.mark]
    changes = [_change(key, a.get(key), b.get(key)) for key in keys]
    return tuple(sorted(changes, key=_size))


def repeated(changes: Sequence[RangeChange], same_factor: float) -> Repeated | None:
    """Return how much more often the innermost ranges of two sides ran; ``None`` without ranges of both.

    Factors whose logarithms differ by at most `same_factor` count as one.
    """
    both = [
        (change.key, change.baseline, change.candidate)
        for change in changes
        if change.baseline is not None and change.candidate is not None
    ]
    around = {row.parent for _, *rows in both for row in rows}
    inner = [rows for key, *rows in both if key not in around and min(row.total_s for row in rows) > 0]
    if not inner:
        return None
    first, longest = max(inner, key=lambda rows: rows[1].total_s)
    factor = longest.count / first.count
    alike = [rows for rows in inner if abs(math.log(rows[1].count / rows[0].count / factor)) <= same_factor]
    before, after = (sum(rows[side].total_s for rows in alike) for side in (0, 1))
    return Repeated(
        longest.key,
        (first.count, longest.count),
        share=after / sum(rows[1].total_s for rows in inner),
        added_s=(factor - 1.0) * before,
        of_growth=math.log(factor) / math.log(after / before) if after > before and factor > 1 else math.nan,
    )


def _names(processes: Sequence[Process]) -> Iterable[str]:
    for part in (process.ranges for process in processes):
        if part is not None:
            yield from (part.strings[i] for i in np.unique(part.name).tolist())


def _place(row: RangeRow) -> tuple[bool, float, int, str, str]:
    return row.key.mark, -row.total_s, -row.count, row.key.domain, row.key.name


def _size(change: RangeChange) -> tuple[float, str, str]:
    totals = [0.0 if row is None else row.total_s for row in (change.baseline, change.candidate)]
    return -abs(totals[1] - totals[0]), change.key.domain, change.key.name


def _grouped(processes: Sequence[Process], folded: Mapping[str, str]) -> dict[RangeKey, _Group]:
    number: dict[RangeKey, int] = {}
    names: list[set[str]] = []
    groups, durations, open_, parents, closed, waits = [], [], [], [], [], []
    for process in processes:
        part = process.ranges
        if part is None:
            continue
        waited = range_waiting(process)
        none: Floats = np.zeros(len(part))
        waits.append((none, none) if waited is None else (np.nan_to_num(waited.wait_s), waited.measured_s))
        group = _numbers(part, folded, number, names)
        groups.append(group)
        durations.append(part.duration_s)
        open_.append((part.end_ns == OPEN) & (part.kind != MARK))
        outside, inner = np.maximum(part.parent, 0), part.parent >= 0
        parents.append(np.where(inner, group[outside], -1) if len(part) else group)
        closed.append(inner & part.ended[outside] if len(part) else inner)
    if not number:
        return {}
    keys = list(number)
    group, parent = np.concatenate(groups), np.concatenate(parents)
    duration, unended = np.concatenate(durations), np.concatenate(open_)
    count = np.bincount(group, minlength=len(keys))
    unbalanced = np.bincount(group[unended], minlength=len(keys))
    total = np.bincount(group, np.nan_to_num(duration), len(keys))
    order = np.lexsort((duration, group))
    bounds = np.concatenate([[0], np.cumsum(count)])
    around = _around(group, parent, np.nan_to_num(duration), np.concatenate(closed), len(keys))
    wait, measured = (
        np.bincount(group, np.concatenate(part), len(keys)) for part in zip(*waits, strict=True)
    )
    result = {}
    for i, key in enumerate(keys):
        ended = duration[order[bounds[i] : bounds[i + 1]]]
        ended = ended[: len(ended) - int(unbalanced[i])]  # NaN sorts last
        timed = len(ended) > 0 and not key.mark
        outer, inside = around.get(i, (None, 0.0))
        result[key] = _Group(
            RangeRow(
                key=key,
                names=len(names[i]),
                count=int(count[i]),
                total_s=float(total[i]) if timed else 0.0,
                median_s=quantile(ended, 0.5) if timed else None,
                p95_s=quantile(ended, 0.95) if timed else None,
                parent=None if outer is None else keys[outer],
                share_of_parent=None if outer is None or total[outer] <= 0 else float(inside / total[outer]),
                unbalanced=int(unbalanced[i]),
                wait_s=float(wait[i]) if measured[i] > 0 else None,
                wait_share=float(wait[i] / measured[i]) if measured[i] > 0 else None,
            ),
            ended if timed else np.zeros(0),
        )
    return result


def _numbers(
    part: Ranges, folded: Mapping[str, str], number: dict[RangeKey, int], names: list[set[str]]
) -> Ints:
    """Return the group number of each row; new groups are added to `number` and `names`."""
    mark = part.kind == MARK
    code = (part.name.astype(np.int64) * len(part.strings) + part.domain) * 2 + mark
    unique, inverse = np.unique(code, return_inverse=True)
    found = np.zeros(len(unique), np.int64)
    for i, value in enumerate(unique.tolist()):
        rest, is_mark = divmod(value, 2)
        name, domain = divmod(rest, len(part.strings))
        text = part.strings[name]
        key = RangeKey(folded[text], part.strings[domain], bool(is_mark))
        found[i] = number.setdefault(key, len(number))
        if found[i] == len(names):
            names.append(set())
        names[found[i]].add(text)
    return found[inverse.reshape(-1)]


def _around(
    group: Ints, parent: Ints, duration: Floats, closed: Bools, n: int
) -> dict[int, tuple[int, float]]:
    """Return, for each group, the other group around most of its time, and that time in its ended ranges."""
    inside = (parent >= 0) & (parent != group)
    pairs, where = np.unique(group[inside] * n + parent[inside], return_inverse=True)
    seconds, in_ended = (
        np.bincount(where.reshape(-1), time[inside], len(pairs)) for time in (duration, duration * closed)
    )
    most: dict[int, float] = {}
    best: dict[int, tuple[int, float]] = {}
    for pair, time, shared in zip(pairs.tolist(), seconds.tolist(), in_ended.tolist(), strict=True):
        child, outer = divmod(pair, n)
        if child not in most or time > most[child]:
            most[child], best[child] = time, (outer, shared)
    return best


def _side(runs: Sequence[Mapping[RangeKey, _Group]]) -> dict[RangeKey, _Group]:
    """Join the runs of a side: the row of the run with the median total, the durations of all."""
    result = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        present = sorted((run[key] for run in runs if key in run), key=lambda g: g.row.total_s)
        durations = np.sort(np.concatenate([group.durations for group in present]))
        result[key] = _Group(present[(len(present) - 1) // 2].row, durations)
    return result


def _change(key: RangeKey, a: _Group | None, b: _Group | None) -> RangeChange:
    if a is None or b is None:
        return RangeChange(key, None if a is None else a.row, None if b is None else b.row)
    x, y = a.durations, b.durations
    middle = p95 = slower = None
    if len(x) and len(y):
        middle = ratio(quantile(x, 0.5), quantile(y, 0.5))
        if min(len(x), len(y)) >= MIN_P95:
            p95 = ratio(quantile(x, 0.95), quantile(y, 0.95))
        if min(len(x), len(y)) >= MIN_SHIFT:
            below, upto = np.searchsorted(x, y, "left"), np.searchsorted(x, y, "right")
            slower = float((below + upto).mean() / (2 * len(x)))
    return RangeChange(key, a.row, b.row, middle, p95, slower)
