"""Locks that the program's own code takes: how long threads and processes beside the main one waited for them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from profkit.identity.rooted_paths import rooted
from profkit.measure.pause_seconds import LOCK, awaited_seconds, waited
from profkit.measure.waits_by_name import is_wait
from profkit.model import PROJECT, STDLIB, Process, Profile, Roots, Thread

#: Functions of the standard library that take a lock for their caller, and their files.
_TAKES, _FILES = ("__enter__", "acquire"), ("multiprocessing/synchronize.py", "threading.py")


def lock_waits(process: Process, thread: Thread) -> list[tuple[int, str, float]]:
    """Return how long functions of the project waited for a lock that they took themselves.

    A row of the profile that waited, the name of a function that took the lock, and seconds. Who waits for work, in
    a queue or a pool, takes its lock in the standard library, which does not count. Who waits for the threads of a
    native library does so for a lock as well.
    """
    found: list[tuple[int, str, float]] = []
    profile, roots = thread.profile, process.roots
    if not any(pause.what == "lock" for pause in thread.pauses or ()):
        return found
    seconds = waited(thread)[LOCK]
    if (awaited := awaited_seconds(process, thread)) is not None:
        seconds = np.maximum(seconds - awaited, 0.0)
    for row in np.flatnonzero(seconds).tolist():
        if is_wait(profile.strings[profile.name[row]], STDLIB):
            takers = list(_callers(profile, row, roots))
        else:  # older interpreters show no call in a ``with`` statement
            takers = [(profile.strings[profile.name[row]], 1.0)] if _is_own(profile, row, roots) else []
        found += [(row, name, part * float(seconds[row])) for name, part in takers]
    return found


def _is_own(profile: Profile, row: int, roots: Roots) -> bool:
    return rooted(profile.strings[profile.file[row]], roots)[0] == PROJECT


def _callers(profile: Profile, row: int, roots: Roots, *, inner: bool = True) -> Iterable[tuple[str, float]]:
    """Yield functions of the project that call one, directly or by what takes a lock, and their parts of its time."""
    edges = profile.edges
    if edges is None:
        return
    calls = np.flatnonzero(edges.callee == row)
    whole = float(edges.cumtime[calls].sum())
    for call in calls.tolist() if whole > 0 else ():
        caller, part = int(edges.caller[call]), float(edges.cumtime[call]) / whole
        file, name = (profile.strings[column[caller]] for column in (profile.file, profile.name))
        if _is_own(profile, caller, roots):
            yield name, part
        elif inner and name.rpartition(".")[2] in _TAKES and file.replace("\\", "/").endswith(_FILES):
            for above, share in _callers(profile, caller, roots, inner=False):
                yield above, part * share
