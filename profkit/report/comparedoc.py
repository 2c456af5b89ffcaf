"""`Comparisons` → `Document` or JSON: one row a configuration, and where the time of each goes."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import Bullets, Column, Document, HeatCell, HeatMap, Row, Section, Table
from profkit.report.jsonvalues import next_command
from profkit.report.notices import notice_objects, notice_text
from profkit.report.text import clean
from profkit.report.wording import BUCKET_TITLES
from profkit.report.wording.comparisons import (
    comparisons_notes,
    comparisons_verdict,
    configuration_text,
    judged_text,
)
from profkit.study.compare import Compared, Comparisons
from profkit.verdict.account import RUN_BUCKETS

#: Part (1) of the wall that a bucket has in some row to get a column.
_SHOWN = 0.02


@dataclass(frozen=True, slots=True)
class ComparisonsReport:
    """Several runs or configurations."""

    study: Comparisons

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`: all rows are listed."""
        study = self.study
        sections = [
            Section("", (comparisons_verdict(study),)),
            Section("Runs", (_table(study),), role="evidence"),
            Section("Where the time goes", (_heat(study),), role="account"),
        ]
        notes = comparisons_notes(study) + [clean(notice_text(notice)) for notice in study.notices]
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        slower = [row for row in study.rows if row.slowdown.value > 1 and row.cause not in ("", "no-change")]
        if slower:
            worst = max(slower, key=lambda row: row.slowdown.value)
            command = _command(study, worst)
            sections.append(Section("What to do next", (Bullets((command,), commands=True),), role="advice"))
        return Document("profkit compare", tuple(sections))

    def json(self, rows: int) -> str:
        """See `profkit.report.reports.Report`: all rows are listed."""
        study = self.study
        document = {
            "schema": "profkit.compare/1",
            "reference": study.reference,
            "best": study.best,
            "spread": _number(study.spread),
            "rows": [_row_json(study, row) for row in study.rows],
            "notices": notice_objects(study.notices),
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _row_json(study: Comparisons, row: Compared) -> dict[str, object]:
    reference = row is study.rows[study.reference]
    return {
        "name": configuration_text(row.configuration),
        "files": list(row.files),
        "runs": row.runs,
        "failed": row.failed,
        "wall_s": row.median_s,
        "wall_low_s": _number(row.low_s),
        "wall_high_s": _number(row.high_s),
        "account": dict(zip(RUN_BUCKETS, row.buckets, strict=True)),
        "iteration_s": row.iteration_s,
        "slowdown": row.slowdown.value,
        "slowdown_low": _number(row.slowdown.low),
        "slowdown_high": _number(row.slowdown.high),
        "cause": row.cause or None,
        "kind": row.kind or None,
        "confidence": row.confidence,
        "fastest": row.fastest,
        "next_commands": [] if reference else [next_command(_words(study, row), "why it took another time")],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _command(study: Comparisons, row: Compared) -> str:
    return shlex.join(_words(study, row))


def _words(study: Comparisons, row: Compared) -> list[str]:
    return ["profkit", "diff", study.rows[study.reference].named, row.named]


def _interval(low: float, high: float, text: str) -> str:
    return text if math.isfinite(low) and math.isfinite(high) else ""


def _table(study: Comparisons) -> Table:
    reference = study.rows[study.reference]
    columns = (
        Column("run", "text"),
        Column("wall", "seconds"),
        Column("95 % interval", "text", 3),
        Column("factor", "factor"),
        Column("iterations/s", "pid", 2),
        Column("verdict", "text", 1),
        Column("runs", "count", 5),
    )
    rows = tuple(
        Row(
            (
                configuration_text(row.configuration),
                row.median_s,
                _interval(row.low_s, row.high_s, f"{units.seconds(row.low_s)} – {units.seconds(row.high_s)}"),
                row.slowdown.value,
                f"{1 / row.iteration_s:.4g}" if row.iteration_s else None,
                "reference" if row is reference else judged_text(row),
                row.runs,
            ),
            marked=row.fastest,
        )
        for row in study.rows
    )
    alike = sum(row.fastest for row in study.rows) > 1
    note = "● is the fastest" + (", or cannot be told apart from it by these runs." if alike else ".")
    return Table(columns, rows, note).without_empty()


def _heat(study: Comparisons) -> HeatMap:
    """Seconds of each part of the wall; warmer where greater than in other rows."""
    shown = [
        at
        for at in range(len(RUN_BUCKETS))
        if any(row.buckets[at] > _SHOWN * row.median_s for row in study.rows)
    ]
    longest = max(row.median_s for row in study.rows)

    def cell(row: Compared, at: int) -> HeatCell:
        seconds = row.buckets[at]
        least = min(other.buckets[at] for other in study.rows)
        return HeatCell(units.seconds(seconds), min(1.0, max(0.0, (seconds - least) / longest)))

    return HeatMap(
        "run ↓",
        tuple(BUCKET_TITLES[RUN_BUCKETS[at]] for at in shown),
        tuple(
            (configuration_text(row.configuration), tuple(cell(row, at) for at in shown))
            for row in study.rows
        ),
        "Parts of the wall, medians. The warmer, the more seconds than the row with the least.",
    )
