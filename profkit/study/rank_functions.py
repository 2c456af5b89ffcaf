"""Functions of a job's processes as numbers that all files share, and which of them wait or import."""

from __future__ import annotations

import fnmatch
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profkit.identity.file_matches import match_files
from profkit.identity.function_keys import clean_name, unique_files
from profkit.identity.rooted_paths import rooted
from profkit.measure.side_facts import first_thread, last_images
from profkit.measure.waits_by_name import is_wait, waits_for_ranks
from profkit.model import BUILTIN, PROJECT, STDLIB, FunctionKey, Process, Profile, Roots, Run
from profkit.model.arrays import Index, Ints
from profkit.study.wait_states import wait_state
from profkit.study.workers import load

Bits = npt.NDArray[np.uint8]

#: Python functions whose self time counts as that of the collective operation in their name. Tracers do not
#: see mpi4py's methods, which are made by Cython: their time is self time of the caller.
_COLLECTIVE = re.compile(
    r"_*(?:all_?reduce\w*|all_?gather\w*|all_?to_?all\w*|reduce_?scatter\w*|multi_node_mean\w*|i?barrier"
    r"|bcast\w*|broadcast(?:_(?:data|coalesced|parameters|object\w*))?)_*",
    re.IGNORECASE,
)
#: Imports: they precede the work, or wait for all ranks in ``MPI_Init``.
_IMPORTS = re.compile(r"<built-in method (?:_imp\.|marshal\.loads|_io\.open_code)")
#: Flags of a function.
RANK_WAIT, NATIVE_WAIT, LIBRARY_WAIT, IMPORT = 1, 2, 4, 8
#: The bits from here on hold the index of a wait state.
STATE = 4


@dataclass(frozen=True, slots=True)
class Reference:
    """The file whose project file names all others are mapped to."""

    path: str
    files: frozenset[str]


class FunctionRows(NamedTuple):
    """Rows of a profile: the numbers of their files and names in `RankNames`, and their flags."""

    place: Ints
    name: Ints
    bits: Bits


def reference_of(path: str) -> Reference:
    run = load(path)
    process = processes_of(run, alone=False)[0][0]
    thread = first_thread(process)
    profile = Profile.empty() if thread is None else thread.profile
    files = {rooted(profile.strings[f], process.roots) for f in unique_files(profile)[0].tolist()}
    return Reference(path, frozenset(path for root, path in files if root == PROJECT))


class RankNames:
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
        self.place_bits.append((LIBRARY_WAIT if root == STDLIB else 0) | (IMPORT if imports else 0))
        return len(self.place_list) - 1

    def _name(self, text: str) -> int:
        bits = self._bits(text)
        self.name_list.append(text)
        self.name_bits.append(bits | (wait_state(text) << STATE if bits & RANK_WAIT else 0))
        return len(self.name_list) - 1

    def function(self, place: int, name: int) -> FunctionKey:
        return FunctionKey(*self.place_list[place], self.name_list[name])

    def _bits(self, name: str) -> int:
        last = name.rpartition(".")[2]
        if any(fnmatch.fnmatchcase(name, w) or fnmatch.fnmatchcase(last, w) for w in self.waits):
            return RANK_WAIT
        if name.startswith("<"):
            if waits_for_ranks(name):
                return RANK_WAIT
            return (NATIVE_WAIT if is_wait(name, BUILTIN) else 0) | (IMPORT if _IMPORTS.match(name) else 0)
        if _COLLECTIVE.fullmatch(last):
            return RANK_WAIT
        return LIBRARY_WAIT if is_wait(name, STDLIB) else 0

    def rows(self, profile: Profile, roots: Roots, reference: Reference | None) -> FunctionRows:
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
        of_row = of_row & ~np.where(of_place & LIBRARY_WAIT, 0, LIBRARY_WAIT).astype(np.uint8)
        return FunctionRows(places, names, (of_row | (of_place & IMPORT)).astype(np.uint8))

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
        process = processes_of(load(reference.path), alone=False)[0][0]
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
    names = names_of(waits)
    bits = [names.name_bits[names.name(k.qualname)] | names.place_bits[names.place(k[:2])] for k in functions]
    return [bool(b & RANK_WAIT) for b in bits], [bool(b & IMPORT) for b in bits]


#: A Dask worker may read several files at once, in threads.
_of_thread = threading.local()


def names_of(waits: tuple[str, ...]) -> RankNames:
    known: RankNames | None = getattr(_of_thread, "names", None)
    if known is None or known.waits != waits:
        known = _of_thread.names = RankNames(waits)
    return known


def processes_of(run: Run, *, alone: bool) -> list[tuple[Process, tuple[Process, ...], str]]:
    """Return the processes to compare, each with its helpers and its label."""
    name = os.path.basename(run.path.rstrip("/"))
    ranks = last_images([p for p in run.processes if p.role == "rank" and p.profiled])
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
    """Return the descendants of a process on its host, without other ranks, which it may start, and theirs."""
    host = process.host and process.host.name
    found, known = [], {process.pid}
    for other in sorted(run.processes, key=lambda p: p.pid or 0):
        beside = other is not process and other.role != "rank"
        if beside and other.parent in known and (other.host and other.host.name) == host:
            known.add(other.pid)
            found.append(other)
    return tuple(found)
