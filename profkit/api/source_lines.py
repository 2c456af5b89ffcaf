"""The text of source lines in a report, from files on this machine that still have the source that ran."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from profkit.capture.source import read_source
from profkit.measure.line_times import FunctionLines, SeenLine
from profkit.model import Run


def with_text(lines: FunctionLines, baseline: Sequence[Run], candidate: Sequence[Run]) -> FunctionLines:
    """Return the lines of a function on both sides with their text, where the source is unchanged."""
    before, after = _began(baseline), _began(candidate)
    return replace(
        lines,
        baseline=tuple(_with_text(line, before) for line in lines.baseline),
        candidate=tuple(_with_text(line, after) for line in lines.candidate),
    )


def _began(runs: Sequence[Run]) -> float:
    """Return when the first of some runs began, in seconds since 1970; 0 if unknown."""
    try:
        return min(
            datetime.fromisoformat(run.manifest.started if run.manifest else "").timestamp() for run in runs
        )
    except (ValueError, OverflowError, OSError):
        return 0.0


def _with_text(line: SeenLine, began_s: float) -> SeenLine:
    if not line.source_hash or not os.path.isabs(line.file):
        return line
    try:
        # The hash ignores comments, but comments move lines.
        unchanged = os.stat(line.file).st_mtime < began_s
    except (OSError, ValueError):
        return line
    source = read_source(line.file) if unchanged else None
    if source is None or source.hash(line.first, line.name) != line.source_hash:
        return line
    return replace(line, text=source.line(line.line))
