"""Run files that are not what they should be: members of a good one replaced, left out or added."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def rewritten(path: Path, changes: Mapping[str, bytes | None]) -> Path:
    """Replace members of a run file; ``None`` takes one out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        start = min(info.header_offset for info in archive.infolist())
    front = path.read_bytes()[:start]
    with open(path, "wb") as file:
        file.write(front)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in {**members, **changes}.items():
                if data is not None:
                    archive.writestr(name, data)
    return path


def npy(values: Any) -> bytes:
    """Write an array as numpy does, also one that has to be pickled."""
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


def member_of(path: Path, name: str) -> Any:
    """Read a JSON member."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(name))
