"""The Python version of a profile, from the paths of its library and packages."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

#: ``…/lib/python3.11/…`` (also lib64, free-threaded ``3.13t``, PyPy), ``…\Python39\Lib\…`` and
#: ``…\Python-3.9\Lib\…``.
_LIBRARY = re.compile(
    r"[\\/](?:lib(?:32|64|x32)?[\\/](?:python|pypy)(?P<posix_major>\d)\.(?P<posix_minor>\d+)t?"
    r"|python-?(?P<windows_major>\d)\.?(?P<windows_minor>\d{1,2})(?:-32)?[\\/]lib)[\\/]",
    re.IGNORECASE,
)


#: Asked repeatedly for both sides of a comparison.
@lru_cache(maxsize=2)
def python_of_paths(files: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the (major, minor) version that most paths, of any system, have; ``None`` if none has one."""
    votes: Counter[tuple[int, int]] = Counter()
    # Thousands of files share a few directories. The separator ends the directory because one follows the
    # version.
    places = Counter([file if "\\" in file else f"{file.rpartition('/')[0]}/" for file in files])
    for place, files_in_it in places.items():
        for posix_major, posix_minor, windows_major, windows_minor in _LIBRARY.findall(place):
            version = int(posix_major or windows_major), int(posix_minor or windows_minor)
            votes[version] += files_in_it
    return max(votes, key=lambda version: (votes[version], version)) if votes else None
