"""The tables of all threads of a process, from the file that its tracer mapped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profkit.capture import mapped_layout as layout
from profkit.capture.mapped_file import MappedFile
from profkit.capture.mapped_thread import ThreadEnd, ThreadReader
from profkit.capture.record_types import ThreadTable
from profkit.formats.regular_file import read_regular

#: Most attempts to read a file whose tables are summed up meanwhile.
_READINGS = 8


def read_tables(path: Path, *, growing: bool) -> MappedTables:
    """Return a process's tables, `growing` if it still runs; raise `OSError`, or `ValueError` if damaged."""
    for _ in range(_READINGS if growing else 1):
        data = read_regular(path, layout.MOST_BYTES)
        # Tables of ended threads may have been summed up meanwhile, and their room reused.
        if not growing or _epoch(data) == _epoch(read_regular(path, layout.HEADER_BYTES, cut=True)):
            break
    return MappedTables(data, growing=growing)


class MappedTables(MappedFile):
    """The file of one process, and the tables of its threads."""

    def threads(
        self, until_s: float | None, names: Mapping[int, str], ends: Mapping[int, ThreadEnd]
    ) -> tuple[ThreadTable, ...]:
        """Return one table per thread, that of `first` first, a sum of ended ones last.

        Open calls end at `until_s` (``CLOCK_MONOTONIC``), else at their thread's last event; `ends` say how
        long they waited. Raise `ValueError` if a table is damaged.
        """
        heads = sorted(self.heads, key=lambda t: (t.n_folded > 0, t.native != self.first, t.number))
        found = [ThreadReader(self, head).table(until_s, names, ends) for head in heads]
        if not heads or heads[0].native != self.first or heads[0].n_folded:
            # It has called nothing.
            found.insert(0, ThreadTable(self.first or None, names.get(self.first, "MainThread")))
        return tuple(found)


def _epoch(data: bytes) -> int | None:
    return layout.record(layout.HEADER, data).epoch if len(data) >= layout.HEADER_BYTES else None
