"""`Comparisons` → `Document` or JSON: one row per configuration, and where its time goes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import Bullets, Document, HeatCell, HeatMap, Section, Table, laid_out
from profkit.report.jsonvalues import dumps, members, next_command
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.wording.accounts import BUCKET_TITLES, shown_buckets
from profkit.report.wording.runs import (
    comparisons_notes,
    comparisons_verdict,
    configuration_text,
    judged_text,
)
from profkit.study.compare import Compared, Comparisons
from profkit.verdict.account import RUN_BUCKETS


@dataclass(frozen=True, slots=True)
class ComparisonsReport:
    study: Comparisons

    def document(self, rows: int) -> Document:
        study = self.study
        slower = [row for row in study.rows if row.slowdown.value > 1 and row.cause not in ("", "no-change")]
        worst = sorted(slower, key=lambda row: -row.slowdown.value)[:1]
        commands = tuple(shlex.join(_words(study, row)) for row in worst)
        return laid_out(
            "profkit compare",
            Section("", (comparisons_verdict(study),)),
            Section("Runs", (_table(study),), role="evidence"),
            Section("Where the time goes", (_heat(study),), role="account"),
            Section("Notes", (Bullets((*comparisons_notes(study), *notice_texts(study.notices))),)),
            Section("What to do next", (Bullets(commands, commands=True),), role="advice"),
        )

    def json(self, rows: int) -> str:
        study = self.study
        return dumps(
            {
                "schema": "profkit.compare/1",
                **members(
                    study, "reference best spread rows notices", rows=[_row(study, r) for r in study.rows]
                ),
            }
        )


def _row(study: Comparisons, row: Compared) -> dict[str, object]:
    reference = row is study.rows[study.reference]
    return members(
        row,
        "name files runs failed wall_s=median_s wall_low_s=low_s wall_high_s=high_s account iteration_s "
        "slowdown=slowdown.value slowdown_low=slowdown.low slowdown_high=slowdown.high cause? kind? confidence "
        "fastest next_commands",
        name=configuration_text(row.configuration),
        account=dict(zip(RUN_BUCKETS, row.buckets, strict=True)),
        next_commands=[] if reference else [next_command(_words(study, row), "why its time differs")],
    )


def _words(study: Comparisons, row: Compared) -> list[str]:
    return ["profkit", "diff", study.rows[study.reference].named, row.named]


def _table(study: Comparisons) -> Table:
    reference = study.rows[study.reference]
    alike = sum(row.fastest for row in study.rows) > 1
    return Listed(study.rows).table(
        Of("run", lambda row: configuration_text(row.configuration)),
        Of("wall", lambda row: row.median_s, "seconds"),
        Of("95 % interval", lambda row: units.interval(row.low_s, row.high_s), "text", 3),
        Of("factor", lambda row: row.slowdown.value, "factor"),
        Of("iterations/s", lambda row: f"{1 / row.iteration_s:.4g}" if row.iteration_s else None, "pid", 2),
        Of("verdict", lambda row: "reference" if row is reference else judged_text(row), "text", 1),
        Of("runs", lambda row: row.runs, "count", 5),
        notes=("● is the fastest" + (", or cannot be told apart from it by these runs." if alike else "."),),
        marked=lambda row: row.fastest,
    )


def _heat(study: Comparisons) -> HeatMap:
    """Return the seconds of each part of the wall; a cell is warmer where other rows have less."""
    shown = shown_buckets((row.buckets, row.median_s) for row in study.rows)
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
        "Parts of the wall, medians. Warmer cells exceed the row with the least by more.",
    )
