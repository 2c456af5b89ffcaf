"""What the program's own source files, not a library's, say beyond the functions that were seen to run."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from profkit.capture.source_cache import Sources
from profkit.model import Process, Roots, Thread
from profkit.model.thread import Definition, Sizes, WrittenSize, name_digest

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
#: So cloudpickle names the file of code, lest pickles depend on where a program lies. Line and name are kept.
DYNAMIC = "<dynamic-code>"
#: Most functions of a run that are listed as defined; a larger program is listed in part.
MOST_DEFINED = 5_000


def _is_of_program(path: str, roots: Roots) -> bool:
    """Return whether the innermost root around a file is the program's.

    Python 3.8 names a script as it was typed: a relative path.
    """
    if path.endswith(".py") and not os.path.isabs(path):
        return True

    def depth(places: tuple[str, ...]) -> int:
        return max((len(place) for place in places if path.startswith(place.rstrip("/") + "/")), default=-1)

    return depth(roots.project) > max(depth(roots.stdlib), depth(roots.site))


def _program_files(roots: Roots, thread: Thread) -> Iterator[tuple[str, int]]:
    """Yield the program's files in which functions of a thread ran, each with a row of its profile."""
    files, rows = np.unique(thread.profile.file, return_index=True)
    for file, row in zip(files.tolist(), rows.tolist(), strict=True):
        path = thread.profile.strings[file]
        if _is_of_program(path, roots):
            yield path, row


def with_sizes(processes: Sequence[Process], sources: Sources) -> list[Process]:
    """Return processes whose threads have the `written_sizes` of the functions that ran.

    The calls that set sizes are made once, and samples and bursts mostly miss them.
    """

    @functools.cache
    def of_file(path: str) -> dict[str, set[Sizes]]:
        found: dict[str, set[Sizes]] = {}
        for name, sets in _CALLED.items():
            for function in sources.calls(path, name):
                found.setdefault(function, set()).add(sets)
        return found

    def sized(roots: Roots, thread: Thread) -> Thread:
        profile, found = thread.profile, []
        for path, first in _program_files(roots, thread):
            sizes = of_file(path)
            for row in np.flatnonzero(profile.file == profile.file[first]).tolist() if sizes else ():
                name = profile.strings[profile.qualname[row] or profile.name[row]]
                found += [WrittenSize(row, sets) for sets in sorted(sizes.get(name, ()))]
        return replace(thread, written_sizes=tuple(found)) if found else thread

    return [process.with_threads(functools.partial(sized, process.roots)) for process in processes]


def with_dynamic_files(
    processes: Sequence[Process], strings: dict[str, int], sources: Sources
) -> list[Process]:
    """Return processes in which functions that cloudpickle sent (joblib's loky, Dask, Ray) have their file.

    It is the one file that defines such a function, if there is one. `strings` is the table of all profiles.
    """
    dynamic = strings.get(DYNAMIC)
    if dynamic is None:
        return list(processes)
    files = sorted(
        {path for p in processes for thread in p.threads for path, _ in _program_files(p.roots, thread)}
    )

    @functools.cache
    def place(line: int, name: str, qualname: str) -> tuple[int, int] | None:
        """Return the numbers of file and source hash; ``None`` unless one file has such a function."""
        defining = [path for path in files if sources.defines(path, line, name, qualname)]
        if len(defining) != 1:
            return None
        _, digest = sources.describe(defining[0], line, name, qualname or name)
        return strings[defining[0]], strings.setdefault(digest, len(strings))

    def placed(thread: Thread) -> Thread:
        profile = thread.profile
        file, source_hash = profile.file.copy(), profile.source_hash.copy()
        for row in np.flatnonzero(file == dynamic).tolist():
            name, qualname = profile.strings[profile.name[row]], profile.strings[profile.qualname[row]]
            found = place(int(profile.line[row]), name, qualname)
            if found is not None:
                file[row], source_hash[row] = found
        return replace(thread, profile=replace(profile, file=file, source_hash=source_hash))

    return [process.with_threads(placed) for process in processes]


def with_definitions(processes: Sequence[Process], sources: Sources) -> list[Process]:
    """Return processes that list, in the first sampled thread of a file, what this file defines and no thread has.

    Samples missed these functions, and a later comparison asks whether their source changed.
    """
    sampled = [any(tier.kind == "sampled" for tier in process.tiers) for process in processes]
    if not any(sampled):
        return list(processes)
    known = {code for process in processes for thread in process.threads for code in _functions(thread)}
    done: set[str] = set()
    left = MOST_DEFINED

    def listed(roots: Roots, thread: Thread) -> Thread:
        nonlocal left
        found: list[Definition] = []
        for path, row in _program_files(roots, thread):
            if path in done:
                continue
            done.add(path)
            found += [
                Definition(row, name_digest(qualname), digest)
                for qualname, digest in sources.definitions(path).items()
                if (path, qualname) not in known
            ]
        found = found[:left]
        left -= len(found)
        return replace(thread, definitions=tuple(found)) if found else thread

    return [
        process.with_threads(functools.partial(listed, process.roots)) if is_sampled else process
        for process, is_sampled in zip(processes, sampled, strict=True)
    ]


def _functions(thread: Thread) -> set[tuple[str, str]]:
    """Return file and qualified name, or name, of the functions of a thread."""
    profile = thread.profile
    columns = (profile.file, np.where(profile.qualname > 0, profile.qualname, profile.name))
    pairs = np.unique(np.stack(columns, axis=1), axis=0) if len(profile) else np.zeros((0, 2), np.int64)
    return {(profile.strings[file], profile.strings[name]) for file, name in pairs.tolist()}
