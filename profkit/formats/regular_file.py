"""Reading a file whose name came from elsewhere: never a pipe or a device, and no more memory than it is large."""

from __future__ import annotations

import os
import stat

__all__ = ["NotRegularError", "read_regular"]


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
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    except ValueError:  # a NUL in it, or a character that the system's encoding does not have
        raise NotRegularError("has a name that no file has") from None
    with open(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise NotRegularError("is no regular file")
        if about.st_size > most and not cut:
            raise NotRegularError(f"is larger than it can be, {about.st_size} bytes")
        # Of its size, not of the most: a buffer is allocated for as much as is asked for.
        return file.read(min(about.st_size, most))
