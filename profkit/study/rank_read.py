"""Read one file of a job into one vector per process, over functions that all files have in common.

It runs here, in other processes, or on a Dask cluster, so its results stay small.
"""

from __future__ import annotations

import contextlib
import fnmatch
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.compare.folded_functions import folded, throttled_in
from profkit.errors import FormatError, UsageError
from profkit.formats.load import load_run, skipped
from profkit.identity.file_matches import match_files
from profkit.identity.function_keys import clean_name, unique_files
from profkit.identity.rooted_paths import rooted
from profkit.measure.iterations import warming_up
from profkit.measure.pause_seconds import collected, waited
from profkit.measure.range_stats import pattern_of
from profkit.measure.side_facts import first_thread
from profkit.measure.waits_by_name import is_wait, waits_for_ranks
from profkit.model import (
    BUILTIN,
    PROJECT,
    STDLIB,
    FunctionKey,
    Notice,
    Process,
    Profile,
    RangeCalls,
    Roots,
    Run,
    Thread,
)
from profkit.model.arrays import Floats, Index, Ints
from profkit.study.wait_states import WAIT_STATES, wait_state

Values = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint8]

#: Rows of `Reading.values` for each function: limits of the calls, then seconds.
METRICS = ("calls_low", "calls_high", "run", "queue", "blocked")
#: First row of `METRICS` in seconds.
SECONDS = METRICS.index("run")
#: Most range names kept per process: those with the most time.
MOST_RANGES = 64
#: Python functions whose self time counts as that of the collective operation in their name. Tracers do not
#: see mpi4py's methods, which are made by Cython: their time is self time of the caller.
_COLLECTIVE = re.compile(
    r"_*(?:all_?reduce\w*|all_?gather\w*|all_?to_?all\w*|reduce_?scatter\w*|multi_node_mean\w*|i?barrier"
    r"|bcast\w*|broadcast(?:_(?:data|coalesced|parameters|object\w*))?)_*",
    re.IGNORECASE,
)
#: Imports: they precede the work, or wait for all ranks in ``MPI_Init``.
_IMPORTS = re.compile(r"<built-in method (?:_imp\.|marshal\.loads|posix\.stat|_io\.open_code|nt\.stat)")
_RANK_WAIT, _NATIVE_WAIT, _LIBRARY_WAIT, _IMPORT = 1, 2, 4, 8
#: The bits from here on hold the index of a wait state.
_STATE = 4


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a job, and how its main thread spent its time, in seconds.

    `size`: ranks that the launcher started. `measured`: queueing and off-CPU time are known; otherwise
    `run_s` is self time, `blocked_s` that of functions that wait by design, and `queue_s` 0. `life_s`:
    without counters the sum of self times. `run_s`, `queue_s` and `blocked_s` exclude `waits_s` (calls that
    wait for other processes) and `imports_s`. `helpers_run_s`: its other threads and child processes, running
    or queueing.

    `collects_s`: the garbage collector's part of `run_s`, mostly in `collects_in`; ``None`` if not measured.
    `waits_by` divides `waits_s` by `WAIT_STATES`; `off_for` divides `blocked_s` by `model.pauses.WAITS`,
    ``None`` if not recorded. `projects`: directories that a report must mask.
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

    @property
    def pace_s(self) -> float:
        """Seconds that the others must wait for it: all but its own waiting and its imports."""
        return self.run_s + self.queue_s + self.blocked_s


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
class Reference:
    """The file whose project file names all others are mapped to."""

    path: str
    files: frozenset[str]


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
    found = _processes(run, alone=task.alone)
    readings = tuple(_reading(run, process, helpers, label, task) for process, helpers, label in found)
    return FileReading(readings, throttled=throttled)


def reference_of(path: str) -> Reference:
    run = load(path)
    process = _processes(run, alone=False)[0][0]
    thread = first_thread(process)
    profile = Profile.empty() if thread is None else thread.profile
    files = {rooted(profile.strings[f], process.roots) for f in unique_files(profile)[0].tolist()}
    return Reference(path, frozenset(path for root, path in files if root == PROJECT))


def load(path: str, *, edges: bool = False, processes: bool = True) -> Run:
    """Return the run of a path or address; raises `FormatError`."""
    with local(path) as file:
        try:
            return replace(load_run(file, edges=edges, processes=processes), path=path)
        except FormatError as error:
            raise FormatError(path, error.problem, error.hint) from None


@contextlib.contextmanager
def local(path: str) -> Iterator[str]:
    """Yield a local path for a file or address; a fetched copy is deleted afterwards."""
    if "://" not in path:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
        copy = os.path.join(directory, "run.prof")
        with addressed(path, "fetched") as (system, inside):
            system.get_file(inside, copy)
        yield copy


@contextlib.contextmanager
def addressed(address: str, what: str) -> Iterator[tuple[Any, str]]:
    """Yield the fsspec file system of an address, and the path there; errors say "cannot be `what`"."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(f"{address}: addresses need fsspec; install profkit[dask]") from None
    try:
        yield url_to_fs(address)
    except Exception as error:  # file systems raise their own exception types
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(address, f"cannot be {what}: {problem}", "check the address") from None


# Which processes


def _processes(run: Run, *, alone: bool) -> list[tuple[Process, tuple[Process, ...], str]]:
    """Return the processes to compare, each with its helpers and its label."""
    name = os.path.basename(run.path.rstrip("/"))
    ranks = [p for p in run.processes if p.role == "rank" and p.profiled]
    if len(ranks) > 1:
        return [(p, _helpers(run, p), f"rank {p.rank}") for p in ranks]
    workers = [p for p in run.processes if p.role == "worker" and p.profiled]
    if alone and not ranks and len(workers) > 1:
        return [(p, _helpers(run, p), f"worker {p.pid}") for p in workers]
    first = ranks[0] if ranks else run.processes[0]
    job = run.job
    rank = first.rank if first.rank is not None else job.get("rank")
    if first.rank is None and rank is not None:
        first = replace(first, rank=rank, local_rank=job.get("local_rank"), node=job.get("node"))
    others = tuple(p for p in run.processes if p.pid != first.pid or p.parent != first.parent)
    return [(first, others, name if rank is None else f"rank {rank}")]


def _helpers(run: Run, process: Process) -> tuple[Process, ...]:
    """Return the descendants of a process on its host."""
    host = process.host and process.host.name
    found, known = [], {process.pid}
    for other in sorted(run.processes, key=lambda p: p.pid or 0):
        if other is not process and other.parent in known and (other.host and other.host.name) == host:
            known.add(other.pid)
            found.append(other)
    return tuple(found)


# One process


def _reading(run: Run, process: Process, helpers: Sequence[Process], label: str, task: Task) -> Reading:
    main = first_thread(process)
    names = _names(task.waits)
    sums = _Sums(names, task.columns)
    measured = True
    totals = np.zeros(5)
    collects_s, collects_in = None, None
    off_for: tuple[float, ...] | None = None
    waits_by: Floats = np.zeros(len(WAIT_STATES))
    if main is not None:
        measured = main.profile.wait is not None and main.profile.blocked is not None
        rows = names.rows(main.profile, process.roots, task.reference)
        totals = sums.add(main, rows, main=True)
        bits = rows[2]
        running, queue, off = _divided(main.profile, bits)
        waits = (bits & _RANK_WAIT) != 0
        seconds = (running + queue + off)[waits]
        waits_by = np.bincount(bits[waits] >> _STATE, seconds, len(WAIT_STATES)).astype(np.float64)
        if measured and main.pauses is not None:
            work = (bits & (_RANK_WAIT | _IMPORT)) == 0
            off_for = tuple(waited(main)[:, work].sum(axis=1).tolist())
            # A collection is timed by the clock, so its queueing is already in the function's queueing.
            collects = np.where(work, np.minimum(collected(main), running), 0.0)
            collects_s = float(collects.sum())
            if collects_s > 0:
                most = int(collects.argmax())
                collects_in = names.function(int(rows[0][most]), int(rows[1][most]))
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
    )
    shares, more = sums.shares(task.floor)
    return Reading(member, sums.values, shares, more, _ranges(process, main, names, task))


class _Names:
    """Numbers for files and names of functions, and flags of what they mean; one table per thread.

    What was looked up is kept: the processes of a job have the same functions.
    """

    def __init__(self, waits: tuple[str, ...]) -> None:
        self.waits = waits
        self.place_list: list[tuple[str, str]] = []
        self.place_bits = bytearray()
        self.name_list: list[str] = []
        self.name_bits = bytearray()
        self.place = cache(self._place)
        self.name = cache(self._name)
        self.raw_place = cache(lambda raw, roots: self.place(rooted(raw, roots)))
        self.raw_name = cache(lambda raw: self.name(clean_name(raw)))
        # Only one table: those of earlier passes are never needed again.
        self.packed = lru_cache(1)(self._packed)

    def _place(self, key: tuple[str, str]) -> int:
        root, path = key
        imports = root == STDLIB and path.startswith("importlib/")
        self.place_list.append(key)
        self.place_bits.append((_LIBRARY_WAIT if root == STDLIB else 0) | (_IMPORT if imports else 0))
        return len(self.place_list) - 1

    def _name(self, text: str) -> int:
        bits = self._bits(text)
        self.name_list.append(text)
        self.name_bits.append(bits | (wait_state(text) << _STATE if bits & _RANK_WAIT else 0))
        return len(self.name_list) - 1

    def function(self, place: int, name: int) -> FunctionKey:
        return FunctionKey(*self.place_list[place], self.name_list[name])

    def _bits(self, name: str) -> int:
        last = name.rpartition(".")[2]
        if any(fnmatch.fnmatchcase(name, w) or fnmatch.fnmatchcase(last, w) for w in self.waits):
            return _RANK_WAIT
        if name.startswith("<"):
            if waits_for_ranks(name):
                return _RANK_WAIT
            return (_NATIVE_WAIT if is_wait(name, BUILTIN) else 0) | (_IMPORT if _IMPORTS.match(name) else 0)
        if _COLLECTIVE.fullmatch(last):
            return _RANK_WAIT
        return _LIBRARY_WAIT if is_wait(name, STDLIB) else 0

    def rows(self, profile: Profile, roots: Roots, reference: Reference | None) -> tuple[Ints, Ints, Bits]:
        """Return the numbers of each row's file and name, and its flags."""
        files, of_file = unique_files(profile)
        numbers = [self.raw_place(profile.strings[f], roots) for f in files.tolist()]
        if reference is not None:
            self._aligned(profile, roots, files, numbers, reference)
        named = np.where(profile.qualname != 0, profile.qualname, profile.name)
        used, of_name = np.unique(named, return_inverse=True)
        numbers_of_names = [self.raw_name(profile.strings[i]) for i in used.tolist()]
        places = np.array(numbers, np.int64)[of_file]
        names = np.array(numbers_of_names, np.int64)[of_name.reshape(-1)]
        of_row = np.frombuffer(bytes(self.name_bits), np.uint8)[names]
        of_place = np.frombuffer(bytes(self.place_bits), np.uint8)[places]
        # A Python function waits by its name only if it is in the standard library.
        of_row = of_row & ~np.where(of_place & _LIBRARY_WAIT, 0, _LIBRARY_WAIT).astype(np.uint8)
        return places, names, (of_row | (of_place & _IMPORT)).astype(np.uint8)

    def _aligned(
        self,
        profile: Profile,
        roots: Roots,
        files: Index,
        numbers: list[int],
        reference: Reference,
    ) -> None:
        """Map project files that lie elsewhere than in the reference to its names."""
        mine = {self.place_list[n][1] for n in numbers if self.place_list[n][0] == PROJECT}
        if mine <= reference.files or reference.files <= mine:
            return
        process = _processes(load(reference.path), alone=False)[0][0]
        thread = first_thread(process)
        if thread is None:
            return
        ours = thread.profile
        known: dict[str, int] = {}

        def numbered(one: Profile) -> Index:
            table = np.array([known.setdefault(text, len(known)) for text in one.strings], np.int32)
            return table[one.name]

        here, there, _ = match_files(ours, profile, process.roots, roots, numbered(ours), numbered(profile))
        matched_here = dict(zip(ours.file.tolist(), here.tolist(), strict=True))
        back = {match: self.raw_place(ours.strings[f], process.roots) for f, match in matched_here.items()}
        matched_there = dict(zip(profile.file.tolist(), there.tolist(), strict=True))
        for i, f in enumerate(files.tolist()):
            numbers[i] = back.get(matched_there[f], numbers[i])

    def _packed(self, columns: tuple[FunctionKey, ...]) -> tuple[Ints, Ints]:
        """Return the columns as sorted numbers, and the position of each among the columns."""
        pairs = [(self.place((key.root, key.path)), self.name(key.qualname)) for key in columns]
        numbers = np.array([p << 32 | n for p, n in pairs], np.int64)
        order = np.argsort(numbers)
        return numbers[order], order


def waits_and_imports(
    functions: Sequence[FunctionKey], waits: tuple[str, ...]
) -> tuple[list[bool], list[bool]]:
    """Return which functions wait for other processes of the job (`waits` as in `Task`), and which import."""
    names = _names(waits)
    bits = [names.name_bits[names.name(k.qualname)] | names.place_bits[names.place(k[:2])] for k in functions]
    return [bool(b & _RANK_WAIT) for b in bits], [bool(b & _IMPORT) for b in bits]


#: A Dask worker may read several files at once, in threads.
_of_thread = threading.local()


def _names(waits: tuple[str, ...]) -> _Names:
    known: _Names | None = getattr(_of_thread, "names", None)
    if known is None or known.waits != waits:
        known = _of_thread.names = _Names(waits)
    return known


def _calls(profile: Profile) -> tuple[Floats, Floats]:
    """Return limits of each function's calls: equal where exact, 0 and infinity where unknown."""
    exact = profile.ncalls.astype(np.float64)
    if profile.calls_low is None or profile.calls_high is None:
        return exact, exact
    return np.nan_to_num(profile.calls_low, nan=0.0), np.nan_to_num(profile.calls_high, nan=np.inf)


class _Sums:
    """Time of one process by function, gathered from its threads."""

    def __init__(self, names: _Names, columns: tuple[FunctionKey, ...]) -> None:
        self.names = names
        self.sorted, self.order = names.packed(columns)
        self.values = np.zeros((len(METRICS), len(columns)), np.float32)
        self.packed: list[Ints] = []
        self.seconds: list[Floats] = []

    def add(self, thread: Thread, rows: tuple[Ints, Ints, Bits], *, main: bool) -> Floats:
        """Add a thread; return seconds of running, queueing, blocked, rank waits and imports."""
        places, named, bits = rows
        profile = thread.profile
        run, queue, off = _divided(profile, bits)
        if not main:
            # An idle helper waits: only its work counts.
            off = np.zeros(len(off))
        packed = places << 32 | named
        whole = run + queue + off
        self.packed.append(packed)
        self.seconds.append(whole)
        if len(self.sorted):
            at = np.searchsorted(self.sorted, packed)
            at[at == len(self.sorted)] = 0
            known = np.flatnonzero(self.sorted[at] == packed)
            into = self.order[at[known]]
            for i, column in enumerate((*_calls(profile), run, queue, off)):
                added = np.bincount(into, column[known], self.values.shape[1])
                self.values[i] += added.astype(np.float32)
        waits, imports = (bits & _RANK_WAIT) != 0, (bits & _IMPORT) != 0
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
        more = []
        for number, share in zip(unique[wanted].tolist(), sums[wanted].tolist(), strict=True):
            more.append((self.names.function(number >> 32, number & 0xFFFFFFFF), share))
        return shares, tuple(sorted(more))


def _divided(profile: Profile, bits: Bits) -> tuple[Floats, Floats, Floats]:
    """Return the self time of each row: running, queueing, off the CPU."""
    if profile.wait is not None and profile.blocked is not None:
        return (
            np.maximum(profile.tottime - profile.wait - profile.blocked, 0.0),
            profile.wait,
            profile.blocked,
        )
    waits = (bits & (_NATIVE_WAIT | _LIBRARY_WAIT)) != 0
    return np.where(waits, 0.0, profile.tottime), np.zeros(len(bits)), np.where(waits, profile.tottime, 0.0)


def _ranges(
    process: Process, main: Thread | None, names: _Names, task: Task
) -> dict[tuple[str, str], RangeSums]:
    """Sum up the NVTX ranges of a process by name."""
    ranges = process.ranges
    if ranges is None or not len(ranges):
        return {}
    inside, unseen = {}, math.nan
    if main is not None and main.range_calls is not None:
        bits = names.rows(main.profile, process.roots, task.reference)[2]
        inside, unseen = _waits_inside(main.range_calls, bits), 0.0
    folded: dict[str, int] = {}
    table = [folded.setdefault(pattern_of(text), len(folded)) for text in ranges.strings]
    number = np.array(table, np.int64)
    texts = list(folded)
    ended = np.flatnonzero(ranges.ended)
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
    waits = (bits[calls.function] & _RANK_WAIT) != 0
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
