"""Calls by which a program sets its numbers of threads or processes; arguments are not recorded.

They are found among the calls that were seen, and else in the source of functions that ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from profkit.identity.function_keys import function_keys
from profkit.model import PROJECT, FunctionKey, Process, Profile, Run
from profkit.model.thread import Sizes

#: Built-in functions that set the size of a library's pool, by their name in a profile.
_NATIVE: Mapping[str, Sizes] = {
    "<built-in method torch.set_num_threads>": "torch",
    "<built-in method torch._C.set_num_threads>": "torch",
    "<setNumThreads>": "opencv",
    "<built-in method cv2.setNumThreads>": "opencv",
}
#: Python functions that set a size, by the end of the file and the qualified name.
_PYTHON: Mapping[tuple[str, str], Sizes] = {
    ("numexpr/utils.py", "set_num_threads"): "numexpr",
    ("numba/np/ufunc/parallel.py", "set_num_threads"): "numba",
    ("tensorflow/python/framework/config.py", "set_intra_op_parallelism_threads"): "tensorflow",
    ("threadpoolctl.py", "threadpool_limits.__init__"): "threadpoolctl",
    ("multiprocessing/pool.py", "Pool.__init__"): "pool",
    ("concurrent/futures/process.py", "ProcessPoolExecutor.__init__"): "process-executor",
    ("concurrent/futures/thread.py", "ThreadPoolExecutor.__init__"): "thread-executor",
    ("torch/utils/data/dataloader.py", "DataLoader.__init__"): "loader",
}
_NAMES = {name for _, name in _PYTHON} | set(_NATIVE)
#: Most library functions between the program and such a function (``multiprocessing.Pool``).
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class SizeCall:
    """A function of the program (`caller`, beginning at `line`, 0 if unknown) that sets a size."""

    sets: Sizes
    caller: FunctionKey
    line: int


def size_calls(run: Run) -> tuple[SizeCall, ...]:
    """Return the program's calls that set sizes, each once.

    Of calls that were not seen, those of which the source has one of their kind. Empty for a run read without
    callers.
    """
    found = dict.fromkeys(
        size for process, thread in run.threads for size in _of_profile(thread.profile, process)
    )
    seen = {size.sets for size in found}
    written = [size for size in dict.fromkeys(_written(run)) if size.sets not in seen]
    alone = [size for size in written if sum(size.sets == other.sets for other in written) == 1]
    return (*found, *alone)


def _written(run: Run) -> Iterator[SizeCall]:
    for process, thread in run.threads:
        if thread.written_sizes:
            keys = function_keys(thread.profile, process.roots)
            for size in thread.written_sizes:
                yield SizeCall(size.sets, keys[size.function], int(thread.profile.line[size.function]))


@lru_cache(maxsize=1)  # the profiles of a run share one table of strings
def _wanted(strings: tuple[str, ...]) -> list[int]:
    return [i for i, text in enumerate(strings) if text in _NAMES]


def _rows(profile: Profile) -> Iterator[tuple[int, Sizes]]:
    """Yield the rows of functions that set sizes, and what each sets."""
    wanted, strings = _wanted(profile.strings), profile.strings
    if not wanted:
        return
    named = np.where(profile.qualname != 0, profile.qualname, profile.name)
    for row in np.flatnonzero(np.isin(named, wanted)).tolist():
        name = strings[named[row]]
        path = strings[profile.file[row]].replace("\\", "/")
        python = (sets for (end, of), sets in _PYTHON.items() if of == name and path.endswith(end))
        sets = _NATIVE.get(name) or next(python, None)
        if sets is not None:
            yield row, sets


def _of_profile(profile: Profile, process: Process) -> Iterator[SizeCall]:
    edges = profile.edges
    if edges is None or not len(edges):
        return
    keys = None
    for row, sets in _rows(profile):
        keys = keys or function_keys(profile, process.roots)
        at, seen = [row], {row}
        for _ in range(1 + _BETWEEN):
            callers = dict.fromkeys(edges.caller[np.isin(edges.callee, at)].tolist())
            at = [caller for caller in callers if caller not in seen]
            seen.update(at)
            ours = [caller for caller in at if keys[caller].root == PROJECT]
            yield from (SizeCall(sets, keys[caller], int(profile.line[caller])) for caller in ours)
            if ours:
                break
