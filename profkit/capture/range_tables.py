"""Which functions of a thread ran inside which ranges; the collector's file has the names, if not lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from profkit.capture.record_types import ThreadTable
from profkit.model import RangeCalls
from profkit.model.arrays import Index

#: Prefixes of numbers whose names are not known yet.
_NAME, _DOMAIN = "name ", "domain "


def range_calls(table: ThreadTable, row_of: Index) -> RangeCalls | None:
    """Return the sums of one thread, or ``None``; `row_of` maps function numbers to profile rows, or −1."""
    seen, inside = table.contexts, table.inside
    if not len(seen.parent):
        return None
    strings: dict[str, int] = {"": 0}

    def string(kind: str, number: int) -> int:
        return strings.setdefault(f"{kind}{number}", len(strings)) if number else 0

    # Merge contexts whose openers have the same row, or none, like the agent's own functions.
    numbers: dict[tuple[int, int, int, int], int] = {}
    counts: list[int] = []
    moved: list[int] = []
    for parent, domain, name, opener, count in seen.tolist():
        around = moved[parent] if parent >= 0 else -1
        row = int(row_of[opener]) if opener >= 0 else -1
        number = numbers.setdefault((around, string(_NAME, name), string(_DOMAIN, domain), row), len(numbers))
        if number == len(counts):
            counts.append(0)
        counts[number] += count
        moved.append(number)
    contexts = np.array(list(numbers), np.int32)
    function = row_of[inside.function]
    known = function >= 0
    # Without kernel counters, a thread's waiting is unknown, not zero.
    unknown = 0.0 if table.measured else np.nan
    return RangeCalls(
        strings=tuple(strings),
        parent=contexts[:, 0],
        name=contexts[:, 1],
        domain=contexts[:, 2],
        opener=contexts[:, 3],
        count=np.array(counts, np.int64),
        context=np.array(moved, np.int32)[inside.context[known]],
        function=function[known],
        ncalls=inside.calls[known],
        tottime=inside.tottime[known],
        wait=inside.wait[known] + unknown,
        blocked=inside.blocked[known] + unknown,
    )


def name_ranges(calls: RangeCalls, names: Mapping[int, str], domains: Mapping[int, str]) -> RangeCalls:
    """Replace the collector's numbers by names."""

    def text(known: str) -> str:
        for kind, texts, lost in ((_NAME, names, "(name {} is lost)"), (_DOMAIN, domains, "(domain {})")):
            if known.startswith(kind):
                number = int(known[len(kind) :])
                return texts.get(number, lost.format(number))
        return known

    table: dict[str, int] = {"": 0}
    moved = np.array([table.setdefault(text(known), len(table)) for known in calls.strings], np.int32)
    return replace(calls, strings=tuple(table), name=moved[calls.name], domain=moved[calls.domain])
