"""Read one file of a job into one vector per process, over functions that all files have in common.

It runs here, in other processes, or on a Dask cluster, so its results stay small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.compare.folded_functions import folded, throttled_in
from profkit.errors import FormatError
from profkit.formats.load import skipped
from profkit.measure.iterations import warming_up
from profkit.measure.pause_seconds import paused, waited
from profkit.measure.range_stats import pattern_of
from profkit.measure.side_facts import first_thread
from profkit.model import FunctionKey, Notice, Process, Profile, RangeCalls, Run, Thread
from profkit.model.arrays import Floats, Ints
from profkit.model.pauses import COLLECTIONS
from profkit.study.rank_functions import (
    IMPORT,
    LIBRARY_WAIT,
    NATIVE_WAIT,
    RANK_WAIT,
    STATE,
    Bits,
    FunctionRows,
    RankNames,
    Reference,
    names_of,
    processes_of,
)
from profkit.study.wait_states import WAIT_STATES
from profkit.study.workers import load

Values = npt.NDArray[np.float32]

#: Rows of `Reading.values` for each function: limits of the calls, then seconds.
METRICS = ("calls_low", "calls_high", "run", "queue", "blocked")
#: First row of `METRICS` in seconds.
SECONDS = METRICS.index("run")


#: Most range names kept per process: those with the most time.
MOST_RANGES = 64


@dataclass(frozen=True, slots=True)
class RangeSums:
    """NVTX ranges of one name in one process, without the `left_out` slow ones at the beginning.

    `waits_s`: seconds in calls that wait for other processes, in all ranges including `left_out`; NaN if not
    recorded.
    """

    count: int
    left_out: int
    total_s: float
    median_s: float
    waits_s: float


def sums_of_ranges(
    process: Process, calls: RangeCalls | None, bits: Bits
) -> dict[tuple[str, str], RangeSums]:
    """Sum up the NVTX ranges of a process by name; `calls` of its main thread, whose functions have `bits`."""
    ranges = process.ranges
    if ranges is None or not len(ranges):
        return {}
    inside, unseen = {}, math.nan
    if calls is not None:
        inside, unseen = _waits_inside(calls, bits), 0.0
    folded: dict[str, int] = {}
    table = [folded.setdefault(pattern_of(text), len(folded)) for text in ranges.strings]
    number = np.array(table, np.int64)
    texts = list(folded)
    # Other ranks do not wait for what other threads do beside the main one.
    main = first_thread(process)
    own = ranges.ended if main is None or main.tid is None else ranges.ended & (ranges.thread == main.tid)
    ended = np.flatnonzero(own)
    kind = number[ranges.name[ended]] << 32 | number[ranges.domain[ended]]
    found: dict[tuple[str, str], RangeSums] = {}
    for value in np.unique(kind).tolist():
        rows = ended[kind == value]
        seconds = ranges.duration_s[rows[np.argsort(ranges.begin_ns[rows], kind="stable")]]
        left_out = warming_up(seconds)
        used = seconds[left_out:]
        key = texts[value & 0xFFFFFFFF], texts[value >> 32]
        waits_s = inside.get(key, unseen)
        found[key] = RangeSums(len(used), left_out, float(used.sum()), float(np.median(used)), waits_s)
    most = sorted(found, key=lambda key: (-found[key].total_s, key))[:MOST_RANGES]
    return {key: found[key] for key in most}


def _waits_inside(calls: RangeCalls, bits: Bits) -> dict[tuple[str, str], float]:
    """Return the seconds in calls that wait for other ranks, by the ranges around them."""
    waits = (bits[calls.function] & RANK_WAIT) != 0
    own = np.bincount(calls.context[waits], calls.tottime[waits], len(calls.parent))
    found: dict[tuple[str, str], float] = {}
    for context in np.flatnonzero(own).tolist():
        around, at = set(), context
        while at >= 0:
            around.add((calls.strings[calls.domain[at]], pattern_of(calls.strings[calls.name[at]])))
            at = int(calls.parent[at])
        for key in around:
            found[key] = found.get(key, 0.0) + float(own[context])
    return found


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a job, and how its main thread spent its time, in seconds.

    `size`: ranks that the launcher started. `measured`: queueing and off-CPU time are known; otherwise `run_s` is
    self time, `blocked_s` that of functions that wait by design, and `queue_s` 0. `life_s`: without counters the sum
    of self times. `run_s`, `queue_s` and `blocked_s` exclude `waits_s` (calls that wait for other processes) and
    `imports_s`. `helpers_run_s`: its other threads and child processes, running or queueing.

    `collects_s`: the garbage collector's part of `run_s`, mostly in `collects_in`; ``None`` if not measured.
    `waits_by` divides `waits_s` by `WAIT_STATES`; `off_for` divides `blocked_s` by `model.pauses.WAITS`,
    ``None`` if not recorded. `projects`: directories that a report must mask.
    `exit_status`: that of the file's run.
    """

    label: str
    path: str
    rank: int | None
    size: int | None
    host: str
    job: str
    command: tuple[str, ...]
    started: str
    measured: bool
    wall_s: float | None
    life_s: float
    run_s: float
    queue_s: float
    blocked_s: float
    waits_s: float
    imports_s: float
    helpers_run_s: float
    projects: tuple[str, ...] = ()
    local_rank: int | None = None
    node: int | None = None
    collects_s: float | None = None
    collects_in: FunctionKey | None = None
    waits_by: tuple[float, ...] = (0.0,) * len(WAIT_STATES)
    off_for: tuple[float, ...] | None = None
    exit_status: int = 0

    @property
    def pace_s(self) -> float:
        """Seconds that the others must wait for it: all but its own waiting and its imports."""
        return self.run_s + self.queue_s + self.blocked_s


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one process contributes to the comparison.

    `values` (5 × columns of the task): `METRICS` of each function. `shares`: fraction of the process's time
    per column. `more`: functions outside the task with their shares. `ranges`: by domain and name.
    """

    member: Member
    values: Values
    shares: Values
    more: tuple[tuple[FunctionKey, float], ...]
    ranges: Mapping[tuple[str, str], RangeSums]


@dataclass(frozen=True, slots=True)
class Task:
    """What to read of each file: the values of the functions in `columns`.

    `floor`: fraction of time from which other functions are reported. `waits`: patterns of further functions
    that wait for other processes. `reference`: ``None`` if all files name the project alike. `alone`: compare
    a single file's workers if it has no ranks. `folded`: functions counted in their callers everywhere, since
    a tracer throttled them somewhere.
    """

    columns: tuple[FunctionKey, ...] = ()
    floor: float = 2.0
    waits: tuple[str, ...] = ()
    reference: Reference | None = None
    alone: bool = False
    folded: frozenset[FunctionKey] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class FileReading:
    """One file: its processes, the functions throttled in any of them, or why it was skipped."""

    readings: tuple[Reading, ...] = ()
    skipped: Notice | None = None
    throttled: frozenset[FunctionKey] = frozenset()


def read_file(path: str, task: Task) -> FileReading:
    """Read the processes of a file or fsspec address (``s3://…``); an unreadable file yields a notice."""
    try:
        run = load(path, edges=bool(task.folded))
    except FormatError as error:
        return FileReading(skipped=skipped(error))
    throttled = throttled_in((run,))
    run = folded(run, task.folded)
    found = processes_of(run, alone=task.alone)
    readings = tuple(_reading(run, process, helpers, label, task) for process, helpers, label in found)
    return FileReading(readings, throttled=throttled)


def _reading(run: Run, process: Process, helpers: Sequence[Process], label: str, task: Task) -> Reading:
    main = first_thread(process)
    names = names_of(task.waits)
    sums = _Sums(names, task.columns)
    measured, range_calls, bits = True, None, np.zeros(0, np.uint8)
    totals = np.zeros(5)
    collects_s, collects_in = None, None
    off_for: tuple[float, ...] | None = None
    waits_by: Floats = np.zeros(len(WAIT_STATES))
    if main is not None:
        measured = main.profile.wait is not None and main.profile.blocked is not None
        rows = names.rows(main.profile, process.roots, task.reference)
        totals = sums.add(main, rows, main=True)
        range_calls, bits = main.range_calls, rows.bits
        running, queue, off = _divided(main.profile, bits)
        waits = (bits & RANK_WAIT) != 0
        seconds = (running + queue + off)[waits]
        waits_by = np.bincount(bits[waits] >> STATE, seconds, len(WAIT_STATES)).astype(np.float64)
        if measured and main.pauses is not None:
            work = (bits & (RANK_WAIT | IMPORT)) == 0
            off_for = tuple(waited(main)[:, work].sum(axis=1).tolist())
            # A collection is timed by the clock, so its queueing is already in the function's queueing.
            collects = np.where(work, np.minimum(paused(main, *COLLECTIONS), running), 0.0)
            collects_s = float(collects.sum())
            if collects_s > 0:
                most = int(collects.argmax())
                collects_in = names.function(int(rows.place[most]), int(rows.name[most]))
    of_helpers = 0.0
    for owner in (process, *helpers):
        for thread in owner.threads:
            if thread is not main and len(thread.profile):
                rows = names.rows(thread.profile, owner.roots, task.reference)
                of_helpers += float(sums.add(thread, rows, main=False)[:2].sum())
    manifest = run.manifest
    host = process.host or run.host
    run_s, queue_s, blocked_s, waits_s, imports_s = totals.tolist()
    member = Member(
        label=label,
        path=run.path,
        rank=process.rank,
        size=run.job.get("world_size"),
        local_rank=process.local_rank,
        node=process.node,
        host="" if host is None else host.name,
        job=str(run.job.get("id") or ""),
        command=process.command or run.command,
        started="" if manifest is None else manifest.started,
        measured=measured,
        wall_s=run.wall_s,
        life_s=process.wall_s if process.wall_s is not None else float(totals.sum()),
        run_s=run_s,
        queue_s=queue_s,
        blocked_s=blocked_s,
        waits_s=waits_s,
        imports_s=imports_s,
        helpers_run_s=of_helpers,
        projects=tuple(dict.fromkeys((*process.roots.project, *process.roots.site, *process.roots.stdlib))),
        collects_s=collects_s,
        collects_in=collects_in,
        waits_by=tuple(waits_by.tolist()),
        off_for=off_for,
        exit_status=run.exit_status or 0,
    )
    shares, more = sums.shares(task.floor)
    return Reading(member, sums.values, shares, more, sums_of_ranges(process, range_calls, bits))


def _calls(profile: Profile) -> tuple[Floats, Floats]:
    """Return limits of each function's calls: equal where exact, 0 and infinity where unknown."""
    exact = profile.ncalls.astype(np.float64)
    if profile.calls_low is None or profile.calls_high is None:
        return exact, exact
    return np.nan_to_num(profile.calls_low, nan=0.0), np.nan_to_num(profile.calls_high, nan=np.inf)


class _Sums:
    """Time of one process by function, gathered from its threads."""

    def __init__(self, names: RankNames, columns: tuple[FunctionKey, ...]) -> None:
        self.names = names
        self.sorted, self.order = names.packed(columns)
        self.values = np.zeros((len(METRICS), len(columns)), np.float32)
        self.packed: list[Ints] = []
        self.seconds: list[Floats] = []

    def add(self, thread: Thread, rows: FunctionRows, *, main: bool) -> Floats:
        """Add a thread; return seconds of running, queueing, blocked, rank waits and imports."""
        bits = rows.bits
        run, queue, off = _divided(thread.profile, bits)
        if not main:
            # An idle helper waits: only its work counts.
            off = np.zeros(len(off))
        packed = rows.place << 32 | rows.name
        whole = run + queue + off
        self.packed.append(packed)
        self.seconds.append(whole)
        if len(self.sorted):
            at = np.searchsorted(self.sorted, packed)
            at[at == len(self.sorted)] = 0
            known = np.flatnonzero(self.sorted[at] == packed)
            into = self.order[at[known]]
            for i, column in enumerate((*_calls(thread.profile), run, queue, off)):
                added = np.bincount(into, column[known], self.values.shape[1])
                self.values[i] += added.astype(np.float32)
        waits, imports = (bits & RANK_WAIT) != 0, (bits & IMPORT) != 0
        work = ~(waits | imports)
        return np.array(
            [
                run[work].sum(),
                queue[work].sum(),
                off[work].sum(),
                whole[waits].sum(),
                whole[imports & ~waits].sum(),
            ]
        )

    def shares(self, floor: float) -> tuple[Values, tuple[tuple[FunctionKey, float], ...]]:
        """Return each column's fraction of the time, and the other functions of at least `floor`."""
        n = self.values.shape[1]
        if not self.packed:
            return np.zeros(n, np.float32), ()
        packed, seconds = np.concatenate(self.packed), np.concatenate(self.seconds)
        total = float(seconds.sum())
        if total <= 0:
            return np.zeros(n, np.float32), ()
        shares = (self.values[SECONDS:].sum(axis=0) / total).astype(np.float32)
        # A key has a row per thread; rows far below the floor are skipped.
        large = np.flatnonzero(seconds >= floor * total / 8)
        unique, of = np.unique(packed[large], return_inverse=True)
        sums = np.bincount(of.reshape(-1), seconds[large], len(unique)) / total
        wanted = (sums >= floor) & ~np.isin(unique, self.sorted)
        found = zip(unique[wanted].tolist(), sums[wanted].tolist(), strict=True)
        more = ((self.names.function(number >> 32, number & 0xFFFFFFFF), share) for number, share in found)
        return shares, tuple(sorted(more))


def _divided(profile: Profile, bits: Bits) -> tuple[Floats, Floats, Floats]:
    """Return the self time of each row: running, queueing, off the CPU."""
    if profile.wait is not None and profile.blocked is not None:
        return (
            np.maximum(profile.tottime - profile.wait - profile.blocked, 0.0),
            profile.wait,
            profile.blocked,
        )
    waits = (bits & (NATIVE_WAIT | LIBRARY_WAIT)) != 0
    return np.where(waits, 0.0, profile.tottime), np.zeros(len(bits)), np.where(waits, profile.tottime, 0.0)
