"""Run files that are not what they should be: members replaced, left out or added; and all that is in a run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.model import Profile
from profkit.model.profile import MEASURED
from tests.builders import Row, profile


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
        return value.dtype, np.nan_to_num(value, nan=-1.0).tolist()
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


def measured(rows: int, seed: int = 1, *, waits: bool = True, edges: bool = True) -> Profile:
    """Build a profile whose numbers are as hard to compress as measured ones; names are the same for every seed."""
    random = np.random.default_rng(seed)
    calls, (own, within) = random.geometric(0.01, rows).tolist(), random.exponential(1e-3, (2, rows)).tolist()
    functions = [
        Row(
            *(f"/site/paquet\udce9{i % 997}/a.py", i, f"f{i}", calls[i], own[i], within[i]),
            qualname=f"日本.{i}",
            source=f"{i:016}",
        )
        for i in range(rows)
    ]
    callers, callees = random.integers(0, rows, 2 * rows), random.integers(1, rows, 2 * rows)
    counts, times = random.geometric(0.01, 2 * rows), random.exponential(1e-3, 2 * rows)
    links = list(zip(callers, callees, counts, times, strict=True)) if edges else None
    columns = {name: random.exponential(1e-3, rows) for name in MEASURED if waits}
    return replace(profile(functions, links), **columns).validate()


def npy(values: Any) -> bytes:
    """Write an array as numpy does, also one that has to be pickled."""
    out = io.BytesIO()
    np.save(out, values, allow_pickle=True)
    return out.getvalue()


def member_of(path: Path, name: str) -> Any:
    """Read a JSON member."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(name))
