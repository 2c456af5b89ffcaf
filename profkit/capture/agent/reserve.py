"""What stands by for a process that can no longer write its records where records are written.

A record is written to a new file that is then renamed. That takes a path that can be reached, the right to make
files there, a free descriptor and free space, and a target may give up each of them: `os.chroot`, `os.setuid`,
as many files as its limit allows, a full disk. So a file is opened when the agent begins, which needs none of
the first three later; and where there is no space, a symbolic link, which needs none, says how the process ended.

That the file exists says that the agent began. No directory is kept open: it would lead out of a `chroot`.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional, Sequence, Tuple

# Bound now: the target may replace what the module `os` holds.
_open, _close, _dup2, _fstat = os.open, os.close, os.dup2, os.fstat
_pwrite, _ftruncate = getattr(os, "pwrite", None), getattr(os, "ftruncate", None)
_symlink, _unlink = getattr(os, "symlink", None), os.unlink

#: What the name of the file ends with, and that of the symbolic link.
RESERVE_SUFFIX, END_SUFFIX = ".reserve", ".end"

#: Descriptors are kept above this, as the tracer's are: programs that close one of the standard streams and open a
#: file rely on getting the lowest number. So many numbers are tried.
_LOWEST_DESCRIPTOR, _TRIED = 512, 64

#: Bytes that are read at a time.
_PART = 1 << 20

#: Errors for which the kept file is of no use either.
_NO_SPACE = frozenset((errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)))


class Reserve:
    """The kept file of one process."""

    def __init__(self) -> None:
        self._fd = -1
        self._known: Optional[Tuple[int, int]] = None

    def open(self, path: str) -> None:
        """Create the file `path` + `RESERVE_SUFFIX`, and keep it open where the limit of the process allows.

        Called while the process has one thread, so that no other takes the number in between. Raises nothing.
        """
        try:
            self._keep(
                _open(path + RESERVE_SUFFIX, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            )
        except OSError:
            pass  # no such file can be made, or none kept: beyond the limit of the process

    def open_memory(self) -> None:
        """The same with a file that is in memory alone, where the system has such files."""
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
                self._fd, self._known = number, (found.st_dev, found.st_ino)
        finally:
            _close(fd)

    def content(self) -> Iterator[bytes]:
        """Yield what is in the file."""
        at = 0
        while self._found(self._fd) is not None:
            part = os.pread(self._fd, _PART, at)
            if not part:
                return
            yield part
            at += len(part)

    @property
    def descriptor(self) -> int:
        """Number of the descriptor that is kept, -1 without one."""
        return self._fd

    def close(self) -> None:
        """Close what is kept, in a forked child too; the file stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and self._found(fd) is not None:
            _close(fd)

    def write(self, parts: Sequence[bytes], error: OSError) -> bool:
        """Write a record that could not be written because of `error`; return whether it is in the kept file."""
        if self._fd < 0 or error.errno in _NO_SPACE:
            return False
        found = self._found(self._fd)
        if found is None:
            self._fd = -1
            return False
        if not found.st_nlink:  # the spool directory was removed: the record would not be read
            self.close()
            return False
        try:
            at = 0
            for part in parts:
                view = memoryview(part)
                while view:
                    written = _pwrite(self._fd, view, at)  # type: ignore[misc]
                    view, at = view[written:], at + written
            _ftruncate(self._fd, at)  # type: ignore[misc]
        except OSError:
            return False
        return True

    def _found(self, fd: int) -> Any:
        """What the descriptor stands for; ``None`` if the target has closed it and may have reused its number."""
        try:
            found = _fstat(fd)
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
    """Leave how a process ended whose last record cannot be written: ``STATE ERRNO PERF CPU`` as a link's target.
    `path` is that of the record without its suffix, `state` is ``exited`` or ``replaced``; `perf` and `cpu` are
    ``perf_counter`` and CPU seconds of the process at its end.
    """
    words = "%s %d %r %r" % (state, error.errno or 0, perf, cpu)
    try:
        if _symlink is None:
            return
        try:
            _symlink(words, path + END_SUFFIX)
        except FileExistsError:  # of an exec that failed
            _unlink(path + END_SUFFIX)
            _symlink(words, path + END_SUFFIX)
    except OSError:
        pass  # nothing can be written at all
