"""Keep the target's modules out of the imports of profkit's own process.

``PYTHONPATH`` and a script's directory precede the standard library on ``sys.path``. They belong to the
target: its ``secrets.py``, or another Python's numpy, must not replace what profkit imports. This module
imports only what every interpreter loads at its start.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder

#: Number of threads that NumPy's OpenBLAS starts on import.
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

#: Requirements of every command, ``click`` first.
_REQUIRED = ("click", "numpy", "rich")


def own_path() -> None:
    """Remove from ``sys.path`` what precedes the standard library; the environment stays as it is.

    profkit's own directory is kept after the standard library, for a checkout in ``PYTHONPATH``. The other
    entries are kept last if profkit's requirements are found nowhere else.
    """
    library = os.path.dirname(os.__file__)
    places = [index for index, entry in enumerate(sys.path) if _is_standard(entry, library)]
    if not places:
        return  # an unusual interpreter, such as one in a single file
    front, installed = sys.path[: places[-1] + 1], sys.path[places[-1] + 1 :]
    standard = [entry for entry in front if _is_standard(entry, library)]
    home = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    # Installed packages are on the path once, in front if PYTHONPATH names them.
    own = [entry for entry in front if (entry or _here()) == home or _is_site(entry)]
    sys.path[:] = [*standard, *own, *installed]
    if any(PathFinder.find_spec(name, sys.path) is None for name in _REQUIRED):
        sys.path += [entry for entry in front if entry not in standard and entry not in own]


def _is_standard(entry: str, library: str) -> bool:
    """Return whether an entry is the standard library: its directory, compiled modules, or archive."""
    folder, name = os.path.dirname(entry), os.path.basename(entry)
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return (
        entry == library
        or (name == "lib-dynload" and folder == library)
        or (name == "DLLs" and folder == os.path.dirname(library))
        or (name == archive and not os.path.isdir(entry))
    )


def _is_site(entry: str) -> bool:
    """Return whether packages for this interpreter are installed there."""
    site = sys.modules.get("site")
    if site is None:
        return False
    return entry in [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed


def import_numpy() -> None:
    """Import NumPy without OpenBLAS threads, whose start takes as long as the import."""
    if "numpy" in sys.modules or _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_BLAS_THREADS]  # child processes keep their own setting
