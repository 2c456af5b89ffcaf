"""Spool directories of killed captures; imports no reader of records, since every capture looks for them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.proc_files import is_alive
from profkit.capture.spool import FACTS_NAME

#: Matches names that begin with `reservation.spool_prefix`.
_SPOOL = re.compile(r"\.(?P<output>[^/]+)\.spool-[^./]+")
_MOST_FACTS = 4 << 20


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The records of a capture that ended without its run file."""

    spool: Path
    output: Path


def left_behind(directory: Path) -> list[LeftBehind]:
    """Return what killed captures left, oldest first; those of other machines may run and are omitted."""
    found = []
    try:
        with os.scandir(directory) as entries:
            named = [(entry.name, made) for entry in entries if (made := _SPOOL.fullmatch(entry.name))]
    except OSError:
        return []
    for name, made in named:
        facts = directory / name / FACTS_NAME
        output = directory / made["output"]
        try:
            begun = facts.stat().st_mtime_ns
            if _is_dead(facts) and not (output.exists() and output.stat().st_mtime_ns > begun):
                found.append((begun, LeftBehind(directory / name, output)))
        except (OSError, ValueError, RecursionError):
            continue
    return [left for _, left in sorted(found, key=lambda item: (item[0], item[1].spool))]


def _is_dead(facts: Path) -> bool:
    """Return whether the launcher that wrote these facts is known to have ended."""
    with open(facts, "rb") as file:
        read = json.loads(file.read(_MOST_FACTS))
    own = read.get("launcher") if isinstance(read, dict) else None
    if not isinstance(own, dict):
        return False
    boot, host, pid, born = (own.get(name) for name in ("boot", "host", "pid", "born"))
    if not isinstance(pid, int) or not isinstance(born, int | None):
        return False
    alive = is_alive(str(boot or host), pid, born)
    # Nothing outlives a restart of its machine.
    return alive is False or (alive is None and bool(boot) and host == _host())


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else ""
