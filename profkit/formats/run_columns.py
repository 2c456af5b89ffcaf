"""All profiles of a run as one set of arrays, and back: columns of all threads over one string table."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.formats.codec import MemberError
from profkit.formats.limits import Budget, names_of, spend_names, text_sizes
from profkit.formats.run_json import Rows
from profkit.formats.run_members import Members
from profkit.model import Edges, Profile
from profkit.model.columns import column_dtypes
from profkit.model.estimates import stated
from profkit.model.merge import Strings, joined_columns
from profkit.model.profile import ESTIMATES

Array = npt.NDArray[Any]

COUNT = np.dtype("<i8")

FUNCTION_COLUMNS = column_dtypes(Profile)
_OPTIONAL_COLUMNS = column_dtypes(Profile, optional=True)
_ALL_COLUMNS = {**FUNCTION_COLUMNS, **_OPTIONAL_COLUMNS}
#: Present if a thread has them; NaN in the rows of other threads.
WAIT_COLUMNS = {name: dtype for name, dtype in _OPTIONAL_COLUMNS.items() if name not in ESTIMATES}
#: Present if a thread is not exact; rows of exact threads hold `exact_estimates`.
ESTIMATE_COLUMNS = {name: _OPTIONAL_COLUMNS[name] for name in ESTIMATES}

#: Most bytes of an array's header; numpy pads it to 128.
_MOST_HEADER = 1024
#: numpy's header of a one-dimensional array (format 1.0).
_NPY_HEADER = (
    rb"(?s)\x93NUMPY\x01\x00.."
    rb"\{'descr': '(?P<descr>[<|]\w\d)', 'fortran_order': (?:False|True), "
    rb"'shape': \((?P<count>\d{1,18}),\), \} *\n"
)


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Columns of all threads; each row belongs to one thread."""

    strings: tuple[str, ...]
    sizes: Array
    functions: Mapping[str, Array]
    rows: Rows
    budget: Budget

    def profile(self, rows: slice, edges: Edges | None) -> Profile:
        """Return one thread's profile with its edges; raise `ProfileError`, `LimitError`."""
        if rows.start == rows.stop and not edges:
            # A run may have thousands of threads without functions; nothing to check.
            return replace(
                Profile.empty(), strings=self.strings, edges=None if edges is None else Edges.empty()
            )
        columns = {name: self.functions[name][rows] for name in FUNCTION_COLUMNS}
        measured: dict[str, Any] = {name: self._measured(name, rows) for name in WAIT_COLUMNS}
        if ESTIMATES[0] in self.functions:
            measured |= stated(
                columns["ncalls"], {name: self.functions[name][rows] for name in ESTIMATE_COLUMNS}
            )
        profile = Profile(self.strings, **columns, edges=edges, **measured).validate()
        spend_names(self.budget, self.sizes, names_of(profile))
        return profile

    def _measured(self, name: str, rows: slice) -> Array | None:
        """Return a thread's rows of an optional column, ``None`` if no row has a number."""
        if name not in self.functions:
            return None
        values: Array = self.functions[name][rows]
        return None if np.isnan(values).all() else values


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


def stored(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values as a file stores them."""
    return values.astype(dtype.newbyteorder("<"), copy=False)


def gather(profiles: Sequence[Profile], strings: Strings) -> Iterator[tuple[str, Array]]:
    """Concatenate profiles and join their string tables; yield member names without suffix, and values."""
    profiles = profiles or [Profile.empty()]
    places = strings.join([profile.strings for profile in profiles])
    for name, values in joined_columns(profiles, places, not_measured=np.nan):
        yield f"functions/{name}", stored(values, _ALL_COLUMNS[name])


def array_head(dtype: np.dtype[Any], count: int) -> bytes:
    """Return numpy's ``.npy`` header for `count` numbers."""
    out = io.BytesIO()
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(out, head)
    return out.getvalue()


def _array(name: str, data: bytes, dtype: np.dtype[Any], most: int) -> Array:
    """Read a one-dimensional array whose header and size agree; the header alone allocates nothing."""
    # numpy's header parser falls back to tokenising Python source, which can fail in many ways.
    start = 10 + int.from_bytes(data[8:10], "little")
    header = re.fullmatch(_NPY_HEADER, data[:start])
    if header is None:
        raise MemberError(f"{name} is not a one-dimensional array")
    count = int(header["count"])
    if header["descr"].decode("ascii") != dtype.str or count > most:
        raise MemberError(f"{name} is not an array of up to {most} numbers of type {dtype.str}")
    if count * dtype.itemsize != len(data) - start:
        raise MemberError(f"{name} does not have the size that its header says")
    native = dtype.newbyteorder("=")
    return np.frombuffer(data, dtype, offset=start).astype(native, copy=False)


def read_column(members: Members, name: str, dtype: np.dtype[Any], most: int) -> Array:
    """Read a column of at most `most` numbers; `name` is its member's name without suffix."""
    member = f"{name}.npy"
    return _array(member, members.read(member, most * dtype.itemsize + _MOST_HEADER), dtype, most)


def read_group(
    members: Members, group: str, dtypes: Mapping[str, np.dtype[Any]], what: str
) -> dict[str, Array]:
    """Read a group's columns; raise `MemberError` or `LimitError`. `what` is a key of `limits.WEIGHTS`."""
    first, dtype = next(iter(dtypes.items()))
    most = members.most(f"{group}/{first}", dtype)
    members.budget.spend(what, most)
    columns = {
        name: read_column(members, f"{group}/{name}", dtype.newbyteorder("<"), most)
        for name, dtype in dtypes.items()
    }
    if len({len(values) for values in columns.values()}) > 1:
        raise MemberError(f"the columns of {group} have different lengths")
    return columns


def read_strings(members: Members, prefix: str = "") -> tuple[str, ...]:
    """Read the string table whose members have the prefix; errors as for `read_group`."""
    text, offsets = f"{prefix}strings", f"{prefix}string_offsets"
    size, count = members.most(text, np.dtype(np.uint8)), members.most(offsets, COUNT)
    members.budget.spend("bytes of strings", size)
    members.budget.spend("strings", count)
    return _strings(
        read_column(members, text, np.dtype(np.uint8), size), read_column(members, offsets, COUNT, count)
    )


def read_arrays(members: Members) -> Arrays:
    """Read the columns of all threads; errors as for `read_group`."""
    waits = {name: dtype for name, dtype in WAIT_COLUMNS.items() if f"functions/{name}.npy" in members.sizes}
    estimated = any(f"functions/{name}.npy" in members.sizes for name in ESTIMATE_COLUMNS)
    optional = {**waits, **(ESTIMATE_COLUMNS if estimated else {})}
    functions = read_group(members, "functions", {**FUNCTION_COLUMNS, **optional}, "functions")
    strings = read_strings(members)
    return Arrays(strings, text_sizes(strings), functions, Rows(len(functions["file"])), members.budget)


def _strings(raw: Array, offsets: Array) -> tuple[str, ...]:
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
