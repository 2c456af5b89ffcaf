"""The run file: one ``.prof`` that every viewer opens, with all the evidence of a run behind it.

It starts with a plain pstats dump of the first process, which is what `pstats` and viewers read, and goes on
with a ZIP archive: JSON for what happened, numpy arrays for every thread's profile. Marshal readers stop
after the first object and ZIP readers start at the end, so neither sees the other's part. ``docs/format.md``
describes the members. Files without an archive are read by `pstats_file`; which is which is decided in
`load`.
"""

from __future__ import annotations

import itertools
import os
import stat
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

from profkit.errors import FormatError
from profkit.formats import run_json
from profkit.formats.atomic import replacing
from profkit.formats.codec import MemberError, as_list, as_object
from profkit.formats.limits import Budget, LimitError, json_weight
from profkit.formats.pstats_write import write_pstats
from profkit.formats.run_columns import Arrays, Members, array_bytes, gather, read_arrays
from profkit.formats.run_range_calls import RangeCallArrays, gather_range_calls, read_range_calls
from profkit.formats.run_ranges import RangeArrays, gather_ranges, range_document, read_ranges
from profkit.formats.run_series import (
    SampleArrays,
    gather_samples,
    gather_series,
    read_samples,
    read_series,
)
from profkit.model import Manifest, Process, ProfileError, Run, Sampler, Thread
from profkit.model.merge import merge_profiles

__all__ = ["SCHEMA", "read_run", "write_run"]

#: Name and major version of the archive's layout; a reader refuses a later major version.
SCHEMA = "profkit.run/2"
_MANIFEST, _PROCESSES = "manifest.json", "processes.json"

#: Level 6 takes three times as long as this for a tenth less (100 000 functions).
_COMPRESSION_LEVEL = 1
#: Modification time of all members, so that equal runs are equal files.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_CHUNK = 1 << 20

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
    NotImplementedError,
    RuntimeError,
    IndexError,
)


def write_run(path: str | os.PathLike[str], run: Run) -> None:
    """Write a run to one file, completely or not at all.

    Parameters
    ----------
    path
        Where to; an existing file is replaced in one step when the new one is on the disk, and keeps its permissions.
    run
        What to write. ``run.path`` is not stored.

    Raises
    ------
    OSError
        It cannot be written there; nothing is left behind.
    """
    with replacing(path) as file:
        _write(file, run)


def _write(file: BinaryIO, run: Run) -> None:
    threads = [thread for process in run.processes for thread in process.threads]
    first = run.processes[0].threads if run.processes else ()
    file.write(write_pstats(merge_profiles([thread.profile for thread in first])))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:

        def add(member: str, data: bytes) -> None:
            info = zipfile.ZipInfo(member, _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data, compresslevel=_COMPRESSION_LEVEL)

        add(_MANIFEST, run_json.encode(_manifest_document(run)))
        add(_PROCESSES, run_json.encode(_process_documents(run)))
        columns = itertools.chain(
            gather([thread.profile for thread in threads]),
            gather_range_calls([thread.range_calls for thread in threads if thread.range_calls is not None]),
            gather_ranges([process.ranges for process in run.processes if process.ranges is not None]),
            gather_series(run.series),
            gather_samples([process.samples for process in run.processes if process.samples is not None]),
        )
        for member, values in columns:
            add(f"{member}.npy", array_bytes(values))


def _manifest_document(run: Run) -> dict[str, Any]:
    document = {} if run.manifest is None else run_json.MANIFEST.write(run.manifest)
    return {**document, "schema": SCHEMA, "captured": run.manifest is not None, **run_json.RUN.write(run)}


def _process_documents(run: Run) -> list[dict[str, Any]]:
    documents = []
    row = link = first_range = first_sample = first_context = first_inside = 0
    for process in run.processes:
        threads = []
        for thread in process.threads:
            n = len(thread.profile)
            m = None if thread.profile.edges is None else len(thread.profile.edges)
            fields = run_json.THREAD.write(thread)
            fields["functions"] = [row, row + n]
            fields["edges"] = None if m is None else [link, link + m]
            if thread.range_calls is not None:
                contexts, inside = len(thread.range_calls.parent), len(thread.range_calls.context)
                fields["range_calls"] = {
                    "contexts": [first_context, first_context + contexts],
                    "functions": [first_inside, first_inside + inside],
                }
                first_context, first_inside = first_context + contexts, first_inside + inside
            threads.append(fields)
            row, link = row + n, link + (m or 0)
        documents.append({**run_json.PROCESS.write(process), "threads": threads})
        if process.ranges is not None:
            documents[-1]["ranges"] = range_document(process.ranges, first_range)
            first_range += len(process.ranges)
        if process.samples is not None:
            documents[-1]["samples"] = [first_sample, first_sample + len(process.samples)]
            first_sample += len(process.samples)
    return documents


def read_run(path: str | os.PathLike[str], *, edges: bool = True) -> Run:
    """Read a run file.

    Parameters
    ----------
    path
        A file that `write_run` wrote.
    edges
        Whether to load caller–callee sums; without them every ``profile.edges`` is ``None``.

    Returns
    -------
    Run
        All its profiles share one string table.

    Raises
    ------
    FormatError
        The file cannot be read, its archive is damaged, or a later profkit wrote it; nothing else is raised,
        whatever its bytes are.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _Archive(archive, os.path.getsize(path)).run(os.fspath(path), edges)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FormatError(path, f"cannot be read: {reason}", "check path and permissions") from None
    except _NewerSchema as error:
        raise FormatError(
            path, f"was written as {error}, this profkit reads {SCHEMA}", "use a newer profkit"
        ) from None
    except LimitError as error:
        raise FormatError(path, str(error), "profkit does not write such files") from None
    except (MemberError, ProfileError, *_ZIP_ERRORS) as error:
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(
            path, f"the evidence archive behind its profile is damaged: {problem}", _DAMAGED
        ) from None


class _NewerSchema(Exception):  # noqa: N818 - becomes a FormatError in `read_run`
    """The archive has a later major version; the message is its schema."""


class _Archive:
    """A run file's members, read with bounds."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        self.archive = archive
        self.file_size = file_size
        self.members = {info.filename: info for info in archive.infolist()}
        self.budget = Budget(file_size)

    def read(self, member: str, most: int) -> bytes:
        """Return a member's bytes; it may claim any size, but gets no more memory than it has data."""
        info = self.members.get(member)
        if info is None:
            raise MemberError(f"{member} is missing")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise MemberError(f"{member} is compressed in an unknown way")
        if info.file_size > most or info.compress_size > self.file_size:
            raise MemberError(f"{member} claims to be too large")
        chunks = []
        with self.archive.open(info) as stream:
            while chunk := stream.read(_CHUNK):
                chunks.append(chunk)
        data = b"".join(chunks)
        if len(data) != info.file_size:
            raise MemberError(f"{member} has another size than it claims")
        return data

    def json(self, member: str) -> Any:
        """Return a JSON member's document, weighed before it is made."""
        info = self.members.get(member)
        size = 0 if info is None else info.file_size
        self.budget.spend("bytes of JSON", size)
        text = self.read(member, size)
        self.budget.spend("values of JSON", json_weight(text))
        return run_json.decode(member, text)

    def run(self, path: str, edges: bool) -> Run:
        """Read everything."""
        if _MANIFEST not in self.members:
            raise MemberError(f"it has no {_MANIFEST}, so profkit did not write it")
        document = as_object(_MANIFEST, self.json(_MANIFEST))
        _check_schema(document.get("schema"))
        manifest: Manifest | None = None
        if document.get("captured", True) is not False:
            manifest = run_json.MANIFEST.read("manifest", document)
        sizes = {name: info.file_size for name, info in self.members.items()}
        members = Members(self.read, sizes, self.budget)
        arrays = read_arrays(members, edges=edges)
        ranges = read_ranges(members)
        samples = read_samples(members)
        inside = read_range_calls(members)
        processes = self.json(_PROCESSES)
        if not isinstance(processes, list) or not processes:
            raise MemberError(f"{_PROCESSES} is not a list of processes")
        run = Run(
            path,
            tuple(
                _process(f"process {i}", value, arrays, ranges, samples, inside, edges)
                for i, value in enumerate(processes)
            ),
            manifest,
            series=read_series(members),
            **run_json.RUN.read_fields("manifest", document),
        ).validate()
        _spend_texts(self.budget, run)
        return run


def _spend_texts(budget: Budget, run: Run) -> None:
    """Weigh what every report goes through one by one, however small it is in the file."""
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


def _check_schema(schema: Any) -> None:
    family, _, major = SCHEMA.partition("/")
    if not isinstance(schema, str) or not schema.startswith(f"{family}/"):
        raise MemberError(f"{_MANIFEST} names no schema")
    version = schema[len(family) + 1 :].partition(".")[0]
    if not (version.isascii() and version.isdigit() and len(version) < 9):
        raise MemberError(f"{_MANIFEST} names no version")
    if int(version) > int(major):
        raise _NewerSchema(schema[:40])


def _process(
    name: str,
    value: Any,
    arrays: Arrays,
    ranges: RangeArrays,
    samples: SampleArrays,
    inside: RangeCallArrays,
    edges: bool,
) -> Process:
    fields = run_json.PROCESS.read_fields(name, value)
    threads = as_list(f"{name}.threads", value.get("threads", []))
    return Process(
        **fields,
        threads=tuple(
            _thread(f"{name}.thread {i}", thread, arrays, inside, edges) for i, thread in enumerate(threads)
        ),
        ranges=ranges.ranges(f"{name}.ranges", value.get("ranges")),
        samples=samples.samples(f"{name}.samples", value.get("samples")),
    )


def _thread(name: str, value: Any, arrays: Arrays, inside: RangeCallArrays, edges: bool) -> Thread:
    fields = run_json.THREAD.read_fields(name, value)
    rows = arrays.rows.take(f"{name}.functions", value.get("functions"))
    n = rows.stop - rows.start
    links = None
    if edges and value.get("edges") is not None:
        links = arrays.links.take(f"{name}.edges", value["edges"])
    if any(not 0 <= call.function < n for call in fields.get("open_calls", ())):
        raise MemberError(f"{name}.open_calls points outside its {n} rows")
    return Thread(
        arrays.profile(rows, links),
        **fields,
        range_calls=inside.calls(f"{name}.range_calls", value.get("range_calls"), n),
    )
