"""What packing would do of sources after the target has ended, done while it runs: in a thread of the launcher.

The names of functions are in the tracers' files as soon as they have been called. What source files say of them is
found here, so that at the end only the newest are left. All of it may be left undone: it is done on a CPU that
nothing else wants, in pieces of a few milliseconds, between which it looks whether there still is one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from profkit.capture import host
from profkit.capture.mapped_tables import GrowingNames
from profkit.capture.remains import kept_files
from profkit.capture.source_cache import Sources

#: Seconds between two looks at the files: at least, at most, and as a part of how long that went on already.
_LEAST_S, _MOST_S, _PART = 0.05, 1.0, 0.02
#: Part of a CPU that looking at the files may take.
_SHARE = 0.1
#: Seconds of work between two looks whether a CPU is free.
_PIECE_S = 0.003
#: Seconds until the next look for one, where there was none.
_BUSY_S = 0.05

_Function = tuple[str, int, str, str]


def look_ahead(spool: Path, sources: Sources, ended: threading.Event) -> None:
    """Describe the functions of a target's processes, in `sources`, until the target has `ended`.

    Nothing is raised for what is in the spool directory, and nothing is said: whatever is wrong there is still
    wrong when the run is packed.
    """
    begin, cpus = time.monotonic(), host.cpus_to_use()
    looks: dict[str, GrowingNames] = {}
    while not ended.is_set():
        before, took = time.monotonic(), time.thread_time()
        found = list(_new_functions(spool, looks)) if host.has_free_cpu(cpus) else []
        took = time.thread_time() - took
        pause = until = 0.0
        for function in found:
            while time.monotonic() >= until:
                if ended.wait(pause):
                    return
                pause = 0.0 if host.has_free_cpu(cpus) else _BUSY_S
                until = time.monotonic() + (0.0 if pause else _PIECE_S)
            sources.describe(*function)
        sources.let_go()
        ended.wait(max(_LEAST_S, min(_MOST_S, _PART * (before - begin)), took / _SHARE))


def _new_functions(spool: Path, looks: dict[str, GrowingNames]) -> Iterator[_Function]:
    """Yield the functions with source files that are in the files of tracers for the first time."""
    for path in kept_files(spool):
        with contextlib.suppress(OSError, ValueError):
            names = looks.setdefault(path.name, GrowingNames())
            for function in names.look(path):
                if not function[0].startswith(("~", "<")):
                    yield function
