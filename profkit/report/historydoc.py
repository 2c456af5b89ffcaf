"""`History` → `Document` or JSON: the trend of a repeated job, and lasting changes."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import (
    Bullets,
    Column,
    Document,
    Row,
    Section,
    Table,
    Trend,
    TrendLine,
    TrendMark,
)
from profkit.report.jsonvalues import next_command
from profkit.report.notices import notice_objects, notice_text
from profkit.report.text import clean
from profkit.report.wording import BUCKET_TITLES
from profkit.report.wording.histories import (
    METRIC_TITLES,
    change_size,
    history_notes,
    history_verdict,
    when,
)
from profkit.study.history import Change, History, HistoryRun
from profkit.verdict.account import RUN_BUCKETS

#: Part (1) of the wall that a bucket has in some run to be drawn.
_SHOWN = 0.02


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """One job, run again and again."""

    study: History

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        study = self.study
        sections = [
            Section("", (history_verdict(study),)),
            Section("Trend", (_trend(study),), role="account"),
        ]
        if study.changes:
            sections.append(Section("Changes", (_changes(study),), role="evidence"))
        sections.append(Section("Runs, latest first", (_runs(study, rows),), detail=True))
        notes = history_notes(study) + [clean(notice_text(notice)) for notice in study.notices]
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        if study.changes:
            commands = tuple(_command(change) for change in reversed(study.changes))
            sections.append(Section("What to do next", (Bullets(commands, commands=True),), role="advice"))
        return Document("profkit history", tuple(sections))

    def json(self, rows: int) -> str:
        """Return the JSON: all runs, whatever `rows` is."""
        study = self.study
        document = {
            "schema": "profkit.history/1",
            "metric": study.metric,
            "least_change": study.least_change,
            "spread": study.spread if math.isfinite(study.spread) else None,
            "runs": [_run_json(run) for run in study.runs],
            "changes": [_change_json(study, change) for change in study.changes],
            "failed": study.failed,
            "other_commands": study.others,
            "notices": notice_objects(study.notices),
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _run_json(run: HistoryRun) -> dict[str, object]:
    return {
        "files": list(run.files),
        "started": run.started,
        "revision": run.revision or None,
        "dirty": run.dirty,
        "wall_s": run.wall_s,
        "own_s": run.seconds("own"),
        "iteration_s": run.iteration_s,
        "account": dict(zip(RUN_BUCKETS, run.buckets, strict=True)),
        "cause": run.cause or None,
        "kind": run.kind or None,
    }


def _change_json(study: History, change: Change) -> dict[str, object]:
    return {
        "at": change.at,
        "started": study.runs[change.at].started,
        "before_s": change.before_s,
        "after_s": change.after_s,
        "ratio": change.ratio,
        "p_value": change.p_value,
        "cause": change.cause,
        "kind": change.kind or None,
        "confidence": change.confidence,
        "next_commands": [next_command(_words(change), "what changed there")],
    }


def _command(change: Change) -> str:
    return shlex.join(_words(change))


def _words(change: Change) -> list[str]:
    return ["profkit", "diff", change.before_file, change.after_file]


def _trend(study: History) -> Trend:
    """The series searched first, then the wall, then the account's parts that matter."""
    names = dict.fromkeys((study.metric, "wall", *(RUN_BUCKETS[at] for at in _parts(study))))
    lines = tuple(
        TrendLine(
            METRIC_TITLES.get(name) or BUCKET_TITLES[name], tuple(run.seconds(name) for run in study.runs)
        )
        for name in names
    )
    marks = tuple(
        TrendMark(change.at, change_size(change.ratio), "bad" if change.ratio > 1 else "good")
        for change in study.changes
    )
    return Trend(tuple(map(when, study.runs)), lines, marks)


def _parts(study: History) -> list[int]:
    """Positions of the buckets that matter in some run."""
    return [
        at
        for at in range(len(RUN_BUCKETS))
        if any(run.buckets[at] > _SHOWN * run.wall_s for run in study.runs)
    ]


def _changes(study: History) -> Table:
    columns = (
        Column("since", "text"),
        Column("change", "pid"),
        Column("before", "seconds"),
        Column("behind", "seconds"),
        Column("verdict", "text"),
        Column("revision", "text", 1),
        Column("first run", "path", 2),
        Column("p", "pid", 3),
    )
    rows = []
    for change in study.changes:
        run = study.runs[change.at]
        kind = f" ({change.kind})" if change.kind else ""
        rows.append(
            Row(
                (
                    when(run),
                    change_size(change.ratio),
                    change.before_s,
                    change.after_s,
                    f"{change.cause}{kind}",
                    _revision(run),
                    run.files[0],
                    f"{change.p_value:.2g}",
                ),
                tone="bad" if change.ratio > 1 else "good",
            )
        )
    note = (
        f"Medians of the {METRIC_TITLES[study.metric]} from one change to the next. E-divisive with permutation "
        f"tests; changes below {units.share(study.least_change)} are not listed."
    )
    return Table(columns, tuple(rows), note).without_empty()


def _revision(run: HistoryRun) -> str:
    return run.revision[:10] + ("+" if run.revision and run.dirty else "")


def _runs(study: History, limit: int) -> Table:
    parts = _parts(study)
    columns = (
        Column("started", "text"),
        Column("wall", "seconds"),
        *(Column(BUCKET_TITLES[RUN_BUCKETS[at]], "seconds", 2) for at in parts),
        Column("iteration", "seconds", 1),
        Column("lacked", "text", 1),
        Column("revision", "text", 3),
        Column("file", "path"),
    )
    shown = list(reversed(study.runs))[: limit or None]
    changed = {change.at for change in study.changes}
    first = len(study.runs) - 1
    rows = tuple(
        Row(
            (
                when(run),
                run.wall_s,
                *(run.buckets[at] for at in parts),
                run.iteration_s,
                run.kind or run.cause,
                _revision(run),
                run.files[0],
            ),
            marked=first - number in changed,
        )
        for number, run in enumerate(shown)
    )
    note = "● is the first run of a change." if changed else ""
    if len(shown) < len(study.runs):
        note = f"{note} {len(study.runs) - len(shown)} earlier runs are not listed.".strip()
    return Table(columns, rows, note).without_empty()
