"""What a step of GitHub Actions shows of a comparison: a summary of the step, and a note at the line that changed.

Both are made of the report that everyone gets: it is masked, and the note names a file only as the repository does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.errors import UsageError
from profkit.identity.readable import readable_name
from profkit.model import PROJECT

if TYPE_CHECKING:
    from profkit.api.diff import Diff

__all__ = ["annotation", "append_summary", "summary_file"]

#: Most bytes of a step's summary that GitHub takes.
MOST_BYTES = 1024 * 1024


def summary_file() -> str:
    """Return the file whose content GitHub shows as the summary of the step that runs.

    Raises
    ------
    UsageError
        This is no step of GitHub Actions.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        raise UsageError("--github: GITHUB_STEP_SUMMARY is not set; it is, in a step of GitHub Actions")
    return path


def append_summary(text: str) -> None:
    """Append Markdown to the summary of the step that runs.

    Raises
    ------
    UsageError
        This is no step of GitHub Actions, or its summary cannot be written.
    """
    path = summary_file()
    content = (text.rstrip() + "\n\n").encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab") as file:
            file.write(content[:MOST_BYTES])
    except OSError as error:
        raise UsageError(f"--github: {path}: {error.strerror}") from None


def annotation(result: Diff, *, failed: bool, full_paths: bool = False) -> str:
    """Return the workflow command that notes a slow-down at the changed function; empty where nothing is slower.

    Parameters
    ----------
    result
        A comparison.
    failed
        Whether the step fails for it: an error, and a warning otherwise.
    full_paths
        As for reports.
    """
    from profkit.verdict.types import NO_HARM

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
    """File and line of the changed function that the verdict names, where the repository has the file."""
    if result.verdict.cause != "code-change":
        return {}
    table = result.table
    changed = [
        row for row, key in enumerate(table.keys) if key.root == PROJECT and table.same_source[row] is False
    ]
    named = [row for row in changed if readable_name(table.name[row]) == result.verdict.subject]
    for row in (*named, *changed):
        file = _in_repository(table.file[row], table.keys[row].path)
        if file:
            return {"file": file, "line": str(table.line[row])}
    return {}


def _in_repository(file: str, path: str) -> str:
    """Return a file as the repository names it; empty where it is not in it."""
    root = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or ".")
    for place in (os.path.realpath(file), os.path.join(root, path)):
        if os.path.isfile(place) and os.path.commonpath((root, place)) == root:
            return os.path.relpath(place, root)
    return ""
