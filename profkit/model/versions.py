"""Which Python wrote a profile, from the paths of its library and packages: for files that do not record it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["python_of_paths"]

#: ``…/lib/python3.11/…`` (also lib64, free-threaded ``3.13t``, PyPy), ``…\Python39\Lib\…`` and
#: ``…\Python-3.9\Lib\…``.
_LIBRARY = re.compile(
    r"[\\/](?:lib(?:32|64|x32)?[\\/](?:python|pypy)(?P<posix_major>\d)\.(?P<posix_minor>\d+)t?"
    r"|python-?(?P<windows_major>\d)\.?(?P<windows_minor>\d{1,2})(?:-32)?[\\/]lib)[\\/]",
    re.IGNORECASE,
)


def python_of_paths(files: Iterable[str]) -> tuple[int, int] | None:
    """Return major and minor version as most of the paths have it, ``None`` where none has one.

    Parameters
    ----------
    files
        File names as the interpreter recorded them, from any operating system.
    """
    votes: Counter[tuple[int, int]] = Counter()
    # One scan over all paths: a profile has thousands, and a call for each costs more than reading the file.
    found = Counter(_LIBRARY.findall("\n".join(files)))
    for (posix_major, posix_minor, windows_major, windows_minor), count in found.items():
        votes[int(posix_major or windows_major), int(posix_minor or windows_minor)] += count
    return max(votes, key=lambda version: (votes[version], version)) if votes else None
