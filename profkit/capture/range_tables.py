"""From an agent's table of one thread to `RangeCalls`: which functions ran inside which ranges.

The tracer knows ranges by the numbers that the NVTX collector gave their names; the names themselves are in the
collector's own file, which may be read later (`capture.nvtx`), or be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model import RangeCalls

__all__ = ["name_ranges", "range_calls"]

#: What stands before the numbers until their names are known.
_NAME, _DOMAIN = "name ", "domain "


def range_calls(table: Mapping[str, Any], row_of: npt.NDArray[np.int32]) -> RangeCalls | None:
    """Return the sums of one thread, ranges by their numbers; ``None`` where there were none.

    Parameters
    ----------
    table
        Of a record; ``inside`` is a list of ``(path, ranges, rows)``, where a path has ``(domain, name, opener)`` for
        each range from the outermost on, and a row is ``(function, calls, self time, wait, blocked)``.
    row_of : int32 array
        Row in the thread's profile of each function number; −1 where it has none.
    """
    inside = table.get("inside") or ()
    if not inside:
        return None
    strings: dict[str, int] = {"": 0}
    numbers: dict[tuple[Any, ...], int] = {}
    contexts: list[tuple[int, int, int, int, int]] = []
    rows: list[tuple[float, ...]] = []

    def string(kind: str, number: int) -> int:
        return strings.setdefault(f"{kind}{number}", len(strings)) if number else 0

    def context(path: tuple[Any, ...]) -> int:
        """Return the number of a path's context; contexts around it are made first."""
        known = numbers.get(path)
        if known is None:
            parent = context(path[:-1]) if len(path) > 1 else -1
            domain, name, opener = path[-1]
            known = numbers[path] = len(contexts)
            row = int(row_of[opener]) if opener >= 0 else -1
            contexts.append((parent, string(_NAME, name), string(_DOMAIN, domain), row, 0))
        return known

    for path, count, found in inside:
        number = context(tuple(map(tuple, path)))
        contexts[number] = (*contexts[number][:4], contexts[number][4] + count)
        rows += [(number, row_of[row[0]], *row[1:]) for row in found if row_of[row[0]] >= 0]
    # A thread without counters of the kernel has unknown waiting, not zero.
    unknown = 0.0 if table.get("measured") else np.nan
    columns = np.array(contexts, np.int64).reshape(-1, 5)
    values = np.array(rows, np.float64).reshape(-1, 6)
    parent, name, domain, opener = (columns[:, i].astype(np.int32) for i in range(4))
    return RangeCalls(
        strings=tuple(strings),
        parent=parent,
        name=name,
        domain=domain,
        opener=opener,
        count=columns[:, 4],
        context=values[:, 0].astype(np.int32),
        function=values[:, 1].astype(np.int32),
        ncalls=values[:, 2].astype(np.int64),
        tottime=values[:, 3],
        wait=values[:, 4] + unknown,
        blocked=values[:, 5] + unknown,
    )


def name_ranges(calls: RangeCalls, names: Mapping[int, str], domains: Mapping[int, str]) -> RangeCalls:
    """Put the collector's names in the place of its numbers."""

    def text(known: str) -> str:
        for kind, texts, lost in ((_NAME, names, "(name {} is lost)"), (_DOMAIN, domains, "(domain {})")):
            if known.startswith(kind):
                number = int(known[len(kind) :])
                return texts.get(number, lost.format(number))
        return known

    table: dict[str, int] = {"": 0}
    moved = np.array([table.setdefault(text(known), len(table)) for known in calls.strings], np.int32)
    return replace(calls, strings=tuple(table), name=moved[calls.name], domain=moved[calls.domain])
