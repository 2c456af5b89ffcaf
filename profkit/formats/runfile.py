"""The run file: a pstats dump of the first process for viewers, then a ZIP archive with all the evidence.

Marshal readers stop after the first object and ZIP readers start at the end. ``docs/format.md`` describes the
members.
"""

from __future__ import annotations

import io
import itertools
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from profkit.errors import FormatError
from profkit.formats import run_json
from profkit.formats.atomic import replacing
from profkit.formats.codec import Codec, MemberError, as_list, as_object
from profkit.formats.export.pstats_write import write_pstats
from profkit.formats.limits import Budget, LimitError, names_of, spend_names
from profkit.formats.run_columns import (
    CONTEXTS,
    COUNT,
    EDGES,
    ESTIMATE_COLUMNS,
    FUNCTIONS,
    INSIDE,
    PATHS,
    RANGES,
    SAMPLES,
    WAIT_COLUMNS,
    Array,
    Table,
    array_head,
    gather,
    gather_series,
    gather_strings,
    read_series,
)
from profkit.formats.run_json import Members
from profkit.model import (
    CallSums,
    Edges,
    Paths,
    Process,
    Profile,
    ProfileError,
    RangeCalls,
    Ranges,
    Run,
    Sampler,
    Thread,
    ThreadSamples,
)
from profkit.model.arrays import known
from profkit.model.estimates import exact_estimates, stated
from profkit.model.merge import Strings, merge_profiles
from profkit.model.profile import ESTIMATES

#: Schema and major version; a reader refuses a later major version.
SCHEMA = "profkit.run/2"
_MANIFEST, _PROCESSES = "manifest.json", "processes.json"
#: A process's ``ranges`` in ``processes.json``, beside its rows.
_RANGES = Codec(Ranges, elsewhere=("strings", *RANGES.dtypes))

#: Columns that some processes may lack: their rows are NaN, or the values of exact counts.
_ESTIMATES = {f"functions/{name}": name for name in ESTIMATE_COLUMNS}
_OPTIONAL = frozenset((*(f"functions/{name}" for name in WAIT_COLUMNS), *_ESTIMATES))

#: Fields of a thread that refer to rows of its functions, by attributes of their items or as numbers.
_ROWS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("open_calls", "pauses", "slices", "written_sizes"), ("function",)),
    "lines": ("function", "within"),
    "definitions": ("beside",),
    "throttled": (),
}

#: Level 6 takes three times as long to save another tenth (100 000 functions).
_COMPRESSION_LEVEL = 1
#: Members are stored uncompressed if this many bytes from the middle keep more than this part of their size.
_SAMPLE_BYTES, _MOST_KEPT = 4096, 0.8
#: Modification time of all members, so that equal runs make equal files.
_NO_TIME = (1980, 1, 1, 0, 0, 0)

_DAMAGED = "copy it again; pstats still opens the plain profile in it"
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    ValueError,
    OverflowError,
    RuntimeError,
    IndexError,
)


def write_run(
    path: str | os.PathLike[str], run: Run, *, portions: Iterable[Sequence[Process]] | None = None
) -> None:
    """Write a run to one file, completely or not at all.

    `portions` of processes replace ``run.processes``, one in memory at a time; a temporary file beside `path`
    holds their columns meanwhile. Raise `OSError`, and `ProfileError` if there are more calls than any run
    can make.
    """
    with replacing(path) as file:
        if portions is None:
            _write(file, run, [run.processes], io.BytesIO())
        else:
            import tempfile  # slow import; a capture writes one portion

            with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))) as kept:
                _write(file, run, portions, kept)


def _write(file: BinaryIO, run: Run, portions: Iterable[Sequence[Process]], kept: BinaryIO) -> None:
    columns = _Columns(kept)
    documents = _Documents()
    sums = CallSums()
    begun = False
    for processes in portions:  # `enumerate` would keep a reference to the last ones
        sums.add(processes)
        if not begun:
            file.write(_plain_profile(processes))
            begun = True
        documents.add(processes)
        columns.add(processes)
        del processes  # free them before the next are read
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:

        def add(member: str, *parts: bytes) -> None:
            data = b"".join(parts)
            info = zipfile.ZipInfo(member, _NO_TIME)
            info.compress_type = _compression_of(data)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data, compresslevel=_COMPRESSION_LEVEL)

        add(_MANIFEST, run_json.encode(_manifest_document(run)))
        add(_PROCESSES, b"[\n", b",\n".join(documents.lines), b"\n]\n")
        for name, values in itertools.chain(columns.texts(), gather_series(run.series)):
            add(f"{name}.npy", array_head(values.dtype, len(values)), values.tobytes())
        for name, dtype, count in columns.found():
            add(f"{name}.npy", array_head(dtype, count), *columns.read(name))


def _compression_of(data: bytes) -> int:
    """Return how to store a member: measured times hardly shrink, and compressing them is slow."""
    middle = len(data) // 2
    part = data[middle : middle + _SAMPLE_BYTES]
    hardly = len(zlib.compress(part, _COMPRESSION_LEVEL)) > _MOST_KEPT * len(part)
    return zipfile.ZIP_STORED if hardly and len(part) == _SAMPLE_BYTES else zipfile.ZIP_DEFLATED


def _plain_profile(processes: Sequence[Process]) -> bytes:
    """Return the pstats dump for viewers: all threads of the first process."""
    threads = processes[0].threads if processes else ()
    return write_pstats(merge_profiles([thread.profile for thread in threads]))


class _Columns:
    """Columns of a run's processes, which arrive in portions and are kept in the file `kept`."""

    def __init__(self, kept: BinaryIO) -> None:
        self._kept = kept
        self._strings = {group.strings: Strings() for group in (FUNCTIONS, RANGES, CONTEXTS)}
        #: By column: number of rows, and where they begin in the file.
        self._portions: list[dict[str, tuple[int, int]]] = []
        self._dtypes: dict[str, np.dtype[Any]] = {}

    def add(self, processes: Sequence[Process]) -> None:
        threads = [thread for process in processes for thread in process.threads]
        profiles = [thread.profile for thread in threads]
        inside = known(thread.range_calls for thread in threads)
        groups = (
            (EDGES, known(profile.edges for profile in profiles) or [Edges.empty()]),
            (CONTEXTS, inside),
            (INSIDE, inside),
            (PATHS, known(thread.paths for thread in threads)),
            (RANGES, known(process.ranges for process in processes)),
            (SAMPLES, known(process.samples for process in processes)),
        )
        portion: dict[str, tuple[int, int]] = {}
        for name, values in itertools.chain(
            gather(profiles, self._strings[""]),
            *(group.gather(parts, self._strings) for group, parts in groups if parts),
        ):
            self._dtypes.setdefault(name, values.dtype)
            portion[name] = len(values), self._kept.tell()
            self._kept.write(values.tobytes())
        self._portions.append(portion)

    def texts(self) -> Iterator[tuple[str, Array]]:
        for prefix, strings in self._strings.items():
            if not prefix or any(name.startswith(prefix) for name in self._dtypes):
                yield from gather_strings(strings, prefix)

    def found(self) -> Iterator[tuple[str, np.dtype[Any], int]]:
        """Yield each column's name, type and length, in an order independent of the portions."""
        for name, dtype in sorted(self._dtypes.items()):
            yield name, dtype, sum(self._rows(name, portion) for portion in self._portions)

    def _rows(self, name: str, portion: dict[str, tuple[int, int]]) -> int:
        """Return a column's rows in a portion; 0 if it lacks a column that is not optional."""
        missing = portion["functions/file"][0] if name in _OPTIONAL else 0
        return portion[name][0] if name in portion else missing

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a column portion by portion; portions without it give NaN, or exact estimates."""
        dtype = self._dtypes[name]
        for portion in self._portions:
            if name in portion:
                yield self._stored(name, portion)
            elif name in _ESTIMATES:
                ncalls = np.frombuffer(self._stored("functions/ncalls", portion), COUNT)
                yield exact_estimates(ncalls)[_ESTIMATES[name]].astype(dtype).tobytes()
            else:
                yield np.full(self._rows(name, portion), np.nan).astype(dtype).tobytes()

    def _stored(self, name: str, portion: dict[str, tuple[int, int]]) -> bytes:
        rows, where = portion[name]
        self._kept.seek(where)
        return self._kept.read(rows * self._dtypes[name].itemsize)


def _manifest_document(run: Run) -> dict[str, Any]:
    document = {} if run.manifest is None else run_json.MANIFEST.write(run.manifest)
    return {**document, "schema": SCHEMA, "captured": run.manifest is not None, **run_json.RUN.write(run)}


class _Documents:
    """The lines of ``processes.json``: an object for each process, with its row ranges.

    A program may start tens of thousands of processes, so they are short.
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._rows = Counter[str]()

    def add(self, processes: Sequence[Process]) -> None:
        self.lines += [run_json.encode(self._process(process), in_one_line=True) for process in processes]

    def _process(self, process: Process) -> dict[str, Any]:
        threads = [self._thread(thread) for thread in process.threads]
        document = {**run_json.PROCESS.write_short(process), "threads": threads}
        if process.ranges is not None:
            rows = self._next("ranges", len(process.ranges))
            document["ranges"] = {"rows": rows, **_RANGES.write(process.ranges)}
        if process.samples is not None:
            document["samples"] = self._next("samples", len(process.samples))
        return document

    def _thread(self, thread: Thread) -> dict[str, Any]:
        fields = run_json.THREAD.write_short(thread)
        edges = thread.profile.edges
        fields["functions"] = self._next("functions", len(thread.profile))
        fields["edges"] = None if edges is None else self._next("edges", len(edges))
        if thread.range_calls is not None:
            fields["range_calls"] = {
                "contexts": self._next("contexts", len(thread.range_calls.parent)),
                "functions": self._next("inside", len(thread.range_calls.context)),
            }
        if thread.paths is not None:
            fields["paths"] = self._next("paths", len(thread.paths))
        return fields

    def _next(self, what: str, count: int) -> list[int]:
        first = self._rows[what]
        self._rows[what] += count
        return [first, first + count]


def read_run(path: str | os.PathLike[str], *, edges: bool = True, processes: bool = True) -> Run:
    """Read a run file; raise only `FormatError`. Arguments as of `load.load_run`.

    Without `edges`, every ``thread.paths`` is ``None`` too.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if _MANIFEST not in names and _begins_with_zip(path):
                inside = any(name.endswith(".prof") for name in names)
                what = "unpack it, and name a .prof in it" if inside else "name the file that profkit wrote"
                raise FormatError(path, "is a ZIP archive, but not a run file", what)
            members = Members(archive, os.path.getsize(path))
            return _read(members, os.fspath(path), edges=edges, processes=processes)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FormatError(path, f"cannot be read: {reason}", "check path and permissions") from None
    except LimitError as error:
        raise FormatError(path, str(error), "profkit does not write such files") from None
    except (MemberError, ProfileError, *_ZIP_ERRORS) as error:
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(
            path, f"the evidence archive after its profile is damaged: {problem}", _DAMAGED
        ) from None


def _begins_with_zip(path: Any) -> bool:
    """Return whether there is no plain profile before the archive."""
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def _read(members: Members, path: str, *, edges: bool, processes: bool) -> Run:
    if _MANIFEST not in members.sizes:
        raise MemberError(f"it has no {_MANIFEST}, so profkit did not write it")
    document = as_object(_MANIFEST, members.json(_MANIFEST))
    _check_schema(path, document.get("schema"))
    manifest = run_json.read_manifest(document) if document.get("captured", True) is not False else None
    run = Run(
        path,
        _read_processes(members, edges) if processes else (),
        manifest,
        series=read_series(members),
        **run_json.RUN.read_fields("manifest", document),
    ).validate()
    _spend_texts(members.budget, run)
    return run


def _read_processes(members: Members, edges: bool) -> tuple[Process, ...]:
    documents = members.json(_PROCESSES)
    if not isinstance(documents, list) or not documents:
        raise MemberError(f"{_PROCESSES} is not a list of processes")
    groups = (FUNCTIONS, RANGES, SAMPLES, CONTEXTS, INSIDE, *((EDGES, PATHS) if edges else ()))
    tables = {group.name: Table(group, members) for group in groups}
    return tuple([_process(f"process {i}", value, tables) for i, value in enumerate(documents)])


def _spend_texts(budget: Budget, run: Run) -> None:
    """Weigh the items that every report visits one by one, however small they are in the file."""
    notices = len(run.warnings) + sum(len(process.notes) for process in run.processes)
    words = sum(
        len(process.command) + len(process.environment) + len(process.pools or ())
        for process in run.processes
    )
    manifest = run.manifest
    if manifest is not None:
        words += len(manifest.command) + len(manifest.environment) + len(manifest.packages)
        notices += len((manifest.sampler or Sampler()).get("notes", ()))
    budget.spend("words, variables and packages", words)
    budget.spend("notices", notices)


def _check_schema(path: str, schema: Any) -> None:
    family, _, major = SCHEMA.partition("/")
    if not isinstance(schema, str) or not schema.startswith(f"{family}/"):
        raise MemberError(f"{_MANIFEST} names no schema")
    version = schema[len(family) + 1 :].partition(".")[0]
    if not (version.isascii() and version.isdigit() and len(version) < 9):
        raise MemberError(f"{_MANIFEST} names no version")
    if int(version) > int(major):
        problem = f"was written as {schema[:40]}; this profkit reads {SCHEMA}"
        raise FormatError(path, problem, "use a newer profkit")


def _process(name: str, value: Any, tables: dict[str, Table]) -> Process:
    fields = run_json.PROCESS.read_fields(name, value)
    threads = as_list(f"{name}.threads", value.get("threads", []))
    samples = None
    if value.get("samples") is not None:
        samples = ThreadSamples(**tables["samples"].take(f"{name}.samples", value["samples"])).validate()
    return Process(
        **fields,
        threads=tuple(_thread(f"{name}.thread {i}", thread, tables) for i, thread in enumerate(threads)),
        ranges=_ranges(f"{name}.ranges", value.get("ranges"), tables["ranges"]),
        samples=samples,
    )


def _ranges(name: str, value: Any, table: Table) -> Ranges | None:
    if value is None:
        return None
    fields = _RANGES.read_fields(name, value)
    columns = table.take(f"{name}.rows", value.get("rows"))
    ranges = Ranges(table.strings, **columns, **fields).validate()
    spend_names(table.budget, table.sizes, (ranges.name, ranges.domain, ranges.category))
    return ranges


def _range_calls(name: str, value: Any, tables: dict[str, Table], functions: int) -> RangeCalls | None:
    if value is None:
        return None
    fields, contexts = as_object(name, value), tables["range_contexts"]
    columns = contexts.take(f"{name}.contexts", fields.get("contexts"))
    columns |= tables["range_functions"].take(f"{name}.functions", fields.get("functions"))
    return RangeCalls(contexts.strings, **columns).validate(functions)


def _profile(columns: dict[str, Any], table: Table, edges: Edges | None) -> Profile:
    if not len(columns["file"]) and not edges:
        # A run may have thousands of threads without functions; nothing to check.
        no_edges = None if edges is None else Edges.empty()
        return replace(Profile.empty(), strings=table.strings, edges=no_edges)
    for name in WAIT_COLUMNS:
        if name in columns and np.isnan(columns[name]).all():
            columns[name] = None
    if ESTIMATES[0] in columns:
        columns |= stated(columns["ncalls"], {name: columns.pop(name) for name in ESTIMATES})
    profile = Profile(table.strings, **columns, edges=edges).validate()
    spend_names(table.budget, table.sizes, names_of(profile))
    return profile


def _thread(name: str, value: Any, tables: dict[str, Table]) -> Thread:
    fields = run_json.THREAD.read_fields(name, value)
    functions, paths = tables["functions"], tables.get("paths")
    columns = functions.take(f"{name}.functions", value.get("functions"))
    n = len(columns["file"])
    edges = None
    if "edges" in tables and value.get("edges") is not None:
        edges = Edges(**tables["edges"].take(f"{name}.edges", value["edges"]))
    for field, attributes in _ROWS.items():
        for one in fields.get(field) or ():
            rows = [getattr(one, attribute) for attribute in attributes] or [one]
            if not all(0 <= row < n for row in rows):
                raise MemberError(f"{name}.{field} points outside its {n} rows")
    if any(one.begin_ns >= one.end_ns for one in fields.get("slices") or ()):
        raise MemberError(f"{name}.slices has a slice without length")
    return Thread(
        _profile(columns, functions, edges),
        **fields,
        range_calls=_range_calls(f"{name}.range_calls", value.get("range_calls"), tables, n),
        paths=None
        if paths is None or value.get("paths") is None
        else Paths(**paths.take(f"{name}.paths", value["paths"])).validate(n),
    )
