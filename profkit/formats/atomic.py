"""Files that are written completely or not at all: what was there before stays until the new content is complete.

The one place of the package that writes a file in this way (the agent, which cannot import it, has its own). Light
enough for the launcher to import before the target starts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

#: Bytes of the file's name that the temporary name begins with; most file systems allow 255 in all.
_NAME_BYTES = 200


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], *, durable: bool = True, private: bool = False
) -> Iterator[BinaryIO]:
    """Open a file for writing whose content takes the place of `path` in one step when the block ends.

    It is written under a temporary name in the same directory. If the block raises, `KeyboardInterrupt` included, or
    the content cannot be written, the temporary file is removed and what was at `path` is as it was.

    Parameters
    ----------
    path
        Where to; symbolic links are followed. An existing file keeps its permissions; a new one gets what the
        umask leaves.
    durable
        Whether to wait until the content is on the disk, so that it also survives a power cut. Without it, the
        replacement is still in one step for every process that reads the file.
    private
        Whether a new file is for its owner alone.

    Yields
    ------
    binary file
        Write-only, and seekable.

    Raises
    ------
    OSError
        It cannot be written there, or `path` is a directory, a device or a pipe. The error names `path`.
    """
    target = os.path.realpath(path)
    mode = _mode_of(target)
    directory, name = os.path.split(target)
    start = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
    temporary = os.path.join(directory, f".{start}.{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb", opener=_open_private if private else None) as file:
            if mode is not None and mode != stat.S_IMODE(os.stat(temporary).st_mode):
                os.chmod(temporary, mode)  # before there is anything in it that others must not read
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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _mode_of(target: str) -> int | None:
    """Return the permissions of the file that is replaced, ``None`` where there is none."""
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
    """Make the new name itself survive a power cut, where the system lets a directory be opened."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems refuse; the data itself is synced
        pass
    finally:
        os.close(handle)
