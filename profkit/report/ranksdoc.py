"""`RankStudy` → `Document` or JSON: stragglers, functions by process, imbalance, efficiencies."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from profkit.model import FunctionKey
from profkit.report import units
from profkit.report.document import (
    Bullets,
    Column,
    Document,
    Facts,
    HeatCell,
    HeatMap,
    Pair,
    Row,
    Section,
    Table,
)
from profkit.report.notices import notice_objects, notice_text
from profkit.report.text import clean
from profkit.report.wording.functions import cut_note, display_name, location
from profkit.report.wording.ranks import KINDS, deviation_name, rank_notes, ranks_verdict
from profkit.study.ranks import LEAST_LISTED, Deviation, RankStudy, Straggler

#: Functions of the heat map, and most processes of it: those that deviate most.
HEAT_FUNCTIONS, HEAT_MEMBERS = 12, 16
#: Ratio to the median from which a cell of the heat map is as bad as it gets.
HEAT_MOST = 2.0
#: Processes that the table of orders has.
MOST_REORDERED = 4
#: Notices about files that are printed.
MOST_NOTICES = 5


@dataclass(frozen=True, slots=True)
class RanksReport:
    """The processes of a job."""

    study: RankStudy

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        study = self.study
        sections = [Section("", (ranks_verdict(study),))]
        if study.stragglers:
            sections.append(Section("Stragglers", (_stragglers(study, rows),), role="account"))
            where = _deviations(study, rows)
            if where.rows:
                sections.append(Section("Where they take longer", (where,), role="evidence"))
        if study.reordered:
            sections.append(
                Section("Processes with another order of functions", (_order(study),), role="evidence")
            )
        heat = _heat(study)
        if heat.rows:
            sections.append(Section("Functions by process", (heat,), role="evidence"))
        sections.append(
            Section("How evenly functions are spread", (_imbalance(study, rows),), role="evidence")
        )
        ranges = _ranges(study, rows)
        if ranges.rows:
            sections.append(Section("Ranges", (ranges,), role="evidence"))
        sections.append(Section("Efficiency", (_efficiency(study),), role="evidence"))
        sections.append(Section("Processes", (_members(study, rows),), detail=True))
        notes = [*rank_notes(study), *_notices(study)]
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        return Document(f"profkit ranks: {len(study.members)} processes", tuple(sections))

    def json(self, rows: int) -> str:
        """Return the JSON: `rows` limits the functions; all processes are listed."""
        return json.dumps(_json(self.study, rows), indent=1, allow_nan=False) + "\n"


def _label(study: RankStudy, member: int) -> str:
    return clean(study.members[member].label)


def _hosts(study: RankStudy) -> bool:
    return len({m.host for m in study.members}) > 1


def _stragglers(study: RankStudy, limit: int) -> Table:
    shown = study.stragglers[:limit] if limit else study.stragglers
    columns = (
        Column("process", "text"),
        Column("host", "text", 3),
        Column("it", "text", 1),
        Column("own time", "seconds"),
        Column("others", "seconds"),
        Column("CPU", "change", 1),
        Column("queued", "change", 2),
        Column("blocked", "change", 4),
        Column("waits", "seconds", 2),
        Column("others wait", "seconds", 3),
        Column("without it", "factor", 1),
    )

    def row(s: Straggler) -> Row:
        return Row(
            (
                _label(study, s.member),
                clean(study.members[s.member].host) if _hosts(study) else None,
                KINDS[s.kind],
                s.pace_s,
                s.usual_s,
                Pair(0.0, s.run_s),
                Pair(0.0, s.queue_s) if study.measured else None,
                Pair(0.0, s.blocked_s),
                s.waits_s if study.waiting_seen else None,
                s.usual_waits_s if study.waiting_seen else None,
                s.faster,
            ),
            marked=True,
            tone="bad",
        )

    note = "Own time is all but waiting for other processes, and imports; others: their median."
    cut = cut_note(len(shown), len(study.stragglers))
    return Table(columns, tuple(map(row, shown)), f"{note} {cut}".strip()).without_empty()


def _deviations(study: RankStudy, limit: int) -> Table:
    columns = (
        Column("process", "text"),
        Column("function", "name"),
        Column("where", "path", 2),
        Column("time", "seconds"),
        Column("others", "seconds", 1),
        Column("ratio", "factor"),
        Column("calls", "factor", 3),
        Column("z", "text", 4),
    )
    rows = [
        Row(
            (
                _label(study, s.member),
                deviation_name(d),
                "" if d.function is None else location(d.function, "", 0),
                d.value_s,
                d.usual_s,
                _ratio(d.value_s, d.usual_s),
                d.calls if math.isfinite(d.calls) else None,
                f"{d.z:.1f}",
            )
        )
        for s in study.stragglers
        for d in s.deviations
    ]
    shown = rows[:limit] if limit else rows
    return Table(columns, tuple(shown), cut_note(len(shown), len(rows))).without_empty()


def _ratio(value: float, usual: float) -> float | None:
    return value / usual if usual > 0 else None


def _chosen_members(study: RankStudy) -> list[int]:
    """Processes of the heat map, in their order: all, or those that deviate most."""
    n = len(study.members)
    if n <= HEAT_MEMBERS:
        return list(range(n))
    first = [s.member for s in study.stragglers[:HEAT_MEMBERS]]
    pace = np.array([m.pace_s for m in study.members])
    others = np.argsort(-np.abs(pace - np.median(pace)), kind="stable").tolist()
    return sorted(list(dict.fromkeys([*first, *others]))[:HEAT_MEMBERS])


def _heat(study: RankStudy) -> HeatMap:
    members = _chosen_members(study)
    n = len(study.members)
    columns = [item.column for item in study.imbalance]
    total = float(study.work.sum())
    large = [f for f in columns if study.work[:, f].sum() >= LEAST_LISTED * total][:HEAT_FUNCTIONS]
    ranked = all(study.members[i].rank is not None for i in members)
    titles = tuple(str(study.members[i].rank) if ranked else _label(study, i) for i in members)
    rows = []
    for f in large:
        usual = float(study.usual[f])
        cells = tuple(
            _heat_cell(float(study.work[i, f]), usual, marked=bool(study.outlying[i, f])) for i in members
        )
        rows.append((display_name(study.functions[f].qualname), cells))
    for title, name in (
        ("queueing", "queue_s"),
        ("off the CPU", "blocked_s"),
        ("waiting for others", "waits_s"),
    ):
        values = [getattr(m, name) for m in study.members]
        usual = float(np.median(values))
        if usual >= 0.01 * float(np.median([m.life_s for m in study.members])):
            good = name == "waits_s"
            rows.append(
                (
                    title,
                    tuple(
                        HeatCell(f"{values[i] / usual:.2f}", 0.0) if good else _heat_cell(values[i], usual)
                        for i in members
                    ),
                )
            )
    what = "CPU time" if study.measured else "Self time"
    note = f"{what} over the median of all processes; ● is beyond the noise."
    if n > len(members):
        note += f" The {len(members)} processes that deviate most, of {n:,}."
    across = "rank" if ranked else "process"
    return HeatMap(f"function ↓  {across} →", titles, tuple(rows), note)


def _heat_cell(value: float, usual: float, *, marked: bool = False) -> HeatCell:
    if usual <= 0:
        return HeatCell("–" if value <= 0 else "new", None if value <= 0 else 1.0, marked)
    ratio = value / usual
    heat = min(1.0, max(0.0, math.log(max(ratio, 1e-9)) / math.log(HEAT_MOST)))
    return HeatCell(f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}", heat, marked)


def _order(study: RankStudy) -> Table:
    columns = (
        Column("process", "text"),
        Column("elsewhere", "share", 2),
        Column("function", "name"),
        Column("usual place", "rank"),
        Column("its place", "rank"),
        Column("more", "change", 1),
    )
    rows = tuple(
        Row(
            (
                _label(study, one.member),
                one.elsewhere,
                display_name(place.function.qualname),
                place.usual,
                place.place,
                Pair(0.0, place.excess_s),
            )
        )
        for one in study.reordered[:MOST_REORDERED]
        for place in one.places
    )
    return Table(
        columns, rows, cut_note(min(MOST_REORDERED, len(study.reordered)), len(study.reordered), "processes")
    )


def _imbalance(study: RankStudy, limit: int) -> Table:
    shown = study.imbalance[:limit] if limit else study.imbalance
    columns = (
        Column("function", "name"),
        Column("where", "path", 3),
        Column("mean", "seconds", 1),
        Column("most", "seconds"),
        Column("max/mean", "factor"),
        Column("in", "text", 1),
        Column("rank of it", "text", 4),
    )
    rows = []
    for item in shown:
        key = study.functions[item.column]
        low, high = item.order
        rows.append(
            Row(
                (
                    display_name(key.qualname),
                    location(key, "", 0),
                    item.mean_s,
                    item.most_s,
                    item.factor,
                    _label(study, item.member),
                    f"{low}" if low == high else f"{low} – {high}",
                )
            )
        )
    note = "Most lost seconds (most − mean) first; calls that wait for other processes are left out."
    cut = cut_note(len(shown), len(study.imbalance))
    return Table(columns, tuple(rows), f"{note} {cut}".strip()).without_empty()


def _ranges(study: RankStudy, limit: int) -> Table:
    columns = (
        Column("range", "text"),
        Column("count", "count", 2),
        Column("median", "seconds"),
        Column("longest", "seconds"),
        Column("ratio", "factor"),
        Column("in", "text", 1),
        Column("waiting", "share", 3),
    )
    rows = []
    for row in study.ranges:
        known = [(r.median_s, i) for i, r in enumerate(row.of) if r is not None]
        usual = float(np.median([value for value, _ in known]))
        most, member = max(known)
        sums = [r for r in row.of if r is not None]
        waits = sum(r.waits_s for r in sums) / max(sum(r.total_s for r in sums), 1e-12)
        rows.append(
            (
                sum(r.total_s for r in sums),
                Row(
                    (
                        clean(row.name),
                        int(np.median([r.count for r in sums])),
                        usual,
                        most,
                        _ratio(most, usual),
                        _label(study, member),
                        waits if math.isfinite(waits) else None,
                    )
                ),
            )
        )
    rows.sort(key=lambda pair: -pair[0])
    shown = [row for _, row in rows][: limit or None]
    note = "Medians of their durations, warming up left out; waiting: for other processes, inside of them."
    return Table(columns, tuple(shown), f"{note} {cut_note(len(shown), len(rows))}".strip()).without_empty()


def _efficiency(study: RankStudy) -> Facts:
    e = study.efficiency
    return Facts(
        (
            ("parallel efficiency", f"{units.share(e.parallel)} = load balance × communication efficiency"),
            ("load balance", f"{units.share(e.balance)} (mean over greatest CPU time outside of waiting)"),
            (
                "communication efficiency",
                f"{units.share(e.communication)} (greatest CPU time over the run time)",
            ),
        )
    )


def _members(study: RankStudy, limit: int) -> Table:
    columns = (
        Column("process", "text"),
        Column("host", "text", 3),
        Column("local rank", "count", 6),
        Column("node", "count", 6),
        Column("own time", "seconds"),
        Column("CPU" if study.measured else "self", "seconds"),
        Column("queued", "seconds", 1),
        Column("blocked", "seconds", 2),
        Column("waits", "seconds", 1),
        Column("imports", "seconds", 5),
        Column("elsewhere", "share", 4),
    )
    pace = np.array([m.pace_s for m in study.members])
    order = np.argsort(-pace, kind="stable").tolist()
    shown = order[:limit] if limit else order
    stragglers = {s.member for s in study.stragglers}
    rows = []
    for i in shown:
        m = study.members[i]
        rows.append(
            Row(
                (
                    clean(m.label),
                    clean(m.host) if _hosts(study) else None,
                    m.local_rank,
                    m.node,
                    m.pace_s,
                    m.run_s,
                    m.queue_s if study.measured else None,
                    m.blocked_s,
                    m.waits_s if study.waiting_seen else None,
                    m.imports_s,
                    float(study.elsewhere[i]),
                ),
                marked=i in stragglers,
            )
        )
    note = "Most own time first. Elsewhere: the part of its time that sits in other functions than usual."
    cut = cut_note(len(shown), len(order))
    return Table(columns, tuple(rows), f"{note} {cut}".strip()).without_empty()


def _notices(study: RankStudy) -> list[str]:
    said = [clean(notice_text(notice)) for notice in study.notices]
    more = len(said) - MOST_NOTICES
    return [*said[:MOST_NOTICES], *([f"{more:,} more files were skipped (see JSON)."] if more > 0 else [])]


# JSON --------------------------------------------------------------------------------------------------------------


def _json(study: RankStudy, limit: int) -> dict[str, object]:
    e = study.efficiency
    columns = [item.column for item in study.imbalance]
    shown = study.imbalance[:limit] if limit else study.imbalance
    return {
        "schema": "profkit.ranks/1",
        "processes": [
            {
                "label": m.label,
                "file": m.path,
                "rank": m.rank,
                "local_rank": m.local_rank,
                "node": m.node,
                "host": m.host or None,
                "measured": m.measured,
                "life_s": m.life_s,
                "own_s": m.pace_s,
                "run_s": m.run_s,
                "queue_s": m.queue_s if m.measured else None,
                "blocked_s": m.blocked_s,
                "collects_s": m.collects_s,
                "collects_in": None if m.collects_in is None else _function_json(m.collects_in),
                "waits_s": m.waits_s,
                "imports_s": m.imports_s,
                "helpers_run_s": m.helpers_run_s,
                "elsewhere": float(study.elsewhere[i]),
            }
            for i, m in enumerate(study.members)
        ],
        "stragglers": [_straggler_json(study, s) for s in study.stragglers],
        "reordered": [
            {
                "process": one.member,
                "elsewhere": one.elsewhere,
                "functions": [
                    {
                        **_function_json(place.function),
                        "place": place.place,
                        "usual_place": place.usual,
                        "excess_s": place.excess_s,
                    }
                    for place in one.places
                ],
            }
            for one in study.reordered
        ],
        "slow_host": study.slow_host or None,
        "unclear": [
            {
                "process": move.member,
                "more": _function_json(move.more),
                "more_s": move.more_s,
                "less": _function_json(move.less),
                "less_s": move.less_s,
            }
            for move in study.moved
        ],
        "waiting_seen": study.waiting_seen,
        "measured": study.measured,
        "queue_share": study.queue_share,
        "efficiency": {
            "runtime_s": e.runtime_s,
            "useful_s": e.useful_s,
            "parallel": _number(e.parallel),
            "load_balance": _number(e.balance),
            "communication": _number(e.communication),
        },
        "functions_total": len(columns),
        "functions": [
            {
                **_function_json(study.functions[item.column]),
                "mean_s": item.mean_s,
                "max_s": item.most_s,
                "max_over_mean": item.factor,
                "process": item.member,
                "order": list(item.order),
                "work_s": study.work[:, item.column].tolist(),
                "outliers": np.flatnonzero(study.outlying[:, item.column]).tolist(),
            }
            for item in shown
        ],
        "ranges": [
            {
                "domain": row.domain,
                "name": row.name,
                "processes": [
                    None
                    if r is None
                    else {
                        "count": r.count,
                        "left_out": r.left_out,
                        "total_s": r.total_s,
                        "median_s": r.median_s,
                        "waits_s": _number(r.waits_s),
                    }
                    for r in row.of
                ],
            }
            for row in study.ranges
        ],
        "notices": notice_objects(study.notices),
    }


def _function_json(key: FunctionKey) -> dict[str, object]:
    return {"name": key.qualname, "root": key.root, "path": key.path}


def _straggler_json(study: RankStudy, s: Straggler) -> dict[str, object]:
    return {
        "process": s.member,
        "label": study.members[s.member].label,
        "kind": s.kind,
        "own_s": s.pace_s,
        "usual_s": s.usual_s,
        "run_excess_s": s.run_s,
        "queue_excess_s": s.queue_s if study.measured else None,
        "blocked_excess_s": s.blocked_s,
        "collects_excess_s": s.collects_s,
        "waits_s": s.waits_s,
        "usual_waits_s": s.usual_waits_s,
        "without_s": s.without_s,
        "faster": s.faster,
        "deviations": [_deviation_json(d) for d in s.deviations],
    }


def _deviation_json(d: Deviation) -> dict[str, object]:
    return {
        "function": None if d.function is None else _function_json(d.function),
        "range": None if d.range is None else {"domain": d.range[0], "name": d.range[1]},
        "value_s": d.value_s,
        "usual_s": d.usual_s,
        "calls": _number(d.calls),
        "z": d.z,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
