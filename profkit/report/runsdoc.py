"""Many runs → `Document` or JSON: configurations, the history of a job, processes and nodes."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from profkit.report import units
from profkit.report.document import (
    Bullets,
    Document,
    HeatCell,
    HeatMap,
    Section,
    Table,
    Trend,
    TrendLine,
    laid_out,
)
from profkit.report.jsonvalues import dumps, json_number, members, next_command, plain
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.wording.accounts import BUCKET_TITLES, shown_buckets
from profkit.report.wording.runs import (
    METRIC_TITLES,
    change_mark,
    change_size,
    comparisons_notes,
    comparisons_verdict,
    configuration_text,
    history_notes,
    history_verdict,
    judged_text,
    place_name,
    scaling_verdict,
    slowdown_text,
    when,
)
from profkit.study.compare import Compared, Comparisons
from profkit.study.history import Change, History
from profkit.study.run_facts import RunFacts
from profkit.study.scaling import Scaling
from profkit.verdict.account import RUN_BUCKETS


@dataclass(frozen=True, slots=True)
class ComparisonsReport:
    study: Comparisons

    def document(self, rows: int) -> Document:
        study = _with_short_names(self.study)
        slower = [row for row in study.rows if row.slowdown.value > 1 and row.cause not in ("", "no-change")]
        worst = sorted(slower, key=lambda row: -row.slowdown.value)[:1]
        commands = tuple(shlex.join(words) for row in worst if (words := _reason_command(study, row)))
        return laid_out(
            "profkit compare",
            Section("", (comparisons_verdict(study),)),
            Section("Runs", (_compared(study),), role="evidence"),
            Section("Where the time goes", (_parts_of_walls(study),), role="account"),
            Section("Notes", (Bullets((*comparisons_notes(study), *notice_texts(study.notices))),)),
            Section("What to do next", (Bullets(commands, commands=True),), role="advice"),
        )

    def json(self, rows: int) -> str:
        study = self.study
        return dumps(
            {
                "schema": "profkit.compare/1",
                **members(
                    study,
                    "reference best spread rows notices",
                    rows=[_compared_object(study, r) for r in study.rows],
                ),
            }
        )


def _ends(paths: Iterable[str]) -> dict[str, str]:
    """Return the least end of each path that no other has, in whole names: it fits tables."""
    parts = {path: path.rstrip("/").split("/") for path in paths}
    ends = {path: ["/".join(names[-n:]) for n in range(1, len(names))] for path, names in parts.items()}
    counts = Counter(end for each in ends.values() for end in each)
    return {path: next((end for end in each if counts[end] == 1), path) for path, each in ends.items()}


def _with_short_names(study: Comparisons) -> Comparisons:
    known = [row.configuration for row in study.rows]
    ends = _ends(one.argument for one in known)
    named = (replace(one, argument=ends[one.argument]) for one in known)
    return replace(
        study,
        rows=tuple(replace(row, configuration=name) for row, name in zip(study.rows, named, strict=True)),
    )


def _compared_object(study: Comparisons, row: Compared) -> dict[str, object]:
    command = [] if row is study.rows[study.reference] else _reason_command(study, row)
    return members(
        row,
        "name files runs failed wall_s=median_s wall_low_s=low_s wall_high_s=high_s account iteration_s "
        "slowdown=slowdown.value slowdown_low=slowdown.low slowdown_high=slowdown.high cause? kind? confidence "
        "fastest next_commands",
        name=configuration_text(row.configuration),
        account=dict(zip(RUN_BUCKETS, row.buckets, strict=True)),
        next_commands=[next_command(command, "why its time differs")] if command else [],
    )


def _reason_command(study: Comparisons, row: Compared) -> list[str]:
    """Return the comparison of a row with the reference, empty if one of them cannot be named."""
    named = [study.rows[study.reference].named, row.named]
    return ["profkit", "diff", *named] if all(named) else []


def _compared(study: Comparisons) -> Table:
    reference = study.rows[study.reference]
    fastest = sum(row.fastest for row in study.rows)
    note = "● is the fastest" + (", or cannot be told apart from it by these runs." if fastest > 1 else ".")
    return Listed(study.rows).table(
        Of("run", lambda row: configuration_text(row.configuration)),
        Of("wall", lambda row: row.median_s, "seconds"),
        Of("95 % interval", lambda row: units.interval(row.low_s, row.high_s), "text", 3),
        Of("factor", lambda row: row.slowdown.value, "factor"),
        Of("iterations/s", lambda row: f"{1 / row.iteration_s:.4g}" if row.iteration_s else None, "pid", 2),
        Of("verdict", lambda row: "reference" if row is reference else judged_text(row), "text", 1),
        Of("runs", lambda row: row.runs, "count", 5),
        notes=(note if fastest else "",),
        marked=lambda row: row.fastest,
    )


def _parts_of_walls(study: Comparisons) -> HeatMap:
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
        "Parts of the wall, medians. The warmer a cell, the more seconds it has than the row with the least.",
    )


@dataclass(frozen=True, slots=True)
class HistoryReport:
    study: History

    def document(self, rows: int) -> Document:
        study = self.study
        commands = tuple(shlex.join(_change_command(change)) for change in reversed(study.changes))
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
        runs = [_run_object(run) for run in study.runs]
        changes = [_change_object(study, change) for change in study.changes]
        names = "metric least_change spread runs changes failed other_commands=others notices"
        return dumps({"schema": "profkit.history/1", **members(study, names, runs=runs, changes=changes)})


def _run_object(run: RunFacts) -> dict[str, object]:
    return members(
        run,
        "files started revision? dirty wall_s own_s iteration_s account cause? kind?",
        own_s=run.seconds("own"),
        account=dict(zip(RUN_BUCKETS, run.buckets, strict=True)),
    )


def _change_object(study: History, change: Change) -> dict[str, object]:
    return members(
        change,
        "at started before_s=before after_s=after ratio p_value cause kind? confidence next_commands",
        started=plain(study.runs[change.at].started),
        next_commands=[next_command(_change_command(change), "what changed there")],
    )


def _change_command(change: Change) -> list[str]:
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
    marks = tuple(change_mark(change.at, change.ratio) for change in study.changes)
    return Trend(tuple(map(when, study.runs)), lines, marks)


def _parts(study: History) -> list[int]:
    return shown_buckets((run.buckets, run.wall_s) for run in study.runs)


def _changes(study: History) -> Table:
    runs = study.runs
    ends = _ends(run.files[0] for run in runs)
    note = (
        f"Medians of the {METRIC_TITLES[study.metric]} from one change to the next. E-divisive with permutation "
        f"tests; changes below {units.share(study.least_change)} are not listed."
    )
    return Listed(study.changes).table(
        Of("since", lambda change: when(runs[change.at])),
        Of("change", lambda change: change_size(change.ratio), "pid"),
        Of("before", lambda change: change.before, "seconds"),
        Of("after", lambda change: change.after, "seconds"),
        Of("verdict", judged_text),
        Of("revision", lambda change: _revision(runs[change.at]), "text", 1),
        Of("first run", lambda change: ends[runs[change.at].files[0]], "path", 2),
        Of("p", lambda change: f"{change.p_value:.2g}", "pid", 3),
        notes=(note,),
        tone=lambda change: "bad" if change.ratio > 1 else "good",
    )


def _revision(run: RunFacts) -> str:
    return run.revision[:10] + ("+" if run.revision and run.dirty else "")


def _runs(study: History, limit: int) -> Table:
    changed = [study.runs[change.at] for change in study.changes]
    ends = _ends(run.files[0] for run in study.runs)

    def part(at: int) -> Of[RunFacts]:
        return Of(BUCKET_TITLES[RUN_BUCKETS[at]], lambda run: run.buckets[at], "seconds", 2)

    return Listed(reversed(study.runs), limit, left_out="{left} earlier runs are not listed.").table(
        Of("started", when),
        Of("wall", lambda run: run.wall_s, "seconds"),
        *map(part, _parts(study)),
        Of("iteration", lambda run: run.iteration_s, "seconds", 1),
        Of("lacked", lambda run: run.kind or run.cause, "text", 1),
        Of("revision", _revision, "text", 3),
        Of("file", lambda run: ends[run.files[0]], "path"),
        notes=("● is the first run of a change." if changed else "",),
        marked=lambda run: any(run is first for first in changed),
    )


#: Least ratio to the best that gets the worst colour of the heat map.
LEAST_SCALE = 1.5


@dataclass(frozen=True, slots=True)
class ScalingReport:
    study: Scaling

    def document(self, rows: int) -> Document:
        study = self.study
        slowdowns = [slowdown_text(study, slow) for slow in study.slowdowns]
        return laid_out(
            "profkit scaling",
            Section("", (scaling_verdict(study),)),
            Section("Time by processes and nodes", _times_by_place(study), role="account"),
            Section("Scaling", (_places(study),), role="account"),
            Section("Notes", (Bullets((*slowdowns, *notice_texts(study.notices))),)),
        )

    def json(self, rows: int) -> str:
        names = "weak spread places slowdowns notices"
        return dumps({"schema": "profkit.scaling/1", **members(self.study, names)})


def _slower(study: Scaling) -> set[str]:
    return {place_name(study.places[slow.more]) for slow in study.slowdowns}


def _places(study: Scaling) -> Table:
    slower = _slower(study)
    note = "Parallel efficiency = load balance × communication efficiency; global = parallel × computation scaling."
    return Listed(study.places).table(
        Of("processes", lambda place: place.processes, "count"),
        Of("nodes", lambda place: place.nodes, "count"),
        Of("time", lambda place: place.median_s, "seconds"),
        Of("95 % interval", lambda place: units.interval(place.low_s, place.high_s), "text", 3),
        Of("speed-up", lambda place: json_number(place.speedup), "factor"),
        Of("ideal", lambda place: place.ideal, "factor", 4),
        Of("global eff.", lambda place: json_number(place.whole), "share", 2),
        Of("parallel", lambda place: json_number(place.parallel), "share", 1),
        Of("balance", lambda place: json_number(place.balance), "share", 1),
        Of("commun.", lambda place: json_number(place.communication), "share", 1),
        Of("comp. scaling", lambda place: json_number(place.computation), "share", 2),
        Of("runs", lambda place: place.runs, "count", 5),
        notes=(note, "● is slower than runs with fewer processes or nodes." if slower else ""),
        marked=lambda place: place_name(place) in slower,
        tone=lambda place: "bad" if place_name(place) in slower else "",
    )


def _times_by_place(study: Scaling) -> tuple[HeatMap, ...]:
    processes = sorted({place.processes for place in study.places})
    nodes = sorted({place.nodes for place in study.places})
    if len(processes) < 2 or len(nodes) < 2:
        return ()
    at = {(place.processes, place.nodes): place for place in study.places}
    slower = _slower(study)
    medians = [place.median_s for place in study.places]
    least, scale = min(medians), math.log(max(max(medians) / min(medians), LEAST_SCALE))

    def cell(p: int, n: int) -> HeatCell:
        place = at.get((p, n))
        if place is None:
            return HeatCell("")
        heat = math.log(place.median_s / least) / scale
        return HeatCell(units.seconds(place.median_s), heat, place_name(place) in slower)

    note = "Median times; ● is slower than with fewer." if slower else "Median times."
    rows = tuple((str(p), tuple(cell(p, n) for n in nodes)) for p in processes)
    return (HeatMap("processes ↓  nodes →", tuple(map(str, nodes)), rows, note),)
