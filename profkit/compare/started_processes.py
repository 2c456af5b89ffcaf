"""How many processes and threads a side started, from the calls that start them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profkit.compare.result_types import DiffTable
from profkit.identity.lookup_columns import rows_where

_PROCESSES = re.compile(
    r"<built-in method (?:posix\.(?:fork|forkpty|posix_spawnp?)|_posixsubprocess\.fork_exec)>"
)
_THREADS = re.compile(r"<built-in method _thread\.start_(?:new|joinable)_thread>")
#: Ranks are started from outside, and still wait for each other.
_RANKS = "mpi4py/"


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
    """Return what the calls of both sides show."""
    native = [(row, table.name[row]) for row in np.flatnonzero(table.native).tolist()]

    def calls(of: re.Pattern[str]) -> tuple[int, int]:
        rows = [row for row, name in native if of.match(name)]
        return int(table.baseline.ncalls[rows].sum()), int(table.candidate.ncalls[rows].sum())

    ranks = rows_where(table.file, lambda file: _RANKS in file)
    return Started(calls(_PROCESSES), calls(_THREADS), bool(ranks.any()))
