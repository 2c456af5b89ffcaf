"""Counters over time as arrays, and back: the machine's series and the processes' thread samples.

Used by `runfile`. The processes' rows are concatenated, and each process keeps its row range. A run without a
sampler lacks these members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from profkit.formats.run_columns import Array, Members, gather_group, no_rows, read_column, read_group
from profkit.formats.run_json import Rows
from profkit.model import Series, ThreadSamples
from profkit.model.columns import column_dtypes

_COUNT, _VALUE = np.dtype("<i8"), np.dtype("<f8")
_SAMPLE_COLUMNS = column_dtypes(ThreadSamples)
_SERIES_TIME = "series/time_ns"
_SERIES_MEMBER = re.compile(r"series/([a-z][a-z0-9_]{0,63})\.npy")


def gather_series(series: Series | None) -> Iterator[tuple[str, Array]]:
    """Yield the members that hold a run's series, with their names; nothing if there is no series."""
    if series is None:
        return
    yield _SERIES_TIME, series.time_ns.astype(_COUNT, copy=False)
    for name, column in series.columns.items():
        if name != "time_ns" and _SERIES_MEMBER.fullmatch(f"series/{name}.npy"):
            yield f"series/{name}", column.astype(_VALUE, copy=False)


def gather_samples(parts: Sequence[ThreadSamples]) -> Iterator[tuple[str, Array]]:
    """Concatenate the thread samples of processes; yields nothing if there are none."""
    if parts:
        yield from gather_group("samples", _SAMPLE_COLUMNS, parts)


def read_series(members: Members) -> Series | None:
    """Read the machine's series with columns of any name.
    Raise `MemberError` if a column is no array of its type, `ProfileError` if columns contradict each other.
    """
    if f"{_SERIES_TIME}.npy" not in members.sizes:
        return None
    names = sorted(match[1] for member in members.sizes if (match := _SERIES_MEMBER.fullmatch(member)))
    most = members.most(_SERIES_TIME, _COUNT)
    members.budget.spend("readings of the machine", most * len(names))
    columns = {
        name: read_column(members, f"series/{name}", _VALUE, most) for name in names if name != "time_ns"
    }
    return Series(read_column(members, _SERIES_TIME, _COUNT, most), columns).validate()


class SampleArrays:
    """Columns of all processes' thread samples."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self._columns = columns
        self._rows = Rows(len(columns["tid"]))

    def samples(self, name: str, value: Any) -> ThreadSamples | None:
        """Return the samples that a process's ``[start, stop]`` names, ``None`` if it has none.
        Raise `MemberError` if that is no range of the rows, and `ProfileError` if the rows are not in order.
        """
        if value is None:
            return None
        rows = self._rows.take(name, value)
        return ThreadSamples(**{key: column[rows] for key, column in self._columns.items()}).validate()


def read_samples(members: Members) -> SampleArrays:
    """Read all thread samples, no rows if the run has none; raises as `run_columns.read_group` does."""
    if "samples/tid.npy" not in members.sizes:
        return SampleArrays(no_rows(_SAMPLE_COLUMNS))
    return SampleArrays(read_group(members, "samples", _SAMPLE_COLUMNS, "samples of threads"))
