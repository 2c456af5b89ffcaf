"""Readers and writers of files. Names are imported on first use, so that this package imports fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profkit.formats.export.pstats_write import write_pstats
    from profkit.formats.load import join_ranks, load_run, load_side
    from profkit.formats.pstats_file import read_pstats
    from profkit.formats.runfile import read_run, write_run

_MODULE_OF = dict.fromkeys(("join_ranks", "load_run", "load_side"), "load")
_MODULE_OF |= {"read_pstats": "pstats_file", "write_pstats": "export.pstats_write"}
_MODULE_OF |= dict.fromkeys(("read_run", "write_run"), "runfile")


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
