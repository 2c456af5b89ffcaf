"""The files of functions that cloudpickle sent to another process (joblib's loky, Dask, Ray).

So that pickles do not depend on where a program lies, it names the file of their code ``<dynamic-code>``. Line and
name are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.capture.program_files import program_files
from profkit.capture.source_cache import Sources
from profkit.model import Process, Thread

DYNAMIC = "<dynamic-code>"


def with_files(processes: Sequence[Process], sources: Sources) -> list[Process]:
    """Return processes, which share one string table, whose dynamic code has the one file that defines it."""
    table = next((t.profile.strings for p in processes for t in p.threads if len(t.profile)), ())
    if DYNAMIC not in table:
        return list(processes)
    files = sorted({path for process in processes for path, _ in program_files(process, process.threads)})
    numbers = {text: number for number, text in enumerate(table)}
    dynamic = numbers[DYNAMIC]
    known: dict[tuple[int, str, str], tuple[int, int] | None] = {}

    def found(line: int, name: str, qualname: str) -> tuple[int, int] | None:
        """Return the numbers of file and source hash; ``None`` unless one file has such a function."""
        defining = [path for path in files if sources.defines(path, line, name, qualname)]
        if len(defining) != 1:
            return None
        _, digest = sources.describe(defining[0], line, name, qualname or name)
        return numbers[defining[0]], numbers.setdefault(digest, len(numbers))

    def placed(thread: Thread) -> Thread:
        profile = thread.profile
        file, source_hash = profile.file.copy(), profile.source_hash.copy()
        for row in np.flatnonzero(file == dynamic).tolist():
            code = int(profile.line[row]), table[profile.name[row]], table[profile.qualname[row]]
            if code not in known:
                known[code] = found(*code)
            if (place := known[code]) is not None:
                file[row], source_hash[row] = place
        return _with(thread, file=file, source_hash=source_hash)

    changed = [process.with_threads(placed) for process in processes]
    whole = tuple(numbers)
    return [process.with_threads(lambda thread: _with(thread, strings=whole)) for process in changed]


def _with(thread: Thread, **columns: Any) -> Thread:
    return replace(thread, profile=replace(thread.profile, **columns))
