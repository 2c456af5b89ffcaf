"""CPU seconds of importing, by function and by package, from the calling contexts of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq

import numpy as np

from profkit.identity.function_keys import infer_roots, unique_files
from profkit.identity.lookup_columns import Looked
from profkit.identity.rooted_paths import rooted_all
from profkit.model import PROJECT, Process, Profile, Roots, Thread
from profkit.model.arrays import Bools, Floats
from profkit.model.paths import below, with_callees

#: Number of packages that are named.
PACKAGES = 3
#: Files of the import system: frozen, and on disk.
SYSTEM = ("<frozen importlib._bootstrap>", "importlib/_bootstrap.py")
#: Where modules are read and compiled.
LOADERS = ("<frozen importlib._bootstrap_external>", "importlib/_bootstrap_external.py")
#: The outermost function of the import system in every import.
AROUND = "_find_and_load"


def import_rows(profile: Profile) -> list[int]:
    """Return the rows of the outermost function of every import; frozen and on disk it is another row."""
    named = np.flatnonzero(Looked(profile.name, profile.strings).where(partial(eq, AROUND)))
    return [row for row in named.tolist() if profile.strings[profile.file[row]].endswith(SYSTEM)]


def import_seconds(thread: Thread, roots: Roots | None = None) -> Floats:
    """Return CPU seconds of each function within imports, shape (n,); 0 without calling contexts.

    With `roots`, what the project's own code does while it is imported is not counted: it may be the program.
    """
    found = np.zeros(len(thread.profile))
    paths = thread.paths
    if paths is None:
        return found
    inside = _inside_imports(thread)
    if roots is not None and inside.any():
        of_project = _of_project(thread.profile, roots)[np.maximum(paths.function, 0)] & (paths.function >= 0)
        outermost = np.isin(paths.function, import_rows(thread.profile))
        while True:
            of_libraries = outermost | (
                (paths.parent >= 0) & (inside & ~of_project)[paths.parent] & inside & ~of_project
            )
            if np.array_equal(of_libraries, inside):
                break
            inside = of_libraries
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


def compiling_seconds(thread: Thread) -> float:
    """Return the seconds in which imports compiled modules, since there was no byte code of them."""
    profile = thread.profile
    named = np.flatnonzero(Looked(profile.name, profile.strings).where(partial(eq, "source_to_code")))
    rows = [row for row in named.tolist() if profile.strings[profile.file[row]].endswith(LOADERS)]
    return float(profile.cumtime[rows].sum())


def _of_project(profile: Profile, roots: Roots) -> Bools:
    """Return whether each function is the project's own."""
    if not roots.project:
        roots = Roots(roots.stdlib, roots.site, infer_roots(profile).project)
    files, of_row = unique_files(profile)
    places = rooted_all(map(profile.strings.__getitem__, files.tolist()), roots)
    return np.array([root == PROJECT for root, _ in places], np.bool_)[of_row]


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
