"""Readers and writers: pstats dumps of any profiler, and profkit's own run file.

Commands take runs and sides from here: `load_run` for one file, `load_side` for the replicates of one
configuration. Names are imported when they are first used, so that importing this room costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profkit.formats.load import join_ranks, load_run, load_side
    from profkit.formats.pstats_file import PstatsFile, read_pstats
    from profkit.formats.pstats_write import write_pstats
    from profkit.formats.runfile import read_run, write_run

__all__ = [
    "PstatsFile",
    "join_ranks",
    "load_run",
    "load_side",
    "read_pstats",
    "read_run",
    "write_pstats",
    "write_run",
]

_MODULE_OF = {
    "PstatsFile": "pstats_file",
    "join_ranks": "load",
    "load_run": "load",
    "load_side": "load",
    "read_pstats": "pstats_file",
    "read_run": "runfile",
    "write_pstats": "pstats_write",
    "write_run": "runfile",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
