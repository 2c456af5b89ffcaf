"""Show a comparison in GitHub Actions: a step summary, and an annotation at the changed line; both masked."""

from __future__ import annotations

import os

from profkit.api.diff import Diff
from profkit.errors import UsageError
from profkit.identity.readable_names import readable_name
from profkit.verdict.types import NO_HARM

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
