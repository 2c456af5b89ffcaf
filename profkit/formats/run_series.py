"""The machine's counters over time as arrays, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from profkit.formats.run_columns import Array, read_column
from profkit.formats.run_members import Members
from profkit.model import Series

_COUNT, _VALUE = np.dtype("<i8"), np.dtype("<f8")
_SERIES_TIME = "series/time_ns"
_SERIES_MEMBER = re.compile(r"series/([a-z][a-z0-9_]{0,63})\.npy")


def gather_series(series: Series | None) -> Iterator[tuple[str, Array]]:
    """Yield the members of a run's series, with their names."""
    if series is None:
        return
    yield _SERIES_TIME, series.time_ns.astype(_COUNT, copy=False)
    for name, column in series.columns.items():
        if name != "time_ns" and _SERIES_MEMBER.fullmatch(f"series/{name}.npy"):
            yield f"series/{name}", column.astype(_VALUE, copy=False)


def read_series(members: Members) -> Series | None:
    """Read the machine's series, ``None`` if there is none; raise `MemberError` or `ProfileError`."""
    if f"{_SERIES_TIME}.npy" not in members.sizes:
        return None
    names = sorted(match[1] for member in members.sizes if (match := _SERIES_MEMBER.fullmatch(member)))
    most = members.most(_SERIES_TIME, _COUNT)
    members.budget.spend("readings of the machine", most * len(names))
    columns = {
        name: read_column(members, f"series/{name}", _VALUE, most) for name in names if name != "time_ns"
    }
    return Series(read_column(members, _SERIES_TIME, _COUNT, most), columns).validate()
