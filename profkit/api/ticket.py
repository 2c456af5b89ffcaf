"""A ticket: Markdown to paste, and a ZIP archive of runs and reports to attach.

Nothing is sent or written.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from profkit import __version__
from profkit.api.reported import Layout, Reported, rows_of
from profkit.formats import write_run
from profkit.model import Run
from profkit.report import markdown
from profkit.report.renderers import Html, Json, Markdown
from profkit.report.reports import OfRuns
from profkit.report.ticketdoc import archive_readme

#: Fixed modification time of members: equal tickets are equal files, and no time zone shows.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Ticket:
    """The Markdown, and a ZIP archive that holds `runs` runs."""

    markdown: str
    archive: bytes
    runs: int


def ticket(
    result: Reported,
    attachment: str,
    *,
    limit: int | None = None,
    full_paths: bool = False,
    explain: bool = False,
) -> Ticket:
    """Make a ticket of a result, as `Reported.report`; the Markdown names its archive, `attachment`."""
    rows = rows_of(limit, Markdown())
    result.mask(posted=True)
    report = result.laid_out(Layout(full_paths, explain, drawn=True, attachment=attachment))
    if not isinstance(report, OfRuns):
        raise TypeError(f"there is no ticket of a {type(result).__name__}")
    pasted = markdown.render(report.ticket(rows))
    texts = {
        "ticket.md": pasted,
        "report.html": Html().render(report, rows),
        "report.json": Json().render(report, rows),
    }
    runs = result.runs(full_paths)
    readme = archive_readme((*texts, *runs), masked=not full_paths, version=__version__)
    folder = PurePath(attachment).stem
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:

        def add(member: str, data: bytes) -> None:
            info = zipfile.ZipInfo(f"{folder}/{member}", _NO_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, data)

        for member, text in {"README.md": readme, **texts}.items():
            add(member, text.encode("utf-8", "backslashreplace"))
        for member, run in runs.items():
            add(member, _file_of(run))
    return Ticket(pasted, buffer.getvalue(), len(runs))


def _file_of(run: Run) -> bytes:
    """Return a run as the bytes of its file."""
    with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
        path = os.path.join(directory, "run.prof")
        write_run(path, run)
        return Path(path).read_bytes()
