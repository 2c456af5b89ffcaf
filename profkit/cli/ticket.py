"""``--ticket``: the Markdown to paste, and beside it one archive to attach: the runs and the report as JSON.

The runs in it are copies through the same mask as the report (`report.safety`), so that the archive may be posted
where the report may; with ``--full-paths`` they are what was read. Nothing is sent anywhere.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.model import Run

__all__ = ["archive_of", "check_ticket", "members_of", "pack"]

#: What the archive is called where the Markdown goes to stdout.
_NAME = "profkit-ticket.zip"
#: Size of one attachment that GitHub takes (25 MB); GitLab's and Jira's defaults are greater or about the same.
MOST_BYTES = 25 * 1000 * 1000
#: Modification time of members, so that equal tickets are equal files, and tell no time zone.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def check_ticket(format: str | None, chosen: str, output: Path | None) -> str:
    """Return the format of a ticket, Markdown, or refuse another one."""
    if format not in (None, "md") or (output is not None and chosen != "md"):
        asked = f"--format {format}" if format not in (None, "md") else f"-o {output}"
        raise UsageError(f"{asked}: --ticket writes Markdown, give -o a .md file or leave it away")
    return "md"


def archive_of(output: Path | None) -> Path:
    """Return where the archive goes: beside the report, or into the working directory."""
    return Path(_NAME) if output is None else output.with_suffix(".zip")


def members_of(name: str, runs: Sequence[Run]) -> dict[str, Run]:
    """Name the runs of a side: ``baseline.prof``, or ``baseline/1.prof`` … for replicates."""
    if len(runs) == 1:
        return {f"{name}.prof": runs[0]}
    width = len(str(len(runs)))
    return {f"{name}/{number:0{width}}.prof": run for number, run in enumerate(runs, 1)}


def pack(archive: Path, runs: Mapping[str, Run], texts: Mapping[str, str]) -> None:
    """Write the archive in one piece, and say on stderr that it is there.

    Parameters
    ----------
    archive
        Where to; an older one is replaced.
    runs
        Member names and what to write as run files.
    texts
        Member names and what to write as text.
    """
    from profkit.cli.output import emit_bytes

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:

        def add(member: str, data: bytes) -> None:
            info = zipfile.ZipInfo(member, _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, data)

        for member, text in texts.items():
            add(member, text.encode("utf-8", "backslashreplace"))
        for member, run in runs.items():
            add(member, _file_of(run))
    data = buffer.getvalue()
    emit_bytes(data, archive)
    size = f"{len(data) / 1e6:.1f} MB" if len(data) >= 1e6 else f"{len(data) / 1e3:.0f} kB"
    files = "1 run file" if len(runs) == 1 else f"{len(runs)} run files"
    print(f"profkit: wrote {archive} ({files}, {size}): attach it to the ticket", file=sys.stderr)
    if len(data) > MOST_BYTES:
        print("profkit: that is more than the 25 MB which GitHub takes; attach fewer runs", file=sys.stderr)


def _file_of(run: Run) -> bytes:
    """Return a run as the bytes of its file."""
    from profkit.formats import write_run

    with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
        path = os.path.join(directory, "run.prof")
        write_run(path, run)
        return Path(path).read_bytes()
