"""Keep a file open for a process that may lose the ability to write records.

The target may lose the path (`os.chroot`), the right to create files (`os.setuid`), free descriptors or disk
space. A file opened at the start helps with the first three; a symbolic link, which takes no space, can still
say how the process ended. The file's existence shows that the agent began. A directory kept open would lead
out of a `chroot`.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional, Sequence, Tuple

# Bound now: the target may replace what `os` holds.
_open, _close, _dup2, _fstat = os.open, os.close, os.dup2, os.fstat
_pwrite, _ftruncate = getattr(os, "pwrite", None), getattr(os, "ftruncate", None)
_symlink, _unlink = getattr(os, "symlink", None), os.unlink

#: Suffixes of the file and of the symbolic link.
RESERVE_SUFFIX, END_SUFFIX = ".reserve", ".end"

#: Lowest descriptor used, like the tracer's, and how many are tried: programs that close a standard stream
#: and open a file rely on getting the lowest number.
_LOWEST_DESCRIPTOR, _TRIED = 512, 64

_PART = 1 << 20

#: Errors at which the kept file does not help either.
_NO_SPACE = frozenset((errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)))


class Reserve:
    """The kept file of one process."""

    def __init__(self) -> None:
        #: The kept descriptor, -1 without one.
        self.descriptor = -1
        self._known: Optional[Tuple[int, int]] = None

    def open(self, path: str) -> None:
        """Create the file `path` + `RESERVE_SUFFIX`, and keep it open if the limit allows; raise nothing.

        Called while the process has one thread, so that no other takes the descriptor's number.
        """
        try:
            self._keep(
                _open(path + RESERVE_SUFFIX, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            )
        except OSError:
            pass  # it cannot be created, or the limit forbids keeping it

    def open_memory(self) -> None:
        """Keep a file in memory only, where the system has memfd_create(2)."""
        try:
            self._keep(os.memfd_create("profkit"))  # type: ignore[attr-defined,unused-ignore]
        except (AttributeError, OSError):
            pass

    def _keep(self, fd: int) -> None:
        try:
            number = _free_number() if _pwrite is not None else None
            if number is not None:
                found = _fstat(fd)
                _dup2(fd, number, False)
                self.descriptor, self._known = number, (found.st_dev, found.st_ino)
        finally:
            _close(fd)

    def content(self) -> Iterator[bytes]:
        at = 0
        while self._found() is not None:
            part = os.pread(self.descriptor, _PART, at)
            if not part:
                return
            yield part
            at += len(part)

    def close(self) -> None:
        """Close the descriptor, in a forked child too; the file stays."""
        if self._found() is not None:
            _close(self.descriptor)
        self.descriptor = -1

    def write(self, parts: Sequence[bytes], error: OSError) -> bool:
        """Write a record that failed with `error` to the kept file; return whether that worked."""
        if self.descriptor < 0 or error.errno in _NO_SPACE:
            return False
        found = self._found()
        # The target closed it; or the spool directory was removed, so nobody would read it.
        if found is None or not found.st_nlink:
            self.close()
            return False
        try:
            at = 0
            for part in parts:
                view = memoryview(part)
                while view:
                    written = _pwrite(self.descriptor, view, at)  # type: ignore[misc]
                    view, at = view[written:], at + written
            _ftruncate(self.descriptor, at)  # type: ignore[misc]
        except OSError:
            return False
        return True

    def _found(self) -> Any:
        """Return the descriptor's status; ``None`` if the target closed it and may have reused its number."""
        try:
            found = _fstat(self.descriptor)
        except OSError:
            return None
        return found if (found.st_dev, found.st_ino) == self._known else None


def _free_number() -> Optional[int]:
    for number in range(_LOWEST_DESCRIPTOR, _LOWEST_DESCRIPTOR + _TRIED):
        try:
            _fstat(number)
        except OSError:
            return number
    return None


def leave_end(path: str, state: str, error: OSError, perf: float, cpu: float) -> None:
    """Record how a process ended as the target of a symbolic link: ``STATE ERRNO PERF CPU``.

    `path` is the record's without suffix; `state` is ``exited`` or ``replaced``; `perf` (`perf_counter`) and
    `cpu` in seconds.
    """
    words = "%s %d %r %r" % (state, error.errno or 0, perf, cpu)
    try:
        if _symlink is None:
            return
        try:
            _symlink(words, path + END_SUFFIX)
        except FileExistsError:  # from an exec that failed
            _unlink(path + END_SUFFIX)
            _symlink(words, path + END_SUFFIX)
    except OSError:
        pass
