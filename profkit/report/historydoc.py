"""`History` → `Document` or JSON: the trend of a repeated job, and lasting changes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import Bullets, Document, Section, Table, Trend, TrendLine, TrendMark, laid_out
from profkit.report.jsonvalues import dumps, members, next_command, plain
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.wording.accounts import BUCKET_TITLES, shown_buckets
from profkit.report.wording.runs import (
    METRIC_TITLES,
    change_size,
    history_notes,
    history_verdict,
    judged_text,
    when,
)
from profkit.study.history import Change, History
from profkit.study.run_facts import RunFacts
from profkit.verdict.account import RUN_BUCKETS


@dataclass(frozen=True, slots=True)
class HistoryReport:
    study: History

    def document(self, rows: int) -> Document:
        study = self.study
        commands = tuple(shlex.join(_words(change)) for change in reversed(study.changes))
        return laid_out(
            "profkit history",
            Section("", (history_verdict(study),)),
            Section("Trend", (_trend(study),), role="account"),
            Section("Changes", (_changes(study),), role="evidence"),
            Section("Runs, latest first", (_runs(study, rows),), detail=True),
            Section("Notes", (Bullets((*history_notes(study), *notice_texts(study.notices))),)),
            Section("What to do next", (Bullets(commands, commands=True),), role="advice"),
        )

    def json(self, rows: int) -> str:
        study = self.study
        runs = [_run(run) for run in study.runs]
        changes = [_change(study, change) for change in study.changes]
        names = "metric least_change spread runs changes failed other_commands=others notices"
        return dumps({"schema": "profkit.history/1", **members(study, names, runs=runs, changes=changes)})


def _run(run: RunFacts) -> dict[str, object]:
    return members(
        run,
        "files started revision? dirty wall_s own_s iteration_s account cause? kind?",
        own_s=run.seconds("own"),
        account=dict(zip(RUN_BUCKETS, run.buckets, strict=True)),
    )


def _change(study: History, change: Change) -> dict[str, object]:
    return members(
        change,
        "at started before_s=before after_s=after ratio p_value cause kind? confidence next_commands",
        started=plain(study.runs[change.at].started),
        next_commands=[next_command(_words(change), "what changed there")],
    )


def _words(change: Change) -> list[str]:
    return ["profkit", "diff", change.before_file, change.after_file]


def _trend(study: History) -> Trend:
    """Return the series that was searched for changes, then the wall, then the buckets that matter."""
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
    return shown_buckets((run.buckets, run.wall_s) for run in study.runs)


def _changes(study: History) -> Table:
    runs = study.runs
    note = (
        f"Medians of the {METRIC_TITLES[study.metric]} from one change to the next. E-divisive with permutation "
        f"tests; changes below {units.share(study.least_change)} are not listed."
    )
    return Listed(study.changes).table(
        Of("since", lambda change: when(runs[change.at])),
        Of("change", lambda change: change_size(change.ratio), "pid"),
        Of("before", lambda change: change.before, "seconds"),
        Of("behind", lambda change: change.after, "seconds"),
        Of("verdict", judged_text),
        Of("revision", lambda change: _revision(runs[change.at]), "text", 1),
        Of("first run", lambda change: runs[change.at].files[0], "path", 2),
        Of("p", lambda change: f"{change.p_value:.2g}", "pid", 3),
        notes=(note,),
        tone=lambda change: "bad" if change.ratio > 1 else "good",
    )


def _revision(run: RunFacts) -> str:
    return run.revision[:10] + ("+" if run.revision and run.dirty else "")


def _runs(study: History, limit: int) -> Table:
    changed = [study.runs[change.at] for change in study.changes]

    def part(at: int) -> Of[RunFacts]:
        return Of(BUCKET_TITLES[RUN_BUCKETS[at]], lambda run: run.buckets[at], "seconds", 2)

    return Listed(reversed(study.runs), limit, left_out="{left} earlier runs are not listed.").table(
        Of("started", when),
        Of("wall", lambda run: run.wall_s, "seconds"),
        *map(part, _parts(study)),
        Of("iteration", lambda run: run.iteration_s, "seconds", 1),
        Of("lacked", lambda run: run.kind or run.cause, "text", 1),
        Of("revision", _revision, "text", 3),
        Of("file", lambda run: run.files[0], "path"),
        notes=("● is the first run of a change." if changed else "",),
        marked=lambda run: any(run is first for first in changed),
    )
