"""What a step of GitHub Actions shows of a comparison: a summary of the step, and a note at the line that changed.

Both are made of the report that everyone gets: it is masked, and the note names a file only as the repository does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.errors import UsageError
from profkit.identity.readable_names import readable_name

if TYPE_CHECKING:
    from profkit.api.diff import Diff

#: Most bytes of a step's summary that GitHub takes.
MOST_BYTES = 1024 * 1024


def summary_file() -> str:
    """Return the file with the summary of the step that runs; raises `UsageError` outside of GitHub Actions."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        raise UsageError("--github: GITHUB_STEP_SUMMARY is not set; it is, in a step of GitHub Actions")
    return path


def append_summary(text: str) -> None:
    """Append Markdown to the summary of the step that runs; raises `UsageError` if that cannot be."""
    path = summary_file()
    content = (text.rstrip() + "\n\n").encode("utf-8", "backslashreplace")
    try:
        with open(path, "ab") as file:
            file.write(content[:MOST_BYTES])
    except OSError as error:
        raise UsageError(f"--github: {path}: {error.strerror}") from None


def annotation(result: Diff, *, failed: bool, full_paths: bool = False) -> str:
    """Return the workflow command that notes a slow-down at the changed function; empty where nothing is slower.

    It is an error if the step `failed` for it, and a warning otherwise.
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
    changed = result.changed()
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
