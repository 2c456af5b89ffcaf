"""Reading of files with untrusted names: never a pipe or device, and no more memory than the file's size."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO


class NotRegularError(ValueError):
    """The file cannot be read whole; the message tells why."""


def read_regular(path: str | os.PathLike[str], most: int, *, cut: bool = False) -> bytes:
    """Return a regular file of at most `most` bytes; with `cut`, the first `most` bytes of a larger one.

    Raise `OSError`, or `NotRegularError` if it is not regular, too large, or has an invalid name.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most and not cut:
            raise NotRegularError(f"has an invalid size, {size} bytes")
        # Not `most`: read() allocates a buffer of the requested size.
        return file.read(min(size, most))


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading; errors as in `read_regular`, `buffering` as in `open`."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except ValueError:  # a NUL, or a character outside the system's encoding
        raise NotRegularError("has an invalid name") from None
    try:
        file = open(fd, "rb", buffering=buffering)  # noqa: SIM115 - the caller's
    except OSError:  # a directory
        os.close(fd)
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise NotRegularError("is not a regular file")
    return file
