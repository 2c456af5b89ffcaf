"""The spool directory from the launcher's side: the launcher's facts in it, and its removal.

`launch.json` is written before the target starts and after it has ended. By then the target may have filled
the disk, so the space for the second writing is reserved before the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from profkit.formats.atomic import replacing

#: The file of the launcher's facts.
FACTS_NAME = "launch.json"
#: Beside it until the target has ended: blanks, for as many bytes as the last facts may need.
_RESERVE_NAME = "launch.reserve"
#: Bytes by which facts grow: what is known of the host, of its readings and of the repository.
_GROWTH = 16 << 10


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
    moved = spool.with_name(spool.name.replace(".spool-", ".removed-"))
    try:
        os.rename(spool, moved)
    except OSError:
        moved = spool
    for _ in range(2):  # a file whose making had begun before the renaming may have come since
        shutil.rmtree(moved, ignore_errors=True)
        if not moved.exists():
            return
