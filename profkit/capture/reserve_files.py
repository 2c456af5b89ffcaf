"""Kept files and ends that agents left in a spool directory (`agent.reserve`); not to be trusted.

A kept file holds the tracer's tables (`mapped_tables`); without a tracer it is empty, or the newest record.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from profkit.capture.agent.reserve import END_SUFFIX, RESERVE_SUFFIX
from profkit.capture.endings import LeftEnd, error_text
from profkit.capture.spool import files


def kept_files(spool: Path) -> Iterator[Path]:
    """Yield the kept files that hold a record, or the tables of a tracer."""
    for path in files(spool, RESERVE_SUFFIX):
        with contextlib.suppress(OSError):
            if path.stat().st_size > 0:
                yield path


def left_ends(spool: Path) -> list[LeftEnd]:
    """Return the ends that agents left; skip anything else."""
    found = []
    for path in files(spool, END_SUFFIX):
        try:
            host, pid, _ = path.stem.rsplit("-", 2)
            state, error, at_s, cpu_s = os.readlink(path).split(" ")
            end = LeftEnd(host, int(pid), state, int(error), float(at_s), float(cpu_s))
        except (OSError, ValueError):
            continue
        known = state in ("exited", "replaced") and end.error >= 0
        if known and all(math.isfinite(value) and value >= 0 for value in (end.at_s, end.cpu_s)):
            found.append(end)
    return found


def unrecorded(spool: Path, known: set[str]) -> list[tuple[int, str]]:
    """Return processes whose agent started but left no record, with the error if there was one.

    `known` are record files without suffix.
    """
    found = []
    for path in files(spool, RESERVE_SUFFIX):
        if path.stem in known:
            continue
        try:
            pid = int(path.stem.rsplit("-", 2)[1])
        except (ValueError, IndexError):
            continue
        error = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            error = int(os.readlink(path.with_suffix(END_SUFFIX)).split(" ")[1])
        found.append((pid, error_text(error)))
    return found
