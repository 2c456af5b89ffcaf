"""Results → the figures of a page; only renderers that draw request them."""

from __future__ import annotations

import numpy as np

from profkit.model import Run
from profkit.report.figures import Figure, Slope, Slopes
from profkit.report.functions import seconds_by, working
from profkit.report.pagedata import diff_page, run_page
from profkit.report.waits import waits
from profkit.report.wording.functions import display_name
from profkit.verdict.types import Diff

#: Functions that get a label: with fewer, sentences say as much; more cannot be told apart at a glance.
LEAST_LABELS, MOST_LABELS = 6, 12
#: Functions up to this rank on either side are drawn faintly; rankings are compared by them.
FAINT_RANKS = 50


def diff_figures(diff: Diff, baseline: Run, candidate: Run) -> tuple[Figure, ...]:
    """Return a comparison's figures; states and timeline are those of the given runs."""
    sides = (("baseline", baseline), ("candidate", candidate))
    return tuple(filter(None, (slopes(diff), diff_page(diff, sides), waits(sides))))


def run_figures(run: Run, by: str) -> tuple[Figure, ...]:
    return tuple(filter(None, (run_page(run, by), waits((("", run),)))))


def slopes(diff: Diff) -> Slopes | None:
    """Return the functions to draw, without waits; ``None`` if fewer than `LEAST_LABELS` moved."""
    table, by = diff.table, diff.ranking.by
    before, after = table.baseline, table.candidate
    times = seconds_by(before, by), seconds_by(after, by)
    marked = working(table, table.anomalous)
    if len(marked) < LEAST_LABELS:
        return None
    most = float(np.abs(times[1] - times[0])[marked].max(initial=0.0)) or 1.0
    labelled = marked[:MOST_LABELS]
    near = ((before.rank > 0) & (before.rank <= FAINT_RANKS)) | (
        (after.rank > 0) & (after.rank <= FAINT_RANKS)
    )
    near[labelled] = False
    # On a side that may have missed a function, it has no rank.
    near &= (before.present & after.present) | table.one_sided
    rows = np.concatenate([labelled, working(table, near)])

    def line(place: int, row: int) -> Slope:
        was, now = float(times[0][row]), float(times[1][row])
        named = place < len(labelled)
        return Slope(
            display_name(table.name[row]),
            int(before.rank[row]) or None,
            int(after.rank[row]) or None,
            was,
            now,
            "" if not named else "bad" if now > was else "good",
            abs(now - was) / most if named else 0.0,
        )

    lines = tuple(line(place, row) for place, row in enumerate(rows.tolist()))
    return Slopes(lines, by, len(marked) - len(labelled))
