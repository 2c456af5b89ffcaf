"""`Diff` → `Slopes`: which functions a slopegraph draws, and which of them it names.

Chooses; where the lines run is `drawing`'s.
"""

from __future__ import annotations

import numpy as np

from profkit.measure.movement import is_wait
from profkit.report.figures import Slope, Slopes
from profkit.report.wording import display_name
from profkit.verdict.types import Diff

__all__ = ["slopes"]

#: Functions that get a label: more cannot be distinguished at a glance.
MOST_LABELS = 12
#: Ranks, on either side, whose functions are drawn faintly: what rankings are compared by.
FAINT_RANKS = 50


def slopes(diff: Diff) -> Slopes | None:
    """Choose the lines; ``None`` where neither side has a function that took time."""
    table, by = diff.table, diff.ranking.by
    before, after = table.baseline, table.candidate
    times = (before.active, after.active) if by == "tottime" else (before.cumtime, after.cumtime)
    marked = np.flatnonzero(table.anomalous)
    labelled = marked[:MOST_LABELS]
    near = ((before.rank > 0) & (before.rank <= FAINT_RANKS)) | (
        (after.rank > 0) & (after.rank <= FAINT_RANKS)
    )
    near[labelled] = False
    rows = np.concatenate([labelled, np.flatnonzero(near)])
    if not len(rows):
        return None

    def line(place: int, row: int) -> Slope:
        was, now = float(times[0][row]), float(times[1][row])
        tone = ""
        if place < len(labelled):
            waits = is_wait(table.name[row], table.keys[row].root)
            tone = "wait" if waits else "bad" if now > was else "good"
        return Slope(
            display_name(table.name[row]),
            int(before.rank[row]) or None,
            int(after.rank[row]) or None,
            was,
            now,
            tone,
        )

    lines = tuple(line(place, row) for place, row in enumerate(rows.tolist()))
    return Slopes(lines, by, len(marked) - len(labelled))
