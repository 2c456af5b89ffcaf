"""The compiled parts of profkit, where the installation could build them: finds them, loads nothing.

``hatch_build.py`` compiles the C sources of the directories beside this file into ``lib``. What a missing one would
have recorded is missing in the run, which says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from profkit.capture.agent.settings import DISABLE_NATIVE_VARIABLE, NVTX_LIBRARY

__all__ = ["nvtx_library"]

_LIB = Path(__file__).resolve().parent / "lib"


def nvtx_library() -> Path | None:
    """Return the NVTX collector for ``NVTX_INJECTION64_PATH``, ``None`` where it was not built."""
    path = _LIB / NVTX_LIBRARY
    return path if path.is_file() and not os.environ.get(DISABLE_NATIVE_VARIABLE) else None
