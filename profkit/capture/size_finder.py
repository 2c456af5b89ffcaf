"""Finds where a program sets its numbers of threads and processes, in the source of its functions that ran.

Such calls are made once, and samples and bursts mostly miss them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from profkit.capture.program_files import is_of_program
from profkit.capture.source_cache import Sources
from profkit.model import Process, Roots, Thread
from profkit.model.written_sizes import Sizes, WrittenSize

#: What is set by a call, by the end of the called name.
_CALLED: Mapping[str, Sizes] = {
    "torch.set_num_threads": "torch",
    "cv2.setNumThreads": "opencv",
    "numexpr.set_num_threads": "numexpr",
    "ne.set_num_threads": "numexpr",
    "numba.set_num_threads": "numba",
    "set_intra_op_parallelism_threads": "tensorflow",
    "threadpool_limits": "threadpoolctl",
    "Pool": "pool",
    "ProcessPoolExecutor": "process-executor",
    "ThreadPoolExecutor": "thread-executor",
    "DataLoader": "loader",
}


class SizeFinder:
    """Looks into the program's files, each once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._files: dict[str, dict[str, set[Sizes]]] = {}

    def with_sizes(self, process: Process) -> Process:
        """Return a process whose threads have their `written_sizes`."""
        return process.with_threads(lambda thread: self._of_thread(thread, process.roots))

    def _of_thread(self, thread: Thread, roots: Roots) -> Thread:
        profile, found = thread.profile, []
        for at in np.unique(profile.file).tolist():
            path = profile.strings[at]
            sizes = self._of_file(path) if is_of_program(path, roots) else {}
            for row in np.flatnonzero(profile.file == at).tolist() if sizes else ():
                name = profile.strings[profile.qualname[row] or profile.name[row]]
                found += [WrittenSize(row, sets) for sets in sorted(sizes.get(name, ()))]
        return replace(thread, written_sizes=tuple(found)) if found else thread

    def _of_file(self, path: str) -> dict[str, set[Sizes]]:
        """Return what functions of a file set, by qualified name."""
        found = self._files.get(path)
        if found is None:
            found = self._files[path] = {}
            for name, sets in _CALLED.items():
                for function in self._sources.calls(path, name):
                    found.setdefault(function, set()).add(sets)
        return found
