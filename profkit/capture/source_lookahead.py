"""Looks up functions in source files while the target runs, on free CPUs only, to shorten the packing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from profkit.capture import host
from profkit.capture.mapped_names import GrowingNames
from profkit.capture.source_cache import Sources
from profkit.capture.spool import kept_files

#: Seconds between two looks at the files: least, most, and as a share of the time so far.
_LEAST_S, _MOST_S, _PART = 0.05, 1.0, 0.02
#: Part of a CPU that looking at the files may take.
_SHARE = 0.1
#: Seconds of work between two checks for a free CPU.
_PIECE_S = 0.003
#: Seconds until the next check, if none was free.
_BUSY_S = 0.05

_Function = tuple[str, int, str, str]


def look_ahead(spool: Path, sources: Sources, ended: threading.Event) -> None:
    """Describe functions of the target in `sources` until it has `ended`; packing will report problems."""
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
    """Yield functions with source files that are new in tracers' files."""
    paths = list(kept_files(spool))
    for gone in looks.keys() - {path.name for path in paths}:  # ended processes, see `gathered`
        del looks[gone]
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            names = looks.setdefault(path.name, GrowingNames())
            for function in names.look(path):
                if not function[0].startswith(("~", "<")):
                    yield function
