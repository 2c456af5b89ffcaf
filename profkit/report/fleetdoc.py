"""Answers from a fleet's store → `Document` or JSON: what got slower, trends, hosts, query rows."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from profkit.fleet.hosts import LEAST_HOSTS, FleetHost, Hosts
from profkit.fleet.query import Answer
from profkit.fleet.slowest import FunctionTrend, Slowest, Trends
from profkit.measure.changepoints import LEAST_RUNS
from profkit.report import units
from profkit.report.document import (
    Bullets,
    Document,
    Pair,
    Section,
    Trend,
    TrendLine,
    VerdictBlock,
    laid_out,
)
from profkit.report.jsonvalues import dumps, json_number, plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.report.wording.runs import change_mark, change_size


@dataclass(frozen=True, slots=True)
class FleetReport:
    study: Slowest | Trends | Hosts

    def document(self, rows: int) -> Document:
        question, sections = _ANSWERS[type(self.study)]
        return laid_out(f"profkit fleet {question}", *sections(self.study, rows))

    def json(self, rows: int) -> str:
        question, _ = _ANSWERS[type(self.study)]
        return dumps({"schema": "profkit.fleet/1", "question": question, **plain(self.study)})


@dataclass(frozen=True, slots=True)
class AnswerReport:
    answer: Answer

    def first(self, rows: int) -> AnswerReport:
        """Return a report of at most `rows` rows (0: all)."""
        return AnswerReport(replace(self.answer, rows=self.answer.rows[: rows or None]))

    def document(self, rows: int) -> Document:
        listed = Listed(self.answer.rows, rows, left_out="{left:,} more rows: --limit 0 prints all.")

        def column(at: int, name: str) -> Of[tuple[Any, ...]]:
            number = all(isinstance(row[at], int | float | None) for row in listed.shown)
            kind = "pid" if number else "path" if name in ("path", "file") else "name"
            return Of(clean(name), lambda row: _cell(row[at]), kind)

        table = listed.table(*starmap(column, enumerate(self.answer.columns)))
        return Document("profkit fleet query", (Section("", (table,)),))

    def json(self, rows: int) -> str:
        names = self.answer.columns
        return dumps([plain(dict(zip(names, row, strict=True))) for row in self.answer.rows])

    def csv(self) -> str:
        """Return comma-separated values under a heading; unknown values are empty."""
        found = io.StringIO()
        writer = csv.writer(found, lineterminator="\n")
        writer.writerow(self.answer.columns)
        writer.writerows(self.answer.rows)
        return found.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else clean(str(value))


def _slowest(study: Slowest, limit: int) -> tuple[Section, ...]:
    runs, days = units.counted(study.runs, "run"), units.counted(study.days, "day")
    about = f"{runs} on {days}, {study.series:,} functions followed."
    if study.outliers:
        about += f" {units.counted(len(study.outliers), 'single run')} took longer than their neighbours."
    named = [
        units.counted(len(several), what)
        for what, several in (("job", study.jobs), ("function", study.functions))
        if several
    ]
    if named:
        verdict = VerdictBlock(f"Lasting slow-down: {' and '.join(named)}", about, "bad")
    elif study.days < 2 * LEAST_RUNS:
        least = f"A lasting change needs {LEAST_RUNS} days on each side."
        verdict = VerdictBlock("Too few days to find a change", f"{about} {least}", "unsure")
    else:
        verdict = VerdictBlock("No lasting slow-down", about, "good")
    most_in = {f.job: f.key.qualname for f in reversed(study.functions)}
    jobs = sorted(study.jobs, key=lambda job: job.before_s / job.after_s)
    of_jobs = Listed(jobs, limit, "jobs").table(
        Of("job", lambda job: job.job, "name"),
        Of("since", lambda job: job.since),
        Of("wall", lambda job: Pair(job.before_s, job.after_s), "seconds"),
        Of("change", lambda job: change_size(job.after_s / job.before_s), "pid"),
        Of("most of it in", lambda job: clean(most_in.get(job.job, "")), "name", 1),
        tone=lambda _: "bad",
    )
    of_functions = Listed(study.functions, limit, "functions").table(
        Of("job", lambda f: f.job, "name"),
        Of("function", lambda f: clean(f.key.qualname), "name"),
        Of("since", lambda f: f.since),
        Of("self time", lambda f: Pair(f.before_s, f.after_s), "seconds"),
        Of("calls", lambda f: json_number(f.calls), "factor", 2),
        Of("per call", lambda f: json_number(f.per_call), "factor", 1),
        Of("of the job", lambda f: f.share, "share"),
        Of("where", lambda f: clean(f.key.path), "path", 3),
        notes=("Medians of a day's runs, before and since. Changes common to all functions are left out.",),
    )
    of_runs = Listed(study.outliers, limit, "runs").table(
        Of("job", lambda run: run.job, "name"),
        Of("day", lambda run: run.day),
        Of("wall", lambda run: run.wall_s, "seconds"),
        Of("usual", lambda run: run.usual_s, "seconds"),
        Of("queued", lambda run: run.queued, "share", 1),
        Of("host", lambda run: clean(run.host), "text", 2),
        Of("file", lambda run: clean(run.path), "path"),
        notes=("Longer than other runs of the surrounding two weeks, beyond their scatter.",),
    )
    words = [
        command
        for first in study.functions[:1]
        for command in (
            ["profkit", "fleet", "trend", first.key.qualname, "--job", first.job],
            ["profkit", "fleet", "compare", f"{first.job}@last-month", first.job],
        )
    ]
    return (
        Section("", (verdict,)),
        Section("Jobs", (of_jobs,), role="account"),
        Section("Functions", (of_functions,), role="functions"),
        Section("Single runs", (of_runs,)),
        Section("What to do next", (Bullets(tuple(map(shlex.join, words)), commands=True),), role="advice"),
    )


def _trends(study: Trends, limit: int) -> tuple[Section, ...]:
    first = study.trends[0]
    name = clean(first.key.qualname)
    days = (
        f"{units.counted(sum(first.runs), 'run')} of {first.job} on {units.counted(len(first.days), 'day')}, "
    )
    days += " to ".join(dict.fromkeys((first.days[0], first.days[-1]))) + "."
    last = max(first.shifts, key=lambda shift: shift.since, default=None)
    if last is None and len(first.days) < 2 * LEAST_RUNS:
        least = f"A change needs {LEAST_RUNS} days on each side."
        verdict = VerdictBlock(f"Too few days to find a change in {name}", f"{days} {least}", "unsure")
    elif last is None:
        verdict = VerdictBlock(f"No change in {name}", days, "good")
    else:
        worse = last.after > last.before
        size = change_size(last.after / last.before)
        head = f"{name}: {'more' if worse else 'less'} since {last.since}, {last.what} {size}"
        verdict = VerdictBlock(head, days, "bad" if worse else "good")
    changes = Listed(first.shifts).table(
        Of("since", lambda shift: shift.since),
        Of("of", lambda shift: shift.what),
        Of("before", lambda shift: _size(shift.what, shift.before), "pid"),
        Of("after", lambda shift: _size(shift.what, shift.after), "pid"),
        Of("change", lambda shift: change_size(shift.after / shift.before), "pid"),
        notes=("Medians from one change to the next. E-divisive with permutation tests.",),
        tone=lambda shift: "bad" if shift.after > shift.before else "good",
    )
    also = Listed(study.trends[1:], limit, "functions").table(
        Of("job", lambda trend: trend.job, "name"),
        Of("function", lambda trend: clean(trend.key.qualname), "name"),
        Of("days", lambda trend: len(trend.days), "count"),
        Of("self time of a run", lambda trend: trend.self_s[-1], "seconds"),
        Of("share", lambda trend: json_number(trend.share[-1]), "share"),
        Of("where", lambda trend: clean(trend.key.path), "path"),
        notes=("Latest day.",),
    )
    return (
        Section("", (verdict,)),
        Section("Trend", (_lines(first),), role="account"),
        Section("Changes", (changes,), role="evidence"),
        Section("Also of this name", (also,), detail=True),
    )


def _size(what: str, value: float) -> str:
    return units.share(value) if what == "share" else units.seconds(value)


def _lines(trend: FunctionTrend) -> Trend:
    titles = (
        ("a call", trend.per_call_s, "seconds"),
        ("a run", trend.self_s, "seconds"),
        ("share", trend.share, "share"),
    )
    lines = tuple(
        TrendLine(title, tuple(map(json_number, values)), kind)
        for title, values, kind in titles
        if any(map(math.isfinite, values))
    )
    marks = []
    for shift in trend.shifts:
        mark = change_mark(trend.days.index(shift.since), shift.after / shift.before)
        marks.append(replace(mark, text=f"{shift.what} {mark.text}"))
    return Trend(trend.days, lines, tuple(marks), points="days")


def _hosts(study: Hosts, limit: int) -> tuple[Section, ...]:
    odd = [host for host in study.hosts if host.slower or host.starved]
    jobs = {host.job for host in study.hosts}
    names = {host.host for host in study.hosts}
    about = f"{units.counted(len(names), 'host')}, {units.counted(len(jobs), 'job')}, compared by job."
    if odd:
        found = {what: {h.host for h in odd if getattr(h, what)} for what in ("slower", "starved")}
        listed = ", ".join(f"{len(hosts)} {what}" for what, hosts in found.items() if hosts)
        verdict = VerdictBlock(f"Hosts out of line: {listed}", about, "bad")
    elif max(Counter(host.job for host in study.hosts).values(), default=0) < LEAST_HOSTS:
        least = f"A comparison needs at least {LEAST_HOSTS} hosts of a job."
        verdict = VerdictBlock("Too few hosts to compare", f"{about} {least}", "unsure")
    else:
        verdict = VerdictBlock("No host is out of line", about, "good")
    table = Listed(study.hosts, limit, "rows").table(
        Of("host", lambda host: clean(host.host)),
        Of("job", lambda host: host.job, "name"),
        Of("is", _is),
        Of("runs", lambda host: host.runs, "count"),
        Of("same work", lambda host: host.work, "factor"),
        Of("wall", lambda host: host.wall, "factor", 2),
        Of("queued", lambda host: host.queued, "share"),
        Of("fixed work", lambda host: host.yardsticks, "factor", 1),
        notes=(_HOSTS_NOTE,),
        tone=lambda host: "bad" if _is(host) else "",
    )
    return (Section("", (verdict,)), Section("Hosts", (table,), role="account"))


_HOSTS_NOTE = (
    "Ratios to the median of the job's hosts: time per call (without queueing, where measured) and wall "
    "time. slower, starved: four deviations (MAD) beyond the median; needs four hosts."
)


def _is(host: FleetHost) -> str:
    return " ".join(what for what in ("slower", "starved") if getattr(host, what))


#: The question that a study answers, and its sections.
_ANSWERS: Mapping[type, tuple[str, Callable[[Any, int], tuple[Section, ...]]]] = {
    Slowest: ("slowest", _slowest),
    Trends: ("trend", _trends),
    Hosts: ("hosts", _hosts),
}
