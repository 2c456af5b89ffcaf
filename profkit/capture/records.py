"""Decodes the bytes of a spool directory to `record_types`, or raises one `ValueError`; trusts nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.capture import record_types as types
from profkit.capture.agent import record_file, settings
from profkit.capture.host import Reading
from profkit.capture.record_types import Launch, Record, Sampled, SeenProcess, SeenThread
from profkit.formats.codec import Codec, MemberError, Reader, as_list, as_object, listed, optional
from profkit.formats.plain_data import read_plain
from profkit.formats.regular_file import read_regular
from profkit.formats.run_json import decode
from profkit.model import ProfileError, Series
from profkit.model.arrays import Ints
from profkit.model.bounds import LAST_NS

#: Larger files are not ours: 100 000 functions take 20 MB, a command line at most 2 MB.
MOST_BYTES = 2**30
_MOST_LAUNCH_BYTES = 2**24

#: Most rows of a list, and processes (the sampler follows half as many): each becomes kilobytes in a run.
_MOST_ROWS, _MOST_PROCESSES = 2**16, 10_000

_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
_SERIES_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_SERIES_COLUMNS = 256

_Array = npt.NDArray[Any]


def _body(data: bytes, magic: bytes, version: int) -> dict[str, Any]:
    """Check the header, and return the data behind it."""
    if len(data) < record_file.HEADER_BYTES:
        raise MemberError(f"torn: it ends in its header, after {len(data)} bytes")
    if data[: len(magic)] != magic:
        raise MemberError("not written by profkit")
    found, checksum = (int.from_bytes(data[at : at + 4], "little") for at in (8, 12))
    if found != version:
        problem = f"made by another version of profkit, in format {found} where this one reads {version}"
        raise MemberError(f"{problem}: merge it with that version")
    size = int.from_bytes(data[16:24], "little")
    body = memoryview(data)[record_file.HEADER_BYTES :]
    if len(body) != size:
        raise MemberError(f"torn: {len(body)} of {size} bytes are there")
    if record_file.checksum(body) != checksum:
        raise MemberError("damaged: its checksum does not match")
    return as_object("record", read_plain(body))


def _many(read: Reader, most: int) -> Reader:
    def reader(name: str, value: Any) -> Any:
        items = as_list(name, value)
        if len(items) > most:
            raise MemberError(f"{name} are more than {most}")
        return tuple([read(f"{name} {i}", item) for i, item in enumerate(items)])

    return reader


def _readings(name: str, value: Any) -> tuple[Reading, Reading]:
    pair = as_list(name, value)
    if len(pair) != 2:
        raise MemberError(f"{name} is not a pair of readings")
    begin, end = (_READING.read(f"{name} {i}", item) for i, item in enumerate(pair))
    return begin, end


def _version(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise MemberError(f"{name} is not a version of Python")
    return value


def _sample_rows(name: str, value: Any) -> Ints:
    if not isinstance(value, bytes) or len(value) % 24:
        raise MemberError(f"{name} holds no rows of three numbers")
    rows = np.frombuffer(value, np.int64).reshape(-1, 3)
    if ((rows < 0) | (rows > LAST_NS)).any():
        raise MemberError(f"{name} holds a time that cannot be")
    return rows


def _machine(name: str, value: Any) -> types.SeenMachine:
    given = as_object(name, value)
    columns = as_object(f"{name}.columns", given.get("columns"))
    if len(columns) > _MOST_SERIES_COLUMNS:
        raise MemberError(f"{name}.columns are more than {_MOST_SERIES_COLUMNS}")
    if not all(map(_SERIES_COLUMN.fullmatch, columns)):
        raise MemberError(f"{name}.columns has a column without a plain name")
    series = Series(
        _numbers(f"{name}.time_ns", given.get("time_ns"), np.dtype(np.int64)),
        {
            key: _numbers(f"{name}.columns.{key}", column, np.dtype(np.float64))
            for key, column in columns.items()
        },
    )
    try:
        series.validate()
    except ProfileError as error:
        raise MemberError(str(error)) from None
    known = _MACHINE.read_fields(name, given)
    return types.SeenMachine(series=series if len(series.time_ns) else None, **known)


def _numbers(name: str, value: Any, dtype: np.dtype[Any]) -> _Array:
    if not isinstance(value, bytes) or len(value) % dtype.itemsize:
        raise MemberError(f"{name} holds no numbers")
    numbers = np.frombuffer(value, dtype)
    if (numbers < 0).any() or np.isinf(numbers).any():
        raise MemberError(f"{name} holds a reading that cannot be")
    return numbers


def _process(name: str, value: Any) -> SeenProcess:
    process = _SEEN_PROCESS.read(name, value)
    if process.last_ns < process.first_ns:
        raise MemberError(f"{name} ends before it begins")
    return process


_READING = Codec(Reading)
_MACHINE = Codec(types.SeenMachine, elsewhere=("series",))
_NOTES = Codec(types.Notes, readers={"own_profiler": _many(listed(types.Span), _MOST_ROWS)})
_RECORD = Codec(
    Record,
    elsewhere=("codes", "threads", "tiers", "effect"),
    readers={
        "version": _version,
        "tasks": _many(listed(types.Task), _MOST_ROWS),
        "pools": optional(_many(listed(types.PoolRow), _MOST_ROWS)),
        "notes": _NOTES.read,
        "machine": optional(_readings),
        "thread_names": _many(listed(types.ThreadName), _MOST_ROWS),
    },
)
_SEEN_THREAD = Codec(SeenThread, readers={"rows": _sample_rows})
_SEEN_PROCESS = Codec(
    SeenProcess, readers={"folded": listed(types.Folded), "threads": _many(_SEEN_THREAD.read, _MOST_ROWS)}
)
_SAMPLED = Codec(
    Sampled, readers={"machine": optional(_machine), "processes": _many(_process, _MOST_PROCESSES)}
)
_LAUNCH = Codec(Launch)


def decode_record(data: bytes) -> Record:
    """Return the record in a file's bytes; raise `ValueError` if damaged or of another version."""
    given = _body(data, record_file.MAGIC, settings.RECORD_FORMAT)
    known = _RECORD.read_fields("record", given)
    if given.get("threads"):  # an older version, if the tracer's file could not be mapped
        raise MemberError("its functions are in an older form: merge it with the version that made it")
    record = Record(**known)
    if record.perf < record.begin_perf:
        raise MemberError("record.perf is before record.begin_perf")
    return record


def read_samples(path: Path) -> Sampled:
    """Return the sampler's file; raise `OSError`, or `ValueError` if damaged or of another version."""
    return decode_samples(read_regular(path, MOST_BYTES))


def decode_samples(data: bytes) -> Sampled:
    """Return the samples in a file's bytes; errors are as in `read_samples`."""
    return samples_of(_body(data, record_file.SAMPLES_MAGIC, settings.SAMPLES_FORMAT))


def samples_of(record: dict[str, Any]) -> Sampled:
    """Return the samples in the record that a file holds; raise `ValueError` if it is none."""
    return _SAMPLED.read("samples", record)


def read_launch(path: Path) -> Launch:
    """Return the launcher's facts; errors are as in `read_samples`."""
    return decode_launch(read_regular(path, _MOST_LAUNCH_BYTES))


def decode_launch(data: bytes) -> Launch:
    """Return the facts in a file's bytes; errors are as in `read_samples`."""
    return _LAUNCH.read("launch", decode("launch.json", data))
