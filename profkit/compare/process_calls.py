"""Calls that start processes and threads, and calls that come with the number of processes, not with work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.compare.call_table import CallTable, each_call
from profkit.compare.handed_down import handed_down
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import CallRatios
from profkit.identity.lookup_columns import Keys, rows_in, rows_where
from profkit.model import BUILTIN, STDLIB, FunctionKey
from profkit.model.arrays import Bools, Floats

#: Modules that start processes and pass messages to them.
_PROCESSES = re.compile(
    r"(?:^|/)(?:multiprocessing|concurrent/futures|joblib|loky|billiard|torch/multiprocessing|torch/utils/data)/"
    r"|(?:^|/)subprocess\.py$"
)
_IMPORTS = re.compile(r"<frozen (?:importlib\.|zipimport)|(?:^|/)importlib/")
#: Calls that start processes and threads.
_PROCESS_STARTS = re.compile(
    r"<built-in method (?:posix\.(?:fork|forkpty|posix_spawnp?)|_posixsubprocess\.fork_exec)>"
)
#: Functions in Python that do nothing else, by file.
_STARTERS = re.compile(
    r"(?:^|/)(?:multiprocessing/(?:popen_\w+|process)|subprocess|loky/backend/(?:popen_\w+|fork_exec|process))\.py$"
)
_STARTING = frozenset(("_launch", "_execute_child", "fork_exec", "_bootstrap"))
_THREAD_STARTS = re.compile(r"<built-in method _thread\.start_(?:new|joinable)_thread>")
#: Ranks are started from outside, and still wait for each other.
_RANKS = "mpi4py/"


def calls_of_processes(
    table: DiffTable,
    calls: CallTable | None,
    ratios: CallRatios,
    processes: tuple[int, int],
    *,
    recorded: bool,
) -> Floats:
    """Return how many of each function's added calls, shape (n,), come with another number of processes.

    `recorded`: the table holds what these processes call, so that each of them imports modules in it.
    """
    n = len(table)
    if calls is None or not len(calls) or processes[0] == processes[1]:
        return np.zeros(n)
    feeds = feeds_processes(table.keys)
    imports = _inside(table.keys, _IMPORTS) | rows_where(table.name, lambda name: name == "<module>")
    imports &= recorded
    library = table.in_roots(STDLIB, BUILTIN)
    caller, callee = calls.caller.astype(np.intp), calls.callee.astype(np.intp)
    before, after = (side.ncalls.astype(np.float64) for side in (calls.baseline, calls.candidate))
    calls_a, calls_b = (side.ncalls.astype(np.float64) for side in (table.baseline, table.candidate))
    change = np.where(ratios.weighed, calls_b - calls_a, 0.0)
    # A module may run anything while it is imported. A process module also hands the program its work, so
    # only the library functions that it calls serve the processes themselves.
    direct = imports[caller] | (feeds[caller] & (library | feeds)[callee])
    source = np.bincount(callee[direct], (after - before)[direct], n).astype(np.float64)
    source = np.where(feeds, change, source)
    source = limited_by_number(source, np.minimum(calls_a, calls_b), processes)
    passes = ~direct & ~feeds[caller] & ~imports[caller]
    per_call = each_call((before, after), (calls_a[caller], calls_b[caller])) * passes
    lowest, highest = np.minimum(change, 0.0), np.maximum(change, 0.0)

    def following(current: Floats) -> Floats:
        handed = np.bincount(callee, per_call * current[caller], n)
        return np.where(feeds, source, np.clip(source + handed, lowest, highest))

    between = caller, callee, per_call * ~feeds[callee]
    start = np.clip(source, lowest, highest)
    return handed_down(following, start, between, (lowest, highest))


def limited_by_number(change: Floats, least: Floats, processes: tuple[int, int]) -> Floats:
    """Limit a change of what processes do to what another number of them explains; `least` is the lesser side's.

    More messages to each do not come with their number. All of it may where a side has the main process only.
    """
    few, many = sorted(number - 1 for number in processes)
    if few <= 0:
        return change
    most = (many / few - 1.0) * least
    return np.clip(change, -most, most)


def _names(keys: Sequence[FunctionKey]) -> Sequence[str]:
    return keys.name if isinstance(keys, Keys) else [key.qualname for key in keys]


def _inside(keys: Sequence[FunctionKey], files: re.Pattern[str]) -> Bools:
    paths = [key.path for key in keys]
    found = {path for path in set(paths) if files.search(path)}
    return np.array([path in found for path in paths], np.bool_)


def _forked(keys: Sequence[FunctionKey]) -> Bools:
    """Return the functions with which a forked process begins, shape (n,)."""
    return rows_in(keys, STDLIB) & rows_where(
        _names(keys), lambda name: "after_fork" in name or "at_fork" in name
    )


def feeds_processes(keys: Sequence[FunctionKey]) -> Bools:
    """Return the functions of Python that start processes and pass messages to them, shape (n,)."""
    return _inside(keys, _PROCESSES) | _forked(keys)


def starts_processes(keys: Sequence[FunctionKey]) -> Bools:
    """Return the functions that only start processes, shape (n,)."""
    names = _names(keys)
    starting = _inside(keys, _STARTERS) & rows_where(names, lambda name: name.rpartition(".")[2] in _STARTING)
    return rows_where(names, lambda name: _PROCESS_STARTS.match(name) is not None) | starting | _forked(keys)


@dataclass(frozen=True, slots=True)
class Started:
    """Processes and threads that each side started (baseline, candidate); `ranks`: it uses MPI."""

    processes: tuple[int, int]
    threads: tuple[int, int]
    ranks: bool

    @property
    def any(self) -> bool:
        """Whether either side may wait for something of its own program."""
        return self.ranks or any(self.processes) or any(self.threads)

    @property
    def growth(self) -> float:
        """The greater of the factors by which processes and threads grew."""
        return max(after / max(before, 1) for before, after in (self.processes, self.threads))


def started(table: DiffTable) -> Started:
    native = [(row, table.name[row]) for row in np.flatnonzero(table.native).tolist()]

    def calls(of: re.Pattern[str]) -> tuple[int, int]:
        rows = [row for row, name in native if of.match(name)]
        return int(table.baseline.ncalls[rows].sum()), int(table.candidate.ncalls[rows].sum())

    ranks = rows_where(table.file, lambda file: _RANKS in file)
    return Started(calls(_PROCESS_STARTS), calls(_THREAD_STARTS), bool(ranks.any()))
