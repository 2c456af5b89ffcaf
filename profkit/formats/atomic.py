"""Files written completely or not at all; stays light, as the launcher imports it before the target."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

#: Bytes of the file's name in the temporary name; most file systems allow 255 in all.
_NAME_BYTES = 200


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], *, durable: bool = True, private: bool = False
) -> Iterator[BinaryIO]:
    """Open a seekable file for writing that replaces `path` in one step when the block ends.

    Links are followed, and an existing file keeps its permissions; `private` makes a new one readable by its
    owner only. With `durable`, the content reaches the disk first. After an exception `path` is unchanged; an
    `OSError` names it.
    """
    target = os.path.realpath(path)
    mode = _mode_of(target)
    directory, name = os.path.split(target)
    start = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    temporary = os.path.join(directory, f".{start}.{os.urandom(8).hex()}.tmp")
    try:
        opener = functools.partial(os.open, mode=0o600) if private else None
        with open(temporary, "xb", opener=opener) as file:
            if mode is not None and mode != stat.S_IMODE(os.stat(temporary).st_mode):
                os.chmod(temporary, mode)  # before it has content that others must not read
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    if durable:
        _sync_directory(directory)


def _mode_of(target: str) -> int | None:
    """Return the permissions of the file to be replaced, ``None`` if there is none."""
    try:
        found = os.stat(target).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    if not stat.S_ISREG(found):
        # Renaming over it would remove a device, such as /dev/null.
        raise OSError(errno.EINVAL, "Not a regular file", target)
    return stat.S_IMODE(found) & 0o777


def _sync_directory(directory: str) -> None:
    """Make the new name survive a power cut, where the system can open directories."""
    # Windows does not open it, and some network file systems do not sync it; the data itself is synced.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock(file: BinaryIO, *, wait: bool = True, required: bool = False) -> bool:
    """Lock an open file until it is closed; return ``False`` if another process holds the lock.

    Without locks in the system or the file system, return ``True``, or raise `OSError` if `required`.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError) as error:  # Windows; a file system without locks
        if required:
            raise OSError(
                errno.ENOLCK, "there are no locks, which it needs; name a store elsewhere"
            ) from error
    return True
