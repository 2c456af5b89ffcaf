"""Find imports of the command's own process with its interpreter, and not among the target's modules.

``PYTHONPATH`` and a script's directory precede the standard library on ``sys.path``. They belong to the
target: its ``secrets.py``, or another Python's numpy, must not replace what profkit imports. This module
imports only what every interpreter loads at its start.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import PathFinder

#: How many threads NumPy's BLAS starts when it is imported.
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

#: What no command can do without; ``click`` first, as every command needs it.
_REQUIRED = ("click", "numpy", "rich")


def own_path() -> None:
    """Remove from ``sys.path`` what precedes the standard library; the environment stays as it is.

    The directory of profkit itself is kept after the standard library, for a checkout that ``PYTHONPATH``
    names. The other entries are kept last if profkit's requirements are found nowhere else.
    """
    library = os.path.dirname(os.__file__)
    places = [index for index, entry in enumerate(sys.path) if _is_standard(entry, library)]
    if not places:
        return  # an interpreter of another make, such as one in a single file
    front, installed = sys.path[: places[-1] + 1], sys.path[places[-1] + 1 :]
    standard = [entry for entry in front if _is_standard(entry, library)]
    home = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    # What is installed is on the path once, in front if PYTHONPATH names it.
    own = [entry for entry in front if (entry or _here()) == home or _is_site(entry)]
    sys.path[:] = [*standard, *own, *installed]
    if any(PathFinder.find_spec(name, sys.path) is None for name in _REQUIRED):
        sys.path += [entry for entry in front if entry not in standard and entry not in own]


def _is_standard(entry: str, library: str) -> bool:
    """Whether an entry belongs to the standard library: its directory, compiled modules, or archive."""
    folder, name = os.path.dirname(entry), os.path.basename(entry)
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return (
        entry == library
        or (name == "lib-dynload" and folder == library)
        or (name == "DLLs" and folder == os.path.dirname(library))
        or (name == archive and not os.path.isdir(entry))
    )


def _is_site(entry: str) -> bool:
    """Whether packages are installed there for this interpreter."""
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
    """Import NumPy without the threads of its BLAS: no comparison needs them, and their start takes as long as it."""
    if "numpy" in sys.modules or _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_BLAS_THREADS]  # what is started from here has its own
