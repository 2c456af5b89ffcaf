"""Reads a file whose name came from elsewhere: never a pipe or device, and no more memory than its size."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO


class NotRegularError(ValueError):
    """The file cannot be read whole; the message says why."""


def read_regular(path: str | os.PathLike[str], most: int, *, cut: bool = False) -> bytes:
    """Return the contents of a regular file of at most `most` bytes; with `cut`, the first `most` bytes of a
    larger one.

    Never waits for a pipe without a writer. Raise `OSError` if it cannot be read, and `NotRegularError` if it
    is no regular file, is too large, or its name is invalid.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most and not cut:
            raise NotRegularError(f"has an invalid size, {size} bytes")
        # Of its size, not of the most: a buffer is allocated for as much as is asked for.
        return file.read(min(size, most))


def open_regular(path: str | os.PathLike[str], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading; path and errors are as in `read_regular`, `buffering` as in `open`."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except ValueError:  # a NUL in it, or a character that the system's encoding does not have
        raise NotRegularError("has an invalid name") from None
    file = open(fd, "rb", buffering=buffering)  # noqa: SIM115 - the caller's
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise NotRegularError("is not a regular file")
    return file
