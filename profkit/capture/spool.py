"""The spool directory from the launcher's side, and what killed captures left of theirs.

Space is reserved for facts that follow a target's end. No reader of records is imported, since every capture looks
for what others left.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.capture.agent import process_facts, settings
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.proc_files import is_alive
from profkit.formats.atomic import replacing

FACTS_NAME = "launch.json"
#: Blanks for as many bytes as the last facts may need, until the target has ended.
_RESERVE_NAME = "launch.reserve"
#: Bytes by which facts grow: host, readings, repository.
_GROWTH = 16 << 10
#: Most bytes of facts that are read of another capture.
_MOST_FACTS = 4 << 20
#: Matches names that begin with `reservation.spool_prefix`.
_SPOOL = re.compile(r"\.(?P<output>[^/]+)\.spool-[^./]+")
#: Of the names of local directories.
_LOCAL_PREFIX = "profkit.spool-"
#: Network file systems: a store to a mapped file may wait for the server.
_NETWORK = re.compile(r"nfs4?|cifs|smb3|lustre|gpfs|ceph|beegfs\w*|afs|9p|fuse.*")


def keep_local(spool: Path) -> None:
    """Give processes a local directory for their files, linked from the spool, if that is on a network."""
    if not _is_on_network(spool):
        return
    import tempfile

    temporary = Path(tempfile.gettempdir())
    if not _is_on_network(temporary):
        local = tempfile.mkdtemp(prefix=_LOCAL_PREFIX, dir=temporary)
        os.symlink(local, _local_link(spool))


def _local_link(spool: Path) -> Path:
    return spool / (process_facts.boot_id() + settings.LOCAL_SUFFIX)


def _is_on_network(directory: Path) -> bool:
    """Return whether a directory is on a network file system; false if unknown."""
    path = os.path.realpath(directory)
    found = ("", "")
    with contextlib.suppress(OSError, ValueError), open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, system = line.partition(" - ")
            at = fields.split()[4]
            if len(at) >= len(found[0]) and (path + "/").startswith(at.rstrip("/") + "/"):
                found = at, system.split()[0]
    return _NETWORK.fullmatch(found[1]) is not None


def directories(spool: Path) -> list[Path]:
    """Return the directories of processes' files: the spool, and local ones of this machine that it links to."""
    return [spool, *(place for place in _local_directories(spool) if place.is_dir())]


def absent_directories(spool: Path) -> list[Path]:
    """Return the local directories that a spool links to and that do not exist here: they are on another machine."""
    return [place for place in _local_directories(spool) if not place.is_dir()]


def _local_directories(spool: Path) -> Iterator[Path]:
    for link in sorted(spool.glob("*" + settings.LOCAL_SUFFIX)):
        with contextlib.suppress(OSError):
            yield Path(os.readlink(link))


def files(spool: Path, suffix: str) -> Iterator[Path]:
    for place in directories(spool):
        yield from sorted(place.glob("*" + suffix))


def kept_files(spool: Path) -> Iterator[Path]:
    """Yield the files that agents keep (`agent.reserve`): the tracer's tables, or without a tracer the newest record.

    Those that are empty are left out.
    """
    for path in files(spool, RESERVE_SUFFIX):
        with contextlib.suppress(OSError):
            if path.stat().st_size > 0:
                yield path


def write_facts(spool: Path, facts: dict[str, Any], *, last: bool = False) -> None:
    """Write the launcher's facts as JSON; on a full disk, the `last` ones use the reserved space."""
    data = json.dumps(facts).encode("ascii")
    reserve = spool / _RESERVE_NAME
    try:
        with replacing(spool / FACTS_NAME, durable=False) as file:  # outlives profkit, not the machine
            file.write(data)
    except OSError:
        if not last or not reserve.is_file() or len(data) > reserve.stat().st_size:
            raise
        with open(reserve, "r+b") as kept:  # blanks behind the facts are valid JSON
            kept.write(data)
        os.replace(reserve, spool / FACTS_NAME)
    else:
        if last:
            with contextlib.suppress(OSError):
                reserve.unlink(missing_ok=True)


def reserve_facts(spool: Path, facts: dict[str, Any]) -> None:
    """Reserve space for the last facts; raise `OSError` if there is not enough."""
    (spool / _RESERVE_NAME).write_bytes(b" " * (len(json.dumps(facts)) + _GROWTH))


def remove_spool(spool: Path) -> None:
    """Remove a spool directory, renamed first so that a file added meanwhile does not make this fail."""
    for place in reversed(directories(spool)):
        if place == spool or place.name.startswith(_LOCAL_PREFIX):
            _remove(place)


def _remove(spool: Path) -> None:
    import shutil

    moved = spool.with_name(spool.name.replace(".spool-", ".removed-"))
    try:
        os.rename(spool, moved)
    except OSError:
        moved = spool
    for _ in range(2):  # a file may come that was begun before the renaming
        shutil.rmtree(moved, ignore_errors=True)
        if not moved.exists():
            return


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The records of a capture that ended without its run file."""

    spool: Path
    output: Path


def left_behind(directory: Path) -> list[LeftBehind]:
    """Return what the user's killed captures left, oldest first; those of other machines may run and are omitted."""
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
            begun, owner = facts.stat().st_mtime_ns, facts.lstat().st_uid
            if owner != os.geteuid():
                continue  # anyone could choose the path that `merge` writes to by naming a directory
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
    alive = is_alive(str(boot or host), pid, born, own.get("pid_namespace"))
    here = os.uname().nodename if hasattr(os, "uname") else ""
    # Nothing outlives a restart of its machine.
    return alive is False or (bool(boot) and boot != process_facts.boot_id() and host == here)
