"""Tables of threads that have ended, so that a target which starts a thread per task does not grow without bound.

Kept by the tracers, written into every record. Knows nothing of how a table is made.
"""

from __future__ import annotations

import _thread

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
        """Add a thread's last table."""
        self._tables.append(table)
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
        """Return all of them."""
        return self._tables + ([] if self._summed is None else [self._summed.table()])


class _Sum:
    """Tables of ended threads, summed."""

    def __init__(self) -> None:
        self._waiting: Dict[int, List[Any]] = {}
        self._measured = False
        self._functions: Dict[int, List[Any]] = {}
        self._edges: Dict[Tuple[int, int], List[Any]] = {}
        self._inside: Dict[Any, List[Any]] = {}
        self._threads = 0

    def add(self, table: Dict[str, Any]) -> None:
        self._threads += 1
        for row in table["functions"]:
            accumulate(self._functions, row[0], row[1:])
        for row in table["edges"]:
            accumulate(self._edges, row[:2], row[2:])
        for row in table.get("waiting", ()):
            accumulate(self._waiting, row[0], row[1:])
        for path, count, rows in table.get("inside", ()):
            accumulate(self._inside, (path, None), (count,))
            for row in rows:
                accumulate(self._inside, (path, row[0]), row[1:])
        self._measured = self._measured or table.get("measured", False)

    def table(self) -> Dict[str, Any]:
        return {
            "native": None,
            "name": "%d more ended threads" % self._threads,
            "functions": [(f, *values) for f, values in self._functions.items()],
            "edges": [(*pair, *values) for pair, values in self._edges.items()],
            "waiting": [(f, *values) for f, values in self._waiting.items()],
            "measured": self._measured,
            "open": [],
            "inside": self._contexts(),
        }

    def _contexts(self) -> List[Tuple[Any, ...]]:
        rows: Dict[Any, List[Any]] = {}
        for (path, function), values in self._inside.items():
            if function is not None:
                rows.setdefault(path, []).append((function, *values))
        return [
            (path, count[0], rows.get(path, []))
            for (path, function), count in self._inside.items()
            if function is None
        ]


def accumulate(sums: Dict[Any, List[Any]], key: Any, values: Tuple[Any, ...]) -> None:
    """Add values to the row of a key, column by column."""
    have = sums.get(key)
    if have is None:
        sums[key] = list(values)
    else:
        for column, value in enumerate(values):
            have[column] += value
