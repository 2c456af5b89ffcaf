"""Answers of a store of many runs → `Document` or JSON: tables of what got slower, a trend, hosts, rows of SQL."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from profkit.fleet.hosts import FleetHost, Hosts
from profkit.fleet.query import Answer
from profkit.fleet.slowest import Slowest
from profkit.fleet.trend import FunctionTrend, Trends
from profkit.measure.changepoints import LEAST_RUNS
from profkit.report import units
from profkit.report.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Pair,
    Row,
    Section,
    Table,
    Trend,
    TrendLine,
    TrendMark,
    VerdictBlock,
)
from profkit.report.jsonvalues import json_text
from profkit.report.text import clean
from profkit.report.wording.histories import change_size


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What is asked of a fleet, answered."""

    study: Slowest | Trends | Hosts

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        study = self.study
        if isinstance(study, Slowest):
            return Document("profkit fleet slowest", _slowest(study, rows))
        if isinstance(study, Trends):
            return Document("profkit fleet trend", _trends(study, rows))
        return Document("profkit fleet hosts", _hosts(study, rows))

    def json(self, rows: int) -> str:
        """Return the JSON: all rows, whatever `rows` is."""
        question = {Slowest: "slowest", Trends: "trend", Hosts: "hosts"}[type(self.study)]
        return _dumped({"schema": "profkit.fleet/1", "question": question, **asdict(self.study)})


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """The rows of a query."""

    answer: Answer

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        shown = self.answer.rows[: rows or None]
        left = len(self.answer.rows) - len(shown)
        numbers = [
            all(isinstance(row[at], int | float | None) for row in shown)
            for at in range(len(self.answer.columns))
        ]
        columns = [
            Column(clean(name), "pid" if number else "path" if name in ("path", "file") else "name")
            for name, number in zip(self.answer.columns, numbers, strict=True)
        ]
        note = f"{left:,} more rows: --limit 0 prints all." if left else ""
        table = Table(tuple(columns), tuple(Row(tuple(map(_cell, row))) for row in shown), note)
        return Document("profkit fleet query", (Section("", (table,)),))

    def json(self, rows: int) -> str:
        """Return an array of one object for each row."""
        names = self.answer.columns
        return _dumped([dict(zip(names, row, strict=True)) for row in self.answer.rows])

    def csv(self) -> str:
        """Return lines of comma-separated values under their names; what is not known is empty."""
        found = io.StringIO()
        writer = csv.writer(found, lineterminator="\n")
        writer.writerow(self.answer.columns)
        writer.writerows(self.answer.rows)
        return found.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))


def _dumped(value: Any) -> str:
    return json.dumps(_plain(value), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return what JSON holds: what is not known is null, a function an object."""
    if isinstance(value, dict):
        return {json_text(str(key)): _plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else json_text(str(value))


def _first(rows: Sequence[Row], limit: int, what: str, note: str = "") -> tuple[tuple[Row, ...], str]:
    """Return the rows that are shown, and the note with how many are not."""
    shown = tuple(rows[: limit or None])
    left = f"{len(rows) - len(shown)} more {what}: --limit 0 lists all." if len(shown) < len(rows) else ""
    return shown, f"{note} {left}".strip()


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _seconds(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _slowest(study: Slowest, limit: int) -> tuple[Section, ...]:
    about = f"{_counted(study.runs, 'run')} on {_counted(study.days, 'day')}, {study.series:,} functions followed."
    if study.outliers:
        about += f" {_counted(len(study.outliers), 'single run')} took longer than those around."
    named = [
        _counted(len(several), what)
        for what, several in (("job", study.jobs), ("function", study.functions))
        if several
    ]
    if named:
        verdict = VerdictBlock(f"Slower for good: {' and '.join(named)}", about, "bad")
    elif study.days < 2 * LEAST_RUNS:
        least = f"A lasting change needs {LEAST_RUNS} days on each side."
        verdict = VerdictBlock("Too few days to find a change", f"{about} {least}", "unsure")
    else:
        verdict = VerdictBlock("Nothing got slower for good", about, "good")
    sections = [Section("", (verdict,))]
    if study.jobs:
        columns: tuple[Column, ...] = (
            Column("job", "name"),
            Column("since", "text"),
            Column("wall", "seconds"),
            Column("change", "pid"),
            Column("most of it in", "name", 1),
        )
        rows, note = _first(
            [
                Row(
                    (
                        job.job,
                        job.since,
                        Pair(job.before_s, job.after_s),
                        change_size(job.after_s / job.before_s),
                        next((f.key.qualname for f in study.functions if f.job == job.job), ""),
                    ),
                    tone="bad",
                )
                for job in sorted(study.jobs, key=lambda job: job.before_s / job.after_s)
            ],
            limit,
            "jobs",
        )
        sections.append(Section("Jobs", (Table(columns, rows, note),), role="account"))
    if study.functions:
        columns = (
            Column("job", "name"),
            Column("function", "name"),
            Column("since", "text"),
            Column("self time", "seconds"),
            Column("calls", "factor", 2),
            Column("per call", "factor", 1),
            Column("of the job", "share"),
            Column("where", "path", 3),
        )
        rows, note = _first(
            [
                Row(
                    (
                        f.job,
                        clean(f.key.qualname),
                        f.since,
                        Pair(f.before_s, f.after_s),
                        _seconds(f.calls),
                        _seconds(f.per_call),
                        f.share,
                        clean(f.key.path),
                    )
                )
                for f in study.functions
            ],
            limit,
            "functions",
            "Medians of a day's runs, before and since. What all functions of a day have in common is left out.",
        )
        sections.append(Section("Functions", (Table(columns, rows, note),), role="functions"))
    if study.outliers:
        columns = (
            Column("job", "name"),
            Column("day", "text"),
            Column("wall", "seconds"),
            Column("usual", "seconds"),
            Column("queued", "share", 1),
            Column("host", "text", 2),
            Column("file", "path"),
        )
        rows, note = _first(
            [
                Row((run.job, run.day, run.wall_s, run.usual_s, run.queued, clean(run.host), clean(run.path)))
                for run in study.outliers
            ],
            limit,
            "runs",
            "Longer than other runs of the two weeks around by more than these scatter.",
        )
        sections.append(Section("Single runs", (Table(columns, rows, note).without_empty(),)))
    if study.functions:
        first = study.functions[0]
        words = [
            ["profkit", "fleet", "trend", first.key.qualname, "--job", first.job],
            ["profkit", "fleet", "compare", f"{first.job}@last-month", first.job],
        ]
        sections.append(
            Section(
                "What to do next", (Bullets(tuple(map(shlex.join, words)), commands=True),), role="advice"
            )
        )
    return tuple(sections)


def _trends(study: Trends, limit: int) -> tuple[Section, ...]:
    first = study.trends[0]
    name = clean(first.key.qualname)
    days = f"{_counted(sum(first.runs), 'run')} of {first.job} on {_counted(len(first.days), 'day')}, "
    days += " to ".join(dict.fromkeys((first.days[0], first.days[-1]))) + "."
    last = max(first.shifts, key=lambda shift: shift.since, default=None)
    if last is None and len(first.days) < 2 * LEAST_RUNS:
        least = f"A change needs {LEAST_RUNS} days on each side."
        verdict = VerdictBlock(f"Too few days to find a change of {name}", f"{days} {least}", "unsure")
    elif last is None:
        verdict = VerdictBlock(f"No change of {name}", days, "good")
    else:
        worse = last.after > last.before
        size = change_size(last.after / last.before)
        head = f"{name}: {'more' if worse else 'less'} since {last.since}, {last.what} {size}"
        verdict = VerdictBlock(head, days, "bad" if worse else "good")
    sections = [Section("", (verdict,)), Section("Trend", (_lines(first),), role="account")]
    if first.shifts:
        columns: tuple[Column, ...] = (
            Column("since"),
            Column("of"),
            Column("before", "pid"),
            Column("behind", "pid"),
            Column("change", "pid"),
        )
        rows = tuple(
            Row(
                (
                    shift.since,
                    shift.what,
                    *(_size(shift.what, value) for value in (shift.before, shift.after)),
                    change_size(shift.after / shift.before),
                ),
                tone="bad" if shift.after > shift.before else "good",
            )
            for shift in first.shifts
        )
        note = "Medians from one change to the next. E-divisive with permutation tests."
        sections.append(Section("Changes", (Table(columns, rows, note),), role="evidence"))
    columns = (
        Column("job", "name"),
        Column("function", "name"),
        Column("days", "count"),
        Column("self time of a run", "seconds"),
        Column("share", "share"),
        Column("where", "path"),
    )
    if len(study.trends) > 1:
        rows, note = _first([_also(trend) for trend in study.trends[1:]], limit, "functions", "Latest day.")
        sections.append(Section("Also called so", (Table(columns, rows, note),), detail=True))
    return tuple(sections)


def _size(what: str, value: float) -> str:
    return units.share(value) if what == "share" else units.seconds(value)


def _also(trend: FunctionTrend) -> Row:
    key = trend.key
    cells: tuple[Cell, ...] = (trend.job, clean(key.qualname), len(trend.days), trend.self_s[-1])
    return Row((*cells, _seconds(trend.share[-1]), clean(key.path)))


def _lines(trend: FunctionTrend) -> Trend:
    titles = (
        ("a call", trend.per_call_s, "seconds"),
        ("a run", trend.self_s, "seconds"),
        ("share", trend.share, "share"),
    )
    lines = tuple(
        TrendLine(title, tuple(map(_seconds, values)), kind)
        for title, values, kind in titles
        if any(map(math.isfinite, values))
    )
    marks = tuple(
        TrendMark(
            trend.days.index(s.since),
            change_size(s.after / s.before),
            "bad" if s.after > s.before else "good",
        )
        for s in trend.shifts
    )
    return Trend(trend.days, lines, marks, points="days")


def _hosts(study: Hosts, limit: int) -> tuple[Section, ...]:
    odd = [host for host in study.hosts if host.slower or host.starved]
    jobs = {host.job for host in study.hosts}
    names = {host.host for host in study.hosts}
    about = f"{_counted(len(names), 'host')}, {_counted(len(jobs), 'job')}, each job by itself."
    if odd:
        found = {what: {h.host for h in odd if getattr(h, what)} for what in ("slower", "starved")}
        listed = ", ".join(f"{len(hosts)} {what}" for what, hosts in found.items() if hosts)
        verdict = VerdictBlock(f"Hosts out of line: {listed}", about, "bad")
    else:
        verdict = VerdictBlock("No host is out of line", about, "good")
    columns = (
        Column("host", "text"),
        Column("job", "name"),
        Column("is", "text"),
        Column("runs", "count"),
        Column("same work", "factor"),
        Column("wall", "factor", 2),
        Column("queued", "share"),
        Column("yardsticks", "factor", 1),
    )
    rows, note = _first(
        [_host(host) for host in study.hosts],
        limit,
        "rows",
        "Times over the median of the job's hosts: of a call, without queueing where that was measured, and of "
        "walls. slower, starved: beyond the median by four deviations (MAD), from four hosts on.",
    )
    return (
        Section("", (verdict,)),
        Section("Hosts", (Table(columns, rows, note).without_empty(),), role="account"),
    )


def _host(host: FleetHost) -> Row:
    told = " ".join(what for what in ("slower", "starved") if getattr(host, what))
    figures = (host.runs, host.work, host.wall, host.queued, host.yardsticks)
    return Row((clean(host.host), host.job, told, *figures), tone="bad" if told else "")
