"""Other CPythons on this machine, for tests that need what another version really writes.

Found under ``~/.pyenv/versions`` and on ``PATH``, never by a fixed place.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.requirements import require

__all__ = ["find", "interpreter"]


@functools.cache
def find(version: str) -> str | None:
    """Return an interpreter of a version such as ``3.12`` or ``2.7``, ``None`` where there is none."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = sorted(
        (path for path in root.glob(f"{version}.*/bin/python") if re.fullmatch(r"[\d.]+", path.parts[-3])),
        key=lambda path: [int(part) for part in path.parts[-3].split(".")],
    )
    on_path = shutil.which(f"python{version}")
    for candidate in [*map(str, reversed(candidates)), *([on_path] if on_path else [])]:
        # A version manager's shim is on PATH even where the version is not selected.
        code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
        try:
            said = subprocess.run([candidate, "-E", "-c", code], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if said.stdout == version:
            return candidate
    return None


def interpreter(version: str) -> str:
    """Return an interpreter of this version, or skip the calling test."""
    found = find(version)
    require("interpreters", found is not None, f"no CPython {version} on this machine")
    assert found is not None
    return found
