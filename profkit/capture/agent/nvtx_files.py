"""The files of NVTX events that one process writes from Python; `nvtx_record` decides what goes into them.

They are laid out as ``native/nvtx/layout.h`` says, so that one reader serves both, and written through shared
mappings like the compiled collector's: what was stored is in the file however the process ends. Python's
mappings keep a descriptor each (up to 3.12), which the target may close and the system then give to another file:
before one is closed here, it is checked to be still ours.
"""

from __future__ import annotations

import _thread
import errno
import os
import sys
from _struct import Struct
from mmap import ALLOCATIONGRANULARITY, mmap

# Bound now: the target may replace what the module `os` holds, and count the calls.
from os import close, dup, fstat, lseek, write
from os import open as open_file
from time import monotonic_ns, time_ns

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

EVENTS_SUFFIX = ".nvtx"

STRING, DOMAIN, CATEGORY, COMMAND = 1, 2, 3, 5

RECORD = Struct("<QQIIQ")

_HEADER = Struct("<8s8I5Q")
_COUNTERS = Struct("<3Q")  # lost, folded, bytes: the end of the header
_DEFINITION = Struct("<3I")  # without the kind in front, which is stored last
_KIND = Struct("<I")
_VERSION = 1
_DEFINITION_BLOCK = 1 << 16

#: A mapping may begin at multiples of this only; on Linux a page.
_HEADER_BYTES = max(4096, ALLOCATIONGRANULARITY)

#: Bytes of events that one process may write unless PROFKIT_NVTX_BYTES says otherwise: 33 million events.
_DEFAULT_LIMIT = 1 << 30

#: Nanoseconds until something that failed (a full disk, say) is tried again.
RETRY_NS = 100_000_000

#: Whether a mapping can do without a descriptor of its own.
_UNTRACKED = sys.version_info >= (3, 13)

_ZEROS = bytes(1 << 16)


class Chunk:
    """A mapped part of a file."""

    __slots__ = ("buffer", "descriptor", "offset")

    def __init__(self, buffer: mmap, descriptor: Optional[int], offset: int) -> None:
        self.buffer = buffer
        self.descriptor = descriptor
        self.offset = offset


class Files:
    """Events and definitions of one process; a forked child makes its own."""

    def __init__(self, spool: str, generation: int, fork_parent: int) -> None:
        self._spool = spool
        self._generation = generation
        self._fork_parent = fork_parent
        limit = os.environ.get("PROFKIT_NVTX_BYTES", "")
        self._limit = int(limit) if limit.isascii() and limit.isdigit() else _DEFAULT_LIMIT
        # Reentrant: a signal handler of the target may record while its thread holds the lock.
        self.lock = _thread.RLock()
        self._path = ""
        self._header: Optional[Chunk] = None
        self._block: Optional[Chunk] = None
        self._block_used = 0
        self._events_end = self._definitions_end = 0
        self._identity: Dict[str, Tuple[int, int]] = {}
        self._retry_ns = 0
        self._lost = self._folded = 0
        self._mapped: List[Chunk] = []

    @property
    def opened(self) -> bool:
        """Whether there is anything to read."""
        return self._header is not None

    def open(self, command: List[str]) -> bool:
        """Create both files; false where that is impossible now. All below with the lock held."""
        now = monotonic_ns()
        if now < self._retry_ns:
            return False
        self._retry_ns = now + RETRY_NS
        host = os.uname().nodename if hasattr(os, "uname") else ""
        micros = time_ns() // 1000
        for attempt in range(16):
            name = "%s-%d-%d%s" % (host, os.getpid(), micros + attempt, EVENTS_SUFFIX)
            self._path = os.path.join(self._spool, name)
            try:
                header = self._map(self._path, 0, _HEADER_BYTES, os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    _remove(self._path)  # an empty file would be read as a damaged one
                return False
            break
        else:
            return False
        _HEADER.pack_into(
            header.buffer,
            0,
            b"",
            _VERSION,
            _HEADER_BYTES,
            RECORD.size,
            os.getpid(),
            os.getppid(),
            self._fork_parent,
            self._generation & 0xFFFF,
            0,
            monotonic_ns(),
            time_ns(),
            0,
            0,
            0,
        )
        header.buffer[:8] = b"PFKNVTXE"
        self._events_end = _HEADER_BYTES
        self._header = header
        self._count()
        words = "\0".join(command).encode("utf-8", "surrogateescape")[:4096]
        self.define(COMMAND, 0, 0, words)
        return True

    def chunk(self, size: int) -> Optional[Chunk]:
        """Reserve and map room for records; ``None`` without any."""
        if self._header is None or self._events_end + size > self._limit:
            return None
        try:
            chunk = self._map(self._path, self._events_end, size, 0)
        except OSError:
            return None
        self._events_end += size
        self._count()
        return chunk

    def define(self, kind: int, number: int, extra: int, text: bytes) -> bool:
        """Write a definition; false where there is no room for it now."""
        needed = (16 + len(text) + 7) & ~7
        block = self._block
        if block is None or self._block_used + needed > _DEFINITION_BLOCK:
            try:
                block = self._map(self._path + "defs", self._definitions_end, _DEFINITION_BLOCK, os.O_CREAT)
            except OSError:
                return False
            if self._block is not None:
                self.release(self._block)
            self._block = block
            self._block_used = 0
            if self._definitions_end == 0:
                block.buffer[:8] = b"PFKNVTXD"
                self._block_used = 8
            self._definitions_end += _DEFINITION_BLOCK
        at = self._block_used
        _DEFINITION.pack_into(block.buffer, at + 4, len(text), number, extra)
        block.buffer[at + 16 : at + 16 + len(text)] = text
        _KIND.pack_into(block.buffer, at, kind)
        self._block_used = at + needed
        return True

    def count_lost(self) -> None:
        """An event has found no room."""
        self._lost += 1
        self._count()

    def count_folded(self) -> None:
        """The digits in an event's name were replaced."""
        with self.lock:
            self._folded += 1
            self._count()

    def release(self, chunk: Chunk) -> None:
        """Unmap a chunk."""
        if chunk in self._mapped:
            if chunk.descriptor is not None and not self._is_ours(chunk.descriptor):
                return  # closing the mapping would close another's file: it stays
            self._mapped.remove(chunk)
            chunk.buffer.close()

    def forget(self) -> None:
        """In a forked child: the files are the parent's."""
        for chunk in list(self._mapped):
            self.release(chunk)

    def _count(self) -> None:
        if self._header is not None:
            _COUNTERS.pack_into(
                self._header.buffer,
                _HEADER.size - _COUNTERS.size,
                self._lost,
                self._folded,
                self._events_end,
            )

    def _map(self, path: str, offset: int, size: int, flags: int) -> Chunk:
        flags |= os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        descriptor = open_file(path, flags, 0o600)
        try:
            _reserve(descriptor, offset, size)
            own = None
            if _UNTRACKED:
                buffer = mmap(descriptor, size, offset=offset, trackfd=False)  # type: ignore[call-arg,unused-ignore]
            else:
                # The mapping duplicates the descriptor: it gets the lowest number that is free, as this one.
                own = dup(descriptor)
                close(own)
                buffer = mmap(descriptor, size, offset=offset)
            status = fstat(descriptor)
        finally:
            close(descriptor)
        identity = status.st_dev, status.st_ino
        self._identity[path] = identity
        chunk = Chunk(buffer, own, offset)
        self._mapped.append(chunk)
        return chunk

    def _is_ours(self, descriptor: int) -> bool:
        try:
            status = fstat(descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) in self._identity.values()


def _reserve(descriptor: int, offset: int, size: int) -> None:
    """Make room at the end of a file really there: a store into a hole of a full disk would be a SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, offset, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
    lseek(descriptor, offset, os.SEEK_SET)
    done = 0
    while done < size:
        done += write(descriptor, _ZEROS[: size - done])


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
