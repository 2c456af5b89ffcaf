"""CPU seconds of importing, by function and by package, from the calling contexts of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq

import numpy as np

from profkit.identity.lookup_columns import Looked
from profkit.model import Process, Profile, Thread
from profkit.model.arrays import Bools, Floats
from profkit.model.paths import below, with_callees

#: Number of packages that are named.
PACKAGES = 3
#: Files of the import system: frozen, and on disk.
SYSTEM = ("<frozen importlib._bootstrap>", "importlib/_bootstrap.py")
#: The outermost function of the import system in every import.
AROUND = "_find_and_load"


def import_rows(profile: Profile) -> list[int]:
    """Return the rows of the outermost function of every import; frozen and on disk it is another row."""
    named = np.flatnonzero(Looked(profile.name, profile.strings).where(partial(eq, AROUND)))
    return [row for row in named.tolist() if profile.strings[profile.file[row]].endswith(SYSTEM)]


def import_seconds(thread: Thread) -> Floats:
    """Return CPU seconds of each function within imports, shape (n,); 0 without calling contexts."""
    found = np.zeros(len(thread.profile))
    paths, inside = thread.paths, _inside_imports(thread)
    if paths is None:
        return found
    rows = paths.function[inside]
    np.add.at(found, np.maximum(rows, 0), np.where(rows >= 0, _active(thread)[inside], 0.0))
    return found


def imported_packages(processes: Sequence[Process]) -> tuple[tuple[str, float], ...]:
    """Return the packages with the longest imports, nested imports included, and their CPU seconds."""
    seconds: dict[str, float] = {}
    for thread in (thread for process in processes for thread in process.threads):
        paths, inside = thread.paths, _inside_imports(thread)
        if paths is None or not inside.any():
            continue
        profile = thread.profile
        bodies = Looked(profile.name, profile.strings).where(partial(eq, "<module>"))
        is_body = inside & np.isin(paths.function, np.flatnonzero(bodies))
        outermost = is_body & ~below(paths.parent, is_body)
        whole = with_callees(paths.parent, _active(thread))
        for at in np.flatnonzero(outermost).tolist():
            module = profile.strings[profile.module[paths.function[at]]]
            package = module.partition(".")[0]
            if package:
                seconds[package] = seconds.get(package, 0.0) + float(whole[at])
    return tuple(sorted(seconds.items(), key=lambda item: -item[1])[:PACKAGES])


def _active(thread: Thread) -> Floats:
    assert thread.paths is not None
    waited = np.nan_to_num(thread.paths.wait) + np.nan_to_num(thread.paths.blocked)
    return np.maximum(thread.paths.tottime - waited, 0.0)


def _inside_imports(thread: Thread) -> Bools:
    """Return whether each calling context is inside an import."""
    paths = thread.paths
    if paths is None:
        return np.zeros(0, np.bool_)
    outermost = np.isin(paths.function, import_rows(thread.profile))
    return outermost | below(paths.parent, outermost)
