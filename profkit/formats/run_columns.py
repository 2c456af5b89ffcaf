"""Columns of a run file: the rows of all processes and threads in groups, and the machine's series."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.formats.codec import MemberError, as_list, whole
from profkit.formats.limits import text_sizes
from profkit.formats.run_json import Members
from profkit.model import Edges, Paths, Profile, RangeCalls, Ranges, Series, ThreadSamples
from profkit.model.columns import column_dtypes
from profkit.model.merge import Strings, joined_columns
from profkit.model.profile import ESTIMATES, TEXTS

Array = npt.NDArray[Any]
Dtypes = Mapping[str, np.dtype[Any]]

COUNT = np.dtype("<i8")
_VALUE = np.dtype("<f8")
_SERIES_TIME = "series/time_ns"
_SERIES_MEMBER = re.compile(r"series/([a-z][a-z0-9_]{0,63})\.npy")

#: Most bytes of an array's header; numpy pads it to 128.
_MOST_HEADER = 1024
#: numpy's header of a one-dimensional array (format 1.0).
_NPY_HEADER = (
    rb"(?s)\x93NUMPY\x01\x00.."
    rb"\{'descr': '(?P<descr>[<|]\w\d)', 'fortran_order': (?:False|True), "
    rb"'shape': \((?P<count>\d{1,18}),\), \} *\n"
)


@dataclass(frozen=True, slots=True)
class Group:
    """Columns in members below `name`.

    `what` is the key in `limits.WEIGHTS`; `texts` are columns of indices into the string table whose members
    begin with `strings`. Of `optional` columns, each set is there if a thread has them.
    """

    name: str
    dtypes: Dtypes
    what: str
    texts: tuple[str, ...] = ()
    strings: str = ""
    optional: tuple[Dtypes, ...] = ()

    def gather(self, parts: Sequence[Any], tables: Mapping[str, Strings]) -> Iterator[tuple[str, Array]]:
        """Concatenate the columns of parts; `tables` are string tables by member prefix.

        Yield member names without suffix, and values.
        """
        places = tables[self.strings].join([part.strings for part in parts]) if self.texts else ()
        for name, dtype in self.dtypes.items():
            columns = [getattr(part, name) for part in parts]
            if name in self.texts:
                columns = [table[column] for table, column in zip(places, columns, strict=True)]
            yield f"{self.name}/{name}", _stored(np.concatenate(columns), dtype)


_OPTIONAL = column_dtypes(Profile, optional=True)
#: Present if a thread has them; NaN in the rows of other threads.
WAIT_COLUMNS = {name: dtype for name, dtype in _OPTIONAL.items() if name not in ESTIMATES}
#: Present if a thread is not exact; rows of exact threads hold `exact_estimates`.
ESTIMATE_COLUMNS = {name: _OPTIONAL[name] for name in ESTIMATES}

_CONTEXTS, _INSIDE = RangeCalls.columns()
FUNCTIONS = Group(
    "functions",
    column_dtypes(Profile),
    "functions",
    TEXTS,
    optional=(*({name: dtype} for name, dtype in WAIT_COLUMNS.items()), ESTIMATE_COLUMNS),
)
EDGES = Group("edges", column_dtypes(Edges), "caller–callee sums")
RANGES = Group("ranges", column_dtypes(Ranges), "NVTX ranges", ("name", "domain", "category"), "ranges/")
CONTEXTS = Group("range_contexts", _CONTEXTS, "range contexts", ("name", "domain"), "range_contexts/")
INSIDE = Group("range_functions", _INSIDE, "functions inside ranges")
PATHS = Group("paths", column_dtypes(Paths), "calling contexts")
SAMPLES = Group("samples", column_dtypes(ThreadSamples), "samples of threads")


class Table:
    """The columns of a group being read; each row belongs to one process or thread."""

    def __init__(self, group: Group, members: Members) -> None:
        """Read all rows; a group that is not there has none. Raise `MemberError` or `LimitError`."""
        first = next(iter(group.dtypes))
        self.budget = members.budget
        self.strings: tuple[str, ...] = ("",)
        if group is FUNCTIONS or f"{group.name}/{first}.npy" in members.sizes:
            self._columns = _read_columns(members, group)
            if group.texts:
                self.strings = _read_strings(members, group.strings)
        else:
            self._columns = {name: np.zeros(0, dtype) for name, dtype in group.dtypes.items()}
        self.sizes = text_sizes(self.strings)
        self._count = self._left = len(self._columns[first])

    def take(self, name: str, value: Any) -> dict[str, Any]:
        """Return the rows of a ``[start, stop]`` pair; raise `MemberError` if invalid or taken before."""
        pair = as_list(name, value)
        if len(pair) != 2 or not 0 <= whole(name, pair[0]) <= whole(name, pair[1]) <= self._count:
            raise MemberError(f"{name} is not a range of its {self._count} rows")
        self._left -= pair[1] - pair[0]
        if self._left < 0:
            raise MemberError(f"{name} has rows that are already in use")
        return {key: column[pair[0] : pair[1]] for key, column in self._columns.items()}


def _encode_text(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate for no byte is not in a path, so its form does not matter
        return text.encode("utf-8", "backslashreplace")


def gather_strings(strings: Strings, prefix: str) -> Iterator[tuple[str, Array]]:
    """Yield the two members of a string table with their names, which begin with `prefix`."""
    encoded = [_encode_text(text) for text in strings.texts]
    yield f"{prefix}strings", np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])]).astype(COUNT)
    yield f"{prefix}string_offsets", offsets


def _stored(values: Array, dtype: np.dtype[Any]) -> Array:
    return values.astype(dtype.newbyteorder("<"), copy=False)


def gather(profiles: Sequence[Profile], strings: Strings) -> Iterator[tuple[str, Array]]:
    """Concatenate profiles as `Group.gather` does, with the optional columns that one of them has."""
    profiles = profiles or [Profile.empty()]
    places = strings.join([profile.strings for profile in profiles])
    dtypes = {**FUNCTIONS.dtypes, **_OPTIONAL}
    for name, values in joined_columns(profiles, places, not_measured=np.nan):
        yield f"{FUNCTIONS.name}/{name}", _stored(values, dtypes[name])


def array_head(dtype: np.dtype[Any], count: int) -> bytes:
    """Return numpy's ``.npy`` header for `count` numbers."""
    out = io.BytesIO()
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(out, head)
    return out.getvalue()


def _read_column(members: Members, name: str, dtype: np.dtype[Any], most: int) -> Array:
    """Read a column of at most `most` numbers whose header and size agree; `name` has no suffix."""
    member = f"{name}.npy"
    data = members.read(member, most * dtype.itemsize + _MOST_HEADER)
    # numpy's header parser falls back to tokenising Python source, which can fail in many ways.
    start = 10 + int.from_bytes(data[8:10], "little")
    header = re.fullmatch(_NPY_HEADER, data[:start])
    if header is None:
        raise MemberError(f"{member} is not a one-dimensional array")
    count = int(header["count"])
    if header["descr"].decode("ascii") != dtype.str or count > most:
        raise MemberError(f"{member} is not an array of up to {most} numbers of type {dtype.str}")
    if count * dtype.itemsize != len(data) - start:
        raise MemberError(f"{member} does not have the size that its header says")
    native = dtype.newbyteorder("=")
    return np.frombuffer(data, dtype, offset=start).astype(native, copy=False)


def _read_columns(members: Members, group: Group) -> dict[str, Array]:
    dtypes = dict(group.dtypes)
    for columns in group.optional:
        if any(f"{group.name}/{name}.npy" in members.sizes for name in columns):
            dtypes |= columns
    first = next(iter(dtypes))
    most = members.most(f"{group.name}/{first}", dtypes[first])
    members.budget.spend(group.what, most)
    found = {
        name: _read_column(members, f"{group.name}/{name}", dtype.newbyteorder("<"), most)
        for name, dtype in dtypes.items()
    }
    if len({len(values) for values in found.values()}) > 1:
        raise MemberError(f"the columns of {group.name} have different lengths")
    return found


def _read_strings(members: Members, prefix: str) -> tuple[str, ...]:
    text, at = f"{prefix}strings", f"{prefix}string_offsets"
    size, count = members.most(text, np.dtype(np.uint8)), members.most(at, COUNT)
    members.budget.spend("bytes of strings", size)
    members.budget.spend("strings", count)
    raw = _read_column(members, text, np.dtype(np.uint8), size)
    offsets = _read_column(members, at, COUNT, count)
    ascending = len(offsets) >= 2 and offsets[0] == 0 and offsets[-1] == len(raw)
    if not ascending or (np.diff(offsets) < 0).any():
        raise MemberError("string_offsets.npy does not fit strings.npy")
    data, bounds = raw.tobytes(), offsets.tolist()
    pairs = itertools.pairwise(bounds)
    if data.isascii():
        whole = data.decode("ascii")
        strings = tuple([whole[start:stop] for start, stop in pairs])
    else:
        strings = tuple([data[start:stop].decode("utf-8", "surrogateescape") for start, stop in pairs])
    if strings[0]:
        raise MemberError("the string table does not start with the empty string")
    return strings


def gather_series(series: Series | None) -> Iterator[tuple[str, Array]]:
    """Yield the members of a run's series, with their names."""
    if series is None:
        return
    yield _SERIES_TIME, series.time_ns.astype(COUNT, copy=False)
    for name, column in series.columns.items():
        if name != "time_ns" and _SERIES_MEMBER.fullmatch(f"series/{name}.npy"):
            yield f"series/{name}", column.astype(_VALUE, copy=False)


def read_series(members: Members) -> Series | None:
    """Read the machine's series, ``None`` if there is none; raise `MemberError` or `ProfileError`."""
    if f"{_SERIES_TIME}.npy" not in members.sizes:
        return None
    names = sorted(match[1] for member in members.sizes if (match := _SERIES_MEMBER.fullmatch(member)))
    most = members.most(_SERIES_TIME, COUNT)
    members.budget.spend("readings of the machine", most * len(names))
    columns = {
        name: _read_column(members, f"series/{name}", _VALUE, most) for name in names if name != "time_ns"
    }
    return Series(_read_column(members, _SERIES_TIME, COUNT, most), columns).validate()
