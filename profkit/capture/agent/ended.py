"""Tables of threads that have ended, so that a target which starts a thread per task does not grow without bound.

Kept by the tracers, written into every record. Knows nothing of how a table is made.
"""

from __future__ import annotations

import _thread

from . import record_file

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

#: Ended threads that keep a table of their own; those with the least time are summed into one, so that a
#: program which starts a thread per task does not grow without bound.
_ENDED_THREADS_KEPT = 100


class EndedThreads:
    """Tables of threads that have ended: the largest one by one, the others summed."""

    def __init__(self) -> None:
        self._tables: List[Dict[str, Any]] = []
        self._summed: Optional[_Sum] = None
        self._summing = _thread.allocate_lock()  # threads may end while others start, and both come here

    def keep(self, table: Dict[str, Any]) -> None:
        """Add a thread's last table; it is packed from here on."""
        self._tables.append(record_file.pack(table))
        if len(self._tables) > _ENDED_THREADS_KEPT and self._summing.acquire(False):
            try:
                if self._summed is None:
                    self._summed = _Sum()
                while len(self._tables) > _ENDED_THREADS_KEPT:
                    least = min(range(len(self._tables)), key=lambda i: self._tables[i]["total"])
                    self._summed.add(self._tables.pop(least))
            finally:
                self._summing.release()

    def tables(self) -> List[Dict[str, Any]]:
        """Return all of them, packed."""
        return self._tables + ([] if self._summed is None else [self._summed.table()])


class _Sum:
    """Tables of ended threads, summed."""

    def __init__(self) -> None:
        self._waiting: Dict[int, List[Any]] = {}
        self._measured = False
        self._functions: Dict[int, List[Any]] = {}
        self._edges: Dict[Tuple[int, int], List[Any]] = {}
        self._contexts: Dict[Tuple[Any, ...], List[Any]] = {}  # by the ranges from the outermost on
        self._inside: Dict[Any, List[Any]] = {}
        self._threads = 0

    def add(self, table: Dict[str, Any]) -> None:
        self._threads += 1
        for row in record_file.rows(table, "functions"):
            accumulate(self._functions, row[0], row[1:])
        for row in record_file.rows(table, "edges"):
            accumulate(self._edges, (row[0], row[1]), row[2:])
        for row in record_file.rows(table, "waiting"):
            accumulate(self._waiting, row[0], row[1:])
        # A context is another number in every thread: it is the same where all ranges around it are.
        paths: List[Tuple[Any, ...]] = []
        for parent, domain, name, opener, count in record_file.rows(table, "contexts"):
            around = paths[parent] if parent >= 0 else ()
            paths.append((*around, (domain, name, opener)))
            accumulate(self._contexts, paths[-1], [count])
        for row in record_file.rows(table, "inside"):
            accumulate(self._inside, (paths[row[0]], row[1]), row[2:])
        self._measured = self._measured or table["measured"]

    def table(self) -> Dict[str, Any]:
        numbers = {path: number for number, path in enumerate(self._contexts)}
        contexts = [
            (numbers.get(path[:-1], -1), *path[-1], count[0]) for path, count in self._contexts.items()
        ]
        inside = [(numbers[path], function, *values) for (path, function), values in self._inside.items()]
        return record_file.pack(
            {
                "native": None,
                "name": "%d more ended threads" % self._threads,
                "functions": _flat(self._functions),
                "edges": record_file.flat([(*pair, *values) for pair, values in self._edges.items()]),
                "waiting": _flat(self._waiting),
                "measured": self._measured,
                "contexts": record_file.flat(contexts),
                "inside": record_file.flat(inside),
            }
        )


def _flat(sums: Dict[int, List[Any]]) -> List[Any]:
    return record_file.flat([(key, *values) for key, values in sums.items()])


def accumulate(sums: Dict[Any, List[Any]], key: Any, values: Any) -> None:
    """Add values to the row of a key, column by column."""
    have = sums.get(key)
    if have is None:
        sums[key] = list(values)
    else:
        for column, value in enumerate(values):
            have[column] += value
