"""Collect all processes of a job in one table, over the functions that matter in any of them.

The result must not depend on the order of reading.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from profkit.errors import FormatError, UsageError
from profkit.formats.load import files_of, unreadable
from profkit.model import PROJECT, FunctionKey, Notice
from profkit.model.arrays import Floats
from profkit.model.notices import MOST_RANKS, missing_ranks
from profkit.study.rank_functions import reference_of
from profkit.study.rank_read import METRICS, SECONDS, Member, RangeSums, Reading, Task, Values, read_file
from profkit.study.workers import Crew, addressed

#: Part (1) of any process's time from which a function is in the table.
FLOOR = 0.001
#: Most functions of the table: those with the greatest part in any process.
MOST_FUNCTIONS = 512
#: Files that are read first, evenly spread: their functions decide what is read of all.
SAMPLE = 16
#: The sample's floor, as a part of `FLOOR`. It is low because a second reading costs as much as the first; a
#: quarter was too high for 1 000 files whose functions scatter by a factor of 5.
_SAMPLE_PART = 0.1
_SAMPLE_MOST = 2048
#: Least part (1) of a process's time in functions that most others have; less is a different program.
SAME_PROGRAM = 0.2


@dataclass(frozen=True, slots=True)
class RangeRow:
    """NVTX ranges of one name (numbers folded) in all processes; ``None`` where a process has none."""

    domain: str
    name: str
    of: tuple[RangeSums | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RankTable:
    """A job: ranks in ascending order, then other processes by their files' names.

    `functions` hold at least `FLOOR` of any process's time. `values` (5 × members × functions): `rank_read.METRICS`.
    """

    members: tuple[Member, ...]
    functions: tuple[FunctionKey, ...]
    values: Values
    ranges: tuple[RangeRow, ...]
    skipped: tuple[Notice, ...]

    def metric(self, name: str) -> Floats:
        """Return one of the metrics as float64, shape (members, functions)."""
        values: Floats = self.values[METRICS.index(name)].astype(np.float64)
        return values


def expand(specs: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files that files, directories, patterns and addresses stand for, each once.

    Raises `FormatError` for a directory or pattern without files, `UsageError` if nothing is named.
    """
    found: dict[str, None] = {}
    for spec in specs:
        text = os.fspath(spec)
        found.update(dict.fromkeys(_listed(text) if "://" in text else files_of(text)[0]))
    if not found:
        raise UsageError("name the run files of a job, a directory of them, or a quoted pattern")
    return list(found)


def _listed(address: str) -> list[str]:
    with addressed(address, "listed") as (system, inside):
        if "*" in inside or "?" in inside or "[" in inside:
            found = sorted(system.glob(inside))
        elif system.isdir(inside):
            found = sorted(system.glob(inside.rstrip("/") + "/*.prof"))
        else:
            return [address]
    if not found:
        raise FormatError(address, "matches no file", "check the address")
    return [system.unstrip_protocol(path) for path in found]


def rank_table(paths: Sequence[str], workers: Crew, *, waits: tuple[str, ...] = ()) -> RankTable:
    """Read a job from the files of `expand`; `waits` as in `rank_read.Task`.

    Raises `FormatError` if no file can be read; `UsageError` if they hold fewer than two processes, several
    runs of one job, or different programs.
    """
    alone = len(paths) == 1
    task = Task(waits=waits, alone=alone, floor=FLOOR if len(paths) <= SAMPLE else _SAMPLE_PART * FLOOR)
    spread = np.unique(np.linspace(0, len(paths) - 1, min(SAMPLE, len(paths))).round().astype(int))
    sample = [paths[i] for i in spread.tolist()]
    first = next((path for path in chain(sample, paths) if read_file(path, task).skipped is None), None)
    if first is None:
        raise _unreadable(paths, task)
    if not alone:
        task = replace(task, reference=reference_of(first))
    shares: dict[FunctionKey, float] = {}
    throttled: frozenset[FunctionKey] = frozenset()
    for file in workers(partial(read_file, task=task), sample):
        throttled |= file.throttled
        for reading in file.readings:
            _most(shares, reading.more)
    columns = _largest(shares, _SAMPLE_MOST)
    while True:
        readings: list[Reading] = []
        notices: list[Notice] = []
        task = replace(task, columns=columns, floor=FLOOR, folded=throttled)
        for file in workers(partial(read_file, task=task), paths):
            throttled |= file.throttled
            readings += file.readings
            notices += [] if file.skipped is None else [file.skipped]
        chosen = _chosen(readings, columns)
        missing = set(chosen) - set(columns)
        if throttled == task.folded and not missing:
            break
        columns = tuple(sorted({*columns, *missing}))
    if throttled:
        notices.insert(0, Notice("functions-folded", "", {"functions": len(throttled)}))
    readings.sort(key=lambda reading: _place(reading.member))
    members = tuple(reading.member for reading in readings)
    place = {key: i for i, key in enumerate(columns)}
    kept = [place[key] for key in chosen]
    values = np.stack([reading.values[:, kept] for reading in readings], axis=1)
    names = sorted({key for reading in readings for key in reading.ranges})
    ranges = tuple(RangeRow(*key, tuple(reading.ranges.get(key) for reading in readings)) for key in names)
    table = RankTable(members, chosen, values, ranges, (*notices, *_missing(members)))
    _check(table, alone=alone, path=paths[0])
    return table


def _unreadable(paths: Sequence[str], task: Task) -> FormatError:
    skipped = read_file(paths[0], task).skipped
    assert skipped is not None
    error = unreadable(skipped)
    if len(paths) == 1:
        return error
    return FormatError(paths[0], f"{error.problem}; nor can the {len(paths) - 1} other files be read")


def _most(shares: dict[FunctionKey, float], found: Iterable[tuple[FunctionKey, float]]) -> None:
    for key, share in found:
        if share > shares.get(key, 0.0):
            shares[key] = share


def _largest(shares: Mapping[FunctionKey, float], most: int) -> tuple[FunctionKey, ...]:
    """Return the keys with the greatest shares, in the order of the keys."""
    order = sorted(shares, key=lambda key: (-round(shares[key], 6), key))
    return tuple(sorted(order[:most]))


def _chosen(readings: Sequence[Reading], columns: Sequence[FunctionKey]) -> tuple[FunctionKey, ...]:
    """Return the functions of the table: those with the greatest share in any process."""
    most = np.max([reading.shares for reading in readings], axis=0, initial=0.0)
    shares = {key: share for key, share in zip(columns, most.tolist(), strict=True) if share >= FLOOR}
    for reading in readings:
        _most(shares, reading.more)
    return _largest(shares, MOST_FUNCTIONS)


def _missing(members: Sequence[Member]) -> list[Notice]:
    ranks = [m.rank for m in members if m.rank is not None]
    size = max((m.size for m in members if m.size is not None), default=0)
    missing = missing_ranks("rank-file-missing", ranks, size) if ranks else None
    return [] if missing is None else [missing]


def _place(member: Member) -> tuple[int, int, list[tuple[int, str]]]:
    """Return the sort key: ranks by number, other files by name, with numbers in names as numbers."""
    parts = [
        (int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", member.path + member.label)
    ]
    return (0, member.rank, parts) if member.rank is not None else (1, 0, parts)


def _check(table: RankTable, *, alone: bool, path: str) -> None:
    members = table.members
    if len(members) < 2:
        more = "name the files of all ranks, or a run of a job with several"
        raise UsageError(
            f"{path} holds one process; {more}" if alone else f"only {members[0].path} can be read"
        )
    ranked = [m for m in members if m.rank is not None]
    for what, of in (("job", lambda m: m.job), ("size", lambda m: m.size)):
        _check_alike(ranked, what, of)
    counts = Counter(m.rank for m in ranked if m.rank is not None)
    repeated = sorted(rank for rank, count in counts.items() if count > 1)
    if repeated:
        listed = ", ".join(map(str, repeated[:MOST_RANKS])) + (", …" if len(repeated) > MOST_RANKS else "")
        word = "rank" if len(repeated) == 1 else "ranks"
        one, other = [m.path for m in members if m.rank == repeated[0]][:2]
        raise UsageError(
            f"{word} {listed} found more than once (in {one} and {other}): name the files of one run of the "
            "job"
        )
    if not members[0].job or any(member.job != members[0].job for member in members):
        _check_program(table)


def _check_alike(ranked: Sequence[Member], what: str, of: Callable[[Member], str | int | None]) -> None:
    """Refuse ranks of two jobs, as far as their launchers name them."""
    named = [member for member in ranked if of(member)]
    other = next((member for member in named if of(member) != of(named[0])), None)
    if other is not None:
        raise UsageError(
            f"{other.path} is of another job than {named[0].path} ({what} {of(other)}, not {of(named[0])}): "
            "name the files of one run of the job"
        )


def _check_program(table: RankTable) -> None:
    """Refuse a process whose time is in functions that the others lack."""
    members = table.members
    if len({member.path for member in members}) == 1:
        return  # one capture holds one job
    seconds = table.values[SECONDS:].sum(axis=0).astype(np.float64)
    # Imports are common to all programs, so compare project files if every process has some.
    own = seconds[:, [key.root == PROJECT for key in table.functions]]
    if (own.sum(axis=1) > 0).all():
        seconds = own
    common = (seconds > 0).sum(axis=0) > len(members) / 2
    within = seconds[:, common].sum(axis=1) / np.maximum(seconds.sum(axis=1), 1e-12)
    worst = int(within.argmin())
    if within[worst] < SAME_PROGRAM:
        other = members[0 if worst else 1]
        raise UsageError(
            f"{members[worst].path} is of a different program than {other.path}: only "
            f"{100 * within[worst]:.0f} % of its time is in common functions; name the files of one job"
        )
