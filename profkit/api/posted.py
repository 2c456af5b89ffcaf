"""What is posted: a ticket (Markdown to paste, and a ZIP archive to attach), and comments in GitHub Actions.

A ticket is neither sent nor written here.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from profkit import __version__
from profkit.api.diff import Diff
from profkit.api.reported import Layout, Reported, rows_of
from profkit.errors import UsageError
from profkit.formats import write_run
from profkit.identity.readable_names import readable_name
from profkit.report import markdown
from profkit.report.renderers import Html, Json, Markdown
from profkit.report.reports import OfRuns
from profkit.report.ticketdoc import archive_readme
from profkit.verdict.types import NO_HARM

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
    hidden = result._masking.get("names_hidden", False)
    members = (*texts, *runs)
    readme = archive_readme(members, masked=not full_paths, names_hidden=hidden, version=__version__)
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
        with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
            path = Path(directory, "run.prof")
            for member, run in runs.items():
                write_run(path, run)
                add(member, path.read_bytes())
    return Ticket(pasted, buffer.getvalue(), len(runs))


#: Most bytes of a step's summary that GitHub takes.
MOST_BYTES = 1024 * 1024


def summary_file() -> str:
    """Return the summary file of the current step; raises `UsageError` outside of GitHub Actions."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        raise UsageError("--github: GITHUB_STEP_SUMMARY is not set; it is, in a step of GitHub Actions")
    return path


def append_summary(text: str) -> None:
    """Append Markdown to the current step's summary; raises `UsageError` if that fails."""
    path = summary_file()
    content = (text.rstrip() + "\n\n").encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab") as file:
            file.write(content[:MOST_BYTES])
    except OSError as error:
        raise UsageError(f"--github: {path}: {error.strerror}") from None


def annotation(result: Diff, *, failed: bool, full_paths: bool = False) -> str:
    """Return the annotation of a slow-down, an error if the step `failed`; empty if nothing is slower."""
    if result.verdict.cause in NO_HARM:
        return ""
    headline, summary = result.said(full_paths)
    fields = {**_place(result), "title": f"profkit: {headline}"}
    said = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
    return f"::{'error' if failed else 'warning'} {said}::{_data(summary)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _place(result: Diff) -> dict[str, str]:
    """Return file and line of the changed function that the verdict names, if it is in the repository."""
    if result.verdict.cause != "code-change":
        return {}
    table = result.table
    changed = result.changed()
    named = [row for row in changed if readable_name(table.name[row]) == result.verdict.subject]
    for row in (*named, *changed):
        file = _in_repository(table.file[row], table.keys[row].path)
        if file:
            return {"file": file, "line": str(table.line[row])}
    return {}


def _in_repository(file: str, path: str) -> str:
    """Return a file's path in the repository; empty if it is outside."""
    root = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or ".")
    for place in (os.path.realpath(file), os.path.join(root, path)):
        if os.path.isfile(place) and os.path.commonpath((root, place)) == root:
            return os.path.relpath(place, root)
    return ""
