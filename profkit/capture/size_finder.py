"""Finds where a program sets its numbers of threads and processes, in the source of its functions that ran.

Such calls are made once, and samples and bursts mostly miss them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from profkit.model import Process, Roots, Thread
from profkit.model.written_sizes import Sizes, WrittenSize

#: By what is set, the end of the name that is called.
_CALLED: Mapping[Sizes, str] = {
    "torch": r"torch\.set_num_threads",
    "opencv": r"cv2\.setNumThreads",
    "numexpr": r"(?:numexpr|ne)\.set_num_threads",
    "numba": r"numba\.set_num_threads",
    "tensorflow": r"set_intra_op_parallelism_threads",
    "threadpoolctl": r"threadpool_limits",
    "pool": r"Pool",
    "process-executor": r"ProcessPoolExecutor",
    "thread-executor": r"ThreadPoolExecutor",
    "loader": r"DataLoader",
}


@functools.cache
def _call() -> re.Pattern[str]:
    groups = ((sets.replace("-", "_"), name) for sets, name in _CALLED.items())
    return re.compile("|".join(rf"(?P<{group}>\b{name}\()" for group, name in groups))


class SizeFinder:
    """Looks into the program's files, each once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, list[Sizes]]] = {}

    def with_sizes(self, process: Process) -> Process:
        """Return a process whose threads have their `written_sizes`."""
        return process.with_threads(lambda thread: self._of_thread(thread, process.roots))

    def _of_thread(self, thread: Thread, roots: Roots) -> Thread:
        profile, found = thread.profile, []
        for at in np.unique(profile.file).tolist():
            path = profile.strings[at]
            sizes = self._of_file(path) if _is_of_program(path, roots) else {}
            for row in np.flatnonzero(profile.file == at).tolist() if sizes else ():
                name = profile.strings[profile.qualname[row] or profile.name[row]]
                found += [WrittenSize(row, sets) for sets in sizes.get(name, ())]
        return replace(thread, written_sizes=tuple(found)) if found else thread

    def _of_file(self, path: str) -> dict[str, list[Sizes]]:
        """Return what functions of a file set, by qualified name."""
        if path in self._files:
            return self._files[path]
        found = self._files[path] = {}
        from profkit.capture.source import read_source  # slow to import

        source = read_source(path)
        for function, group in source.calls(_call()) if source is not None else ():
            sets = cast(Sizes, group.replace("_", "-"))
            if sets not in found.setdefault(function, []):
                found[function].append(sets)
        return found


def _is_of_program(path: str, roots: Roots) -> bool:
    """Return whether the innermost root around a file is the program's."""

    def depth(places: tuple[str, ...]) -> int:
        return max((len(place) for place in places if path.startswith(place.rstrip("/") + "/")), default=-1)

    return depth(roots.project) > max(depth(roots.stdlib), depth(roots.site))
