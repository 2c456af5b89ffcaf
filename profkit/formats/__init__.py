"""Readers and writers: pstats dumps of any profiler, profkit's own run file, and formats of other viewers.

Names are imported on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profkit.formats.export.callgrind import callgrind_profile
    from profkit.formats.export.chrome import chrome_trace
    from profkit.formats.export.collapsed_write import collapsed_stacks
    from profkit.formats.export.firefox import firefox_profile
    from profkit.formats.export.pprof_write import pprof_profile
    from profkit.formats.export.pstats_write import write_pstats
    from profkit.formats.export.speedscope import speedscope_file
    from profkit.formats.load import join_ranks, load_run, load_side
    from profkit.formats.pstats_file import PstatsFile, read_pstats
    from profkit.formats.runfile import read_run, write_run

__all__ = [
    "PstatsFile",
    "callgrind_profile",
    "chrome_trace",
    "collapsed_stacks",
    "firefox_profile",
    "join_ranks",
    "load_run",
    "load_side",
    "pprof_profile",
    "read_pstats",
    "read_run",
    "speedscope_file",
    "write_pstats",
    "write_run",
]

_MODULE_OF = {
    "pprof_profile": "export.pprof_write",
    "firefox_profile": "export.firefox",
    "collapsed_stacks": "export.collapsed_write",
    "callgrind_profile": "export.callgrind",
    "PstatsFile": "pstats_file",
    "chrome_trace": "export.chrome",
    "join_ranks": "load",
    "load_run": "load",
    "load_side": "load",
    "read_pstats": "pstats_file",
    "read_run": "runfile",
    "speedscope_file": "export.speedscope",
    "write_pstats": "export.pstats_write",
    "write_run": "runfile",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
