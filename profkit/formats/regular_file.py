"""Reading a file whose name came from elsewhere: never a pipe or a device, and no more memory than it is large."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO


class NotRegularError(ValueError):
    """It is no file to be read whole; the message says why."""


def read_regular(path: str | os.PathLike[str], most: int, *, cut: bool = False) -> bytes:
    """Return the contents of a regular file.

    Parameters
    ----------
    path
        The file; a pipe that nobody writes to does not keep the caller waiting.
    most
        Largest size, bytes.
    cut
        Return the first `most` bytes of a larger one, instead of refusing it.

    Raises
    ------
    OSError
        It cannot be opened or read.
    NotRegularError
        It is no regular file, is larger than `most`, or its name is one that no file has.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most and not cut:
            raise NotRegularError(f"is larger than it can be, {size} bytes")
        # Of its size, not of the most: a buffer is allocated for as much as is asked for.
        return file.read(min(size, most))


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading; path and errors are those of `read_regular`, `buffering` that of `open`."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except ValueError:  # a NUL in it, or a character that the system's encoding does not have
        raise NotRegularError("has a name that no file has") from None
    file = open(fd, "rb", buffering=buffering)  # noqa: SIM115 - the caller's
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise NotRegularError("is no regular file")
    return file
