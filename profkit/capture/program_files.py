"""Which source files are the program's own, and not a library's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np

from profkit.model import Process, Roots, Thread


def is_of_program(path: str, roots: Roots) -> bool:
    """Return whether the innermost root around a file is the program's.

    Python 3.8 names a script as it was typed: a relative path.
    """
    if path.endswith(".py") and not os.path.isabs(path):
        return True

    def depth(places: tuple[str, ...]) -> int:
        return max((len(place) for place in places if path.startswith(place.rstrip("/") + "/")), default=-1)

    return depth(roots.project) > max(depth(roots.stdlib), depth(roots.site))


def program_files(process: Process, threads: Iterable[Thread]) -> Iterator[tuple[str, int]]:
    """Yield the program's files in which functions of some threads ran, each with a row of the thread's profile."""
    for thread in threads:
        files, rows = np.unique(thread.profile.file, return_index=True)
        for file, row in zip(files.tolist(), rows.tolist(), strict=True):
            path = thread.profile.strings[file]
            if is_of_program(path, process.roots):
                yield path, row
