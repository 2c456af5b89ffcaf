"""Run files that are not what they should be: members of a good one replaced, left out or added; and all of a run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
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


#: Columns of places in a table of strings.
NAMES = ("file", "name", "qualname", "module", "source_hash", "domain", "category")


def plain(value: Any) -> Any:
    """Return all of a run, or of a part of one, as values that compare: what it names instead of places in tables."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist() if value.dtype.kind != "f" else np.nan_to_num(
            value, nan=-1.0
        ).tolist()
    if is_dataclass(value):
        found = {
            field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name != "path"
        }
        strings = found.pop("strings", ())
        for name in found.keys() & NAMES if strings else ():
            found[name] = [strings[i] for i in getattr(value, name).tolist()]
        return type(value), found
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return list(map(plain, value)) if isinstance(value, tuple | list) else value


def npy(values: Any) -> bytes:
    """Write an array as numpy does, also one that has to be pickled."""
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


def member_of(path: Path, name: str) -> Any:
    """Read a JSON member."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(name))
