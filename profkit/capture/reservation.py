"""Checks outputs, and locks their names (``.run.prof.lock``); the kernel unlocks them if a capture dies."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from profkit.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def check_output(path: Path) -> None:
    """Raise `UsageError` unless a run file can be written there; refuse devices, pipes and broken links."""

    # The file is renamed into place, which would remove a device such as /dev/null.
    other = "is not a regular file; name the file to write"
    if path.is_dir():
        raise _refused(path, "is a directory; name the file to write")
    if path.exists() and not path.is_file():
        raise _refused(path, other)
    named, file = _real(path.parent), _real(path)
    if named == Path("/dev") or named.is_relative_to("/proc"):
        raise _refused(path, other)  # /dev/stdout, even where it is a file
    if path.is_symlink() and not path.exists():
        raise _refused(path, f"is a broken link to {os.readlink(path)}; remove it, or name another file")
    if not file.parent.is_dir():
        raise _refused(path, "there is no such directory; make it, or name another file")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise _refused(path, "its directory cannot be written to; name a file in another one")


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:
        raise _refused(path, "the working directory was removed; name a file elsewhere") from None


def spool_prefix(path: Path) -> str:
    """Return the prefix of names of spool directories of captures to this file."""
    return f".{path.name}.spool-"


def make_spool(path: Path) -> Path:
    """Make the spool directory of a capture to this file; raise `UsageError` if that fails."""
    # Not `tempfile`, which imports random numbers and compression.
    try:
        spool = path.absolute().with_name(f"{spool_prefix(path)}{os.urandom(8).hex()}")
        os.mkdir(spool, 0o700)
    except OSError as error:
        raise _cannot(path, error) from None
    return spool


@contextlib.contextmanager
def reserved(path: Path) -> Iterator[Path]:
    """Keep other captures from a name, and yield it; raise `UsageError` if one has it, or nothing can be written."""
    with _locked(path) as (lock, is_ours):
        if not is_ours:
            problem = "another capture is writing it; wait for it, or name another file"
            raise _refused(path, f"{problem} (if none runs, remove {lock})")
        yield path


@contextlib.contextmanager
def free_name(path: Path) -> Iterator[Path]:
    """Reserve the first free of ``run.prof``, ``run-2.prof`` …; names of killed captures are not free."""
    for number in count(1):
        name = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        if _is_used(name):
            continue
        with _locked(name) as (_, is_ours):
            if is_ours and not _is_used(name):  # again, now that nobody else can take it
                yield name
                return


def _is_used(path: Path) -> bool:
    return os.path.lexists(path) or any(path.parent.glob(f"{glob.escape(spool_prefix(path))}*"))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[tuple[Path, bool]]:
    """Lock a name if no other process has it; yield the file of the lock, and whether the lock is ours."""
    file = _real(path)
    lock = file.with_name(f".{file.name}.lock")
    handle = _take(path, lock)
    try:
        yield lock, handle is not None
    finally:
        if handle is not None:
            with contextlib.suppress(OSError):  # the target may have removed the directory
                os.unlink(lock)
            os.close(handle)


def _take(path: Path, lock: Path) -> int | None:
    """Return a descriptor of the locked file, ``None`` if another process has it."""
    while True:
        made = True
        try:
            try:
                handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                made = False
                handle = os.open(lock, os.O_RDWR)
        except FileNotFoundError as error:
            if not made:
                continue  # released in between
            raise _cannot(path, error) from None
        except OSError as error:
            raise _cannot(path, error) from None
        if _is_locked(handle, made) and _is_at(lock, handle):
            return handle
        taken = _is_at(lock, handle)
        os.close(handle)
        if taken:
            return None


def _is_locked(handle: int, made: bool) -> bool:
    """Return whether we have the lock; on a file system without locks, whether we made the file."""
    if fcntl is None:
        return made
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return made
    return True


def _is_at(lock: Path, handle: int) -> bool:
    """Return whether the file still has its name: its owner removes it on release."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(handle))
    except FileNotFoundError:
        return False


def _cannot(path: Path, error: OSError) -> UsageError:
    return _refused(path, f"cannot write there ({error.strerror}); choose another place")


def _refused(path: Path, problem: str) -> UsageError:
    return UsageError(problem, "output", path)
