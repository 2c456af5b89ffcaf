"""The spool directory from the launcher's side: the launcher's facts in it, and its removal.

`launch.json` is written before the target starts and after it has ended. By then the target may have filled
the disk, so the space for the second writing is reserved before the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profkit.capture.agent import process_facts, settings
from profkit.formats.atomic import replacing

#: The file of the launcher's facts.
FACTS_NAME = "launch.json"
#: Beside it until the target has ended: blanks, for as many bytes as the last facts may need.
_RESERVE_NAME = "launch.reserve"
#: Bytes by which facts grow: what is known of the host, of its readings and of the repository.
_GROWTH = 16 << 10


#: File systems whose server may not answer for a while: a store to a mapped file waits for it then.
_NETWORK = re.compile(r"nfs4?|cifs|smb3|lustre|gpfs|ceph|beegfs\w*|afs|9p|fuse.*")


def keep_local(spool: Path) -> None:
    """Have processes of this machine keep their files on a local disk, where the spool's is a network file system.
    A link in the spool leads to them. Raise `OSError` if that cannot be made."""
    if not _is_on_network(spool):
        return
    import tempfile

    temporary = Path(tempfile.gettempdir())
    if not _is_on_network(temporary):
        local = tempfile.mkdtemp(prefix="profkit.spool-", dir=temporary)
        os.symlink(local, _local_link(spool))


def _local_link(spool: Path) -> Path:
    return spool / (process_facts.boot_id() + settings.LOCAL_SUFFIX)


def _is_on_network(directory: Path) -> bool:
    """Return whether a directory's file system is one of a server; false if unknown."""
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
    """Return where files of processes are: the spool, and a local directory that it refers to."""
    link = _local_link(spool)
    return [spool, Path(os.readlink(link))] if link.is_dir() else [spool]


def files(spool: Path, suffix: str) -> Iterator[Path]:
    """Yield the files of processes whose names have this end."""
    for place in directories(spool):
        yield from sorted(place.glob("*" + suffix))


def write_facts(spool: Path, facts: dict[str, Any], *, last: bool = False) -> None:
    """Write the launcher's facts, in JSON form; raise `OSError` if that fails.
    `last`: the target has ended, and on a full disk the space that `reserve_facts` took is used."""
    data = json.dumps(facts).encode("ascii")
    reserve = spool / _RESERVE_NAME
    try:
        with replacing(spool / FACTS_NAME, durable=False) as file:  # it outlives profkit, not the machine
            file.write(data)
    except OSError:
        if not last or not reserve.is_file() or len(data) > reserve.stat().st_size:
            raise
        with open(
            reserve, "r+b"
        ) as kept:  # over the blanks, in place: blanks behind the facts are valid JSON
            kept.write(data)
        os.replace(reserve, spool / FACTS_NAME)
    else:
        if last:
            with contextlib.suppress(OSError):
                reserve.unlink(missing_ok=True)


def reserve_facts(spool: Path, facts: dict[str, Any]) -> None:
    """Reserve the space that the last facts may need; raise `OSError` if there is not enough."""
    (spool / _RESERVE_NAME).write_bytes(b" " * (len(json.dumps(facts)) + _GROWTH))


def remove_spool(spool: Path) -> None:
    """Remove a spool directory, even while a process that outlived the target still writes records to it.
    It is renamed first: a file added between listing and removal would make the removal fail."""
    for place in reversed(directories(spool)):
        _remove(place)


def _remove(spool: Path) -> None:
    import shutil

    moved = spool.with_name(spool.name.replace(".spool-", ".removed-"))
    try:
        os.rename(spool, moved)
    except OSError:
        moved = spool
    for _ in range(2):  # a file whose making had begun before the renaming may have come since
        shutil.rmtree(moved, ignore_errors=True)
        if not moved.exists():
            return
