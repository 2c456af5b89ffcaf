"""Files of ended processes (100 kB each), compressed into one file; a torn last entry is skipped."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.agent.settings import RECORD_SUFFIX
from profkit.capture.spool import directories

GATHERED_NAME = "ended.gathered"
#: Fewer records are not gathered: most spools are small, and packing reads files faster.
FEWEST = 128
#: Seconds between two looks, and the part of a CPU that gathering may take.
_PAUSE_S, _SHARE = 0.5, 0.2
#: Processes gathered in one look from which the next follows at once, to bound the size of the spool.
_MANY = 256

#: Head of an entry: magic, bytes of name, record, tables, and of the compressed data.
_HEAD = struct.Struct("<4sIQQQ")
_MAGIC = b"PFKE"
_MOST_BYTES = 2**33
#: Marks a last record, as `marshal` writes it; a ``replaced`` image may go on if its exec fails.
_LAST = re.compile(rb"[tu]\x05\0\0\0state[tu]\x06\0\0\0exited")


@dataclass(frozen=True, slots=True)
class Gathered:
    """One ended process: its files' name without suffix, and the place of its entry."""

    name: str
    path: Path
    at: int
    compressed: int
    record_bytes: int
    tables_bytes: int

    def read(self) -> tuple[bytes, bytes]:
        """Return the record and the tracer's tables; raise `OSError` or `ValueError`."""
        size = self.record_bytes + self.tables_bytes
        found = self._first(size)
        if len(found) != size:
            raise ValueError(f"torn: {len(found)} of {size} bytes are there")
        return found[: self.record_bytes], found[self.record_bytes :]

    def record(self) -> bytes:
        return self._first(max(1, self.record_bytes))

    def _first(self, size: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(self.at)
            data = file.read(self.compressed)
        try:
            return zlib.decompressobj().decompress(data, size)
        except zlib.error as error:
            raise ValueError(f"damaged: {error}") from None


def gathered(spool: Path) -> Iterator[Gathered]:
    """Yield the gathered processes, up to a torn entry."""
    for place in directories(spool):
        yield from _entries(place / GATHERED_NAME)


def _entries(path: Path) -> Iterator[Gathered]:
    try:
        with open(path, "rb") as file:
            end = os.fstat(file.fileno()).st_size
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                magic, name_bytes, record_bytes, tables_bytes, compressed = _HEAD.unpack(head)
                at = file.tell() + name_bytes
                fits = at + compressed <= end and record_bytes + tables_bytes <= _MOST_BYTES
                if magic != _MAGIC or not fits:
                    return
                name = os.fsdecode(file.read(name_bytes))
                yield Gathered(name, path, at, compressed, record_bytes, tables_bytes)
                file.seek(at + compressed)
    except OSError:
        return


class Gatherer:
    """A thread of the launcher that gathers the files of ended processes until `stop`."""

    def __init__(self, spool: Path) -> None:
        self._directories = directories(spool)
        self._over = threading.Event()
        self._not_last: dict[str, int] = {}  # modification times of records that are not the last
        self._thread = threading.Thread(target=self._run, name="profkit-gatherer", daemon=True)
        with contextlib.suppress(RuntimeError):  # the user's limit on threads: the files stay
            self._thread.start()

    def stop(self) -> None:
        """Stop, after the current process."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = _PAUSE_S
        with contextlib.suppress(OSError):  # disk full or directory gone: packing reads the files
            while not self._over.wait(pause):
                begun = time.thread_time()
                taken = sum(self.gather(place) for place in self._directories)
                took = time.thread_time() - begun
                pause = 0.0 if taken >= _MANY else max(_PAUSE_S, took / _SHARE)

    def gather(self, place: Path) -> int:
        """Gather a directory's ended processes if there are enough; return how many, or raise `OSError`."""
        records = {}
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(RECORD_SUFFIX):
                    with contextlib.suppress(OSError):
                        records[entry.path] = entry.stat().st_mtime_ns
        names = sorted(name for name, at in records.items() if self._not_last.get(name) != at)
        if len(names) < FEWEST:
            return 0
        taken = 0
        with open(place / GATHERED_NAME, "ab", buffering=0) as file:
            for name in names:
                if self._over.is_set():
                    break
                if _take(file, Path(name)):
                    taken += 1
                    self._not_last.pop(name, None)
                else:
                    self._not_last[name] = records[name]
        return taken


def _take(file: IO[bytes], path: Path) -> bool:
    kept = path.with_name(path.name.removesuffix(RECORD_SUFFIX) + RESERVE_SUFFIX)
    try:
        record = path.read_bytes()
        if not _LAST.search(record):
            return False
        tables = kept.read_bytes() if kept.exists() else b""
    except OSError:
        return False
    name = os.fsencode(path.name.removesuffix(RECORD_SUFFIX))
    data = zlib.compress(record + tables, 1)
    entry = _HEAD.pack(_MAGIC, len(name), len(record), len(tables), len(data)) + name + data
    if file.write(entry) != len(entry):  # the disk is full: the torn entry stays the last
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for done in (path, kept):
        with contextlib.suppress(OSError):
            os.unlink(done)
    return True
