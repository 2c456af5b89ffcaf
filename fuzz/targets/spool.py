"""Spool directories with changed records, samples and NVTX files: packed, merged, and shown."""

from __future__ import annotations

import contextlib

from fuzz.mutate import Mutation, packed, unpacked
from fuzz.scratch import emptied
from fuzz.target import Target
from fuzz.targets import nvtx_log, records, tables
from fuzz.targets.commands import run_command
from profkit.capture.packer import pack_spool
from profkit.errors import FormatError
from profkit.formats import load_run

#: An input is a ZIP archive of the directory's files; more than so many bytes of one are not written.
_MOST_FILE = 1 << 20


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    found = unpacked(data)
    if found is None:
        return
    work = emptied("spool")
    spool = work / "spool"
    spool.mkdir()
    for name, content in found[1].items():
        # Names are those of files of one directory, whatever the archive says.
        flat = name.replace("/", "_").replace("\0", "_")[:200]
        if flat.strip("."):
            with contextlib.suppress(OSError, ValueError):
                if flat.endswith(".end"):  # a process that could write nothing says so in a link
                    (spool / flat).symlink_to(content.decode("utf-8", "surrogateescape")[:200])
                else:
                    (spool / flat).write_bytes(content[:_MOST_FILE])
    with contextlib.suppress(FormatError):
        pack_spool(spool)
    places = {"X": spool, "OUT": work / "merged", "MERGED": work / "merged.prof"}
    if run_command("merge X -o OUT.prof", places).code == 0:
        load_run(places["MERGED"])
        run_command("show MERGED", places)


def _changed_file(name: str, data: bytes, mutation: Mutation) -> bytes:
    if name.endswith(".json"):
        return mutation.json_bytes(data)
    if name.endswith((".record", ".samples")):
        return records.mutate(data, mutation)
    if data.startswith(tables.MAGIC):
        return tables.mutate(data, mutation)
    if name.endswith(".nvtx"):
        return nvtx_log.parted(nvtx_log.mutate(nvtx_log.joined(data, b""), mutation))[0]
    return mutation.bytes_of(data, len(data) + 64)


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change a few files of the directory, each by what it is."""
    found = unpacked(data)
    if found is None:
        return data
    front, members = found
    return packed(front, mutation.members(members, lambda name, old: _changed_file(name, old, mutation)))


TARGET = Target(check, mutate, 64 << 10, quick=150)
