"""A directory of this process for the files of one input; on a RAM disk where the engine finds one."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["emptied", "folder"]


@cache
def folder() -> Path:
    """Return the directory, made at the first call and removed when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="profkit-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def emptied(name: str) -> Path:
    """Return an empty directory of this name in it."""
    path = folder() / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path
