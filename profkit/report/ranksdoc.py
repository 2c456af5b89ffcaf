"""`RankStudy` → `Document` or JSON: stragglers, functions by process, imbalance, efficiencies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from profkit.model import FunctionKey
from profkit.model.arrays import ratio
from profkit.report import units
from profkit.report.document import (
    Bullets,
    Document,
    Facts,
    HeatCell,
    HeatMap,
    Pair,
    Section,
    Table,
    laid_out,
)
from profkit.report.jsonvalues import dumps, json_number, members, plain
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.text import clean
from profkit.report.wording.functions import display_name, location
from profkit.report.wording.ranks import KINDS, deviation_name, rank_notes, ranks_verdict, wait_sentence
from profkit.study.rank_study import RankStudy, Straggler
from profkit.study.rank_table import RangeRow
from profkit.study.ranks import LEAST_LISTED
from profkit.study.wait_states import WAIT_STATES, totals

#: Most functions of the heat map, and most processes: those that deviate most.
HEAT_FUNCTIONS, HEAT_MEMBERS = 12, 16
#: Ratio to the median that gets the worst colour of the heat map.
HEAT_MOST = 2.0
#: Most processes in the table of different rankings.
MOST_REORDERED = 4
#: Most notices about files.
MOST_NOTICES = 5
#: Members of a function in the JSON.
_FUNCTION = "name=qualname root path"


@dataclass(frozen=True, slots=True)
class RanksReport:
    study: RankStudy

    def document(self, rows: int) -> Document:
        study = self.study
        return laid_out(
            f"profkit ranks: {len(study.members)} processes",
            Section("", (ranks_verdict(study),)),
            Section("Stragglers", (_stragglers(study, rows),), role="account"),
            Section("Wait states", _wait_states(study, rows), role="evidence"),
            Section("Where they take longer", (_deviations(study, rows),), role="evidence"),
            Section("Processes with a different function ranking", (_order(study),), role="evidence"),
            Section("Functions by process", (_heat(study),), role="evidence"),
            Section("How evenly functions are distributed", (_imbalance(study, rows),), role="evidence"),
            Section("Ranges", (_ranges(study, rows),), role="evidence"),
            Section("Efficiency", (_efficiency(study),), role="evidence"),
            Section("Processes", (_members(study, rows),), detail=True),
            Section("Notes", (Bullets((*rank_notes(study), *_notices(study))),)),
        )

    def json(self, rows: int) -> str:
        """Return the JSON; `rows` limits the functions, not the processes."""
        return dumps(_json(self.study, rows))


def _label(study: RankStudy, member: int) -> str:
    return clean(study.members[member].label)


def _host(study: RankStudy, member: int) -> str | None:
    return clean(study.members[member].host) if len({m.host for m in study.members}) > 1 else None


def _stragglers(study: RankStudy, limit: int) -> Table:
    return Listed(study.stragglers, limit).table(
        Of("process", lambda s: _label(study, s.member)),
        Of("host", lambda s: _host(study, s.member), "text", 3),
        Of("it", lambda s: KINDS[s.kind], "text", 1),
        Of("own time", lambda s: s.pace_s, "seconds"),
        Of("others", lambda s: s.usual_s, "seconds"),
        Of("CPU", lambda s: Pair(0.0, s.run_s), "change", 1),
        Of("queued", lambda s: Pair(0.0, s.queue_s) if study.measured else None, "change", 2),
        Of("blocked", lambda s: Pair(0.0, s.blocked_s), "change", 4),
        Of("waits", lambda s: s.waits_s if study.waiting_seen else None, "seconds", 2),
        Of("others wait", lambda s: s.usual_waits_s if study.waiting_seen else None, "seconds", 3),
        Of("without it", lambda s: s.faster, "factor", 1),
        notes=("Own time excludes imports and waits for other processes; others: their median.",),
        marked=lambda _: True,
        tone=lambda _: "bad",
    )


def _wait_states(study: RankStudy, limit: int) -> tuple[Bullets, Table]:
    listed = Listed(study.stragglers, limit)
    life = float(np.mean([m.life_s for m in study.members]))
    table = Listed(totals([m.waits_by for m in study.members])).table(
        Of("wait state", lambda row: WAIT_STATES[row[0]]),
        Of("mean", lambda row: float(row[1].mean()), "seconds"),
        Of("of the time", lambda row: float(row[1].mean()) / max(life, 1e-12), "share"),
        Of("most", lambda row: float(row[1].max()), "seconds", 1),
        Of("most in", lambda row: _label(study, int(row[1].argmax())), "text", 1),
        Of("least", lambda row: float(row[1].min()), "seconds", 2),
        Of("least in", lambda row: _label(study, int(row[1].argmin())), "text", 2),
        notes=("Time in calls that wait for other processes, by kind of wait.", listed.cut),
    )
    return Bullets(tuple(wait_sentence(study, s) for s in listed.shown)), table


def _deviations(study: RankStudy, limit: int) -> Table:
    return Listed([(s.member, d) for s in study.stragglers for d in s.deviations], limit).table(
        Of("process", lambda row: _label(study, row[0])),
        Of("function", lambda row: deviation_name(row[1]), "name"),
        Of("where", lambda row: location(row[1].function, "", 0) if row[1].function else "", "path", 2),
        Of("time", lambda row: row[1].value_s, "seconds"),
        Of("others", lambda row: row[1].usual_s, "seconds", 1),
        Of("ratio", lambda row: ratio(row[1].usual_s, row[1].value_s), "factor"),
        Of("calls", lambda row: json_number(row[1].calls), "factor", 3),
        Of("z", lambda row: f"{row[1].z:.1f}", "text", 4),
    )


def _chosen_members(study: RankStudy) -> list[int]:
    """Return the processes of the heat map in order: all, or those that deviate most."""
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
            cells = tuple(
                HeatCell(f"{values[i] / usual:.2f}", 0.0) if good else _heat_cell(values[i], usual)
                for i in members
            )
            rows.append((title, cells))
    what = "CPU time" if study.measured else "Self time"
    note = f"{what} over the median of all processes; ● is beyond the noise."
    if n > len(members):
        note += f" The {len(members)} processes that deviate most, of {n:,}."
    across = "rank" if ranked else "process"
    return HeatMap(f"function ↓  {across} →", titles, tuple(rows), note)


def _heat_cell(value: float, usual: float, *, marked: bool = False) -> HeatCell:
    if usual <= 0:
        return HeatCell("–" if value <= 0 else "new", None if value <= 0 else 1.0, marked)
    times = value / usual
    heat = min(1.0, max(0.0, math.log(max(times, 1e-9)) / math.log(HEAT_MOST)))
    return HeatCell(f"{times:.2f}" if times < 9.995 else f"{times:.0f}", heat, marked)


def _order(study: RankStudy) -> Table:
    listed = Listed(study.reordered, MOST_REORDERED, "processes")
    return Listed([(one, place) for one in listed.shown for place in one.places]).table(
        Of("process", lambda row: _label(study, row[0].member)),
        Of("elsewhere", lambda row: row[0].elsewhere, "share", 2),
        Of("function", lambda row: display_name(row[1].function.qualname), "name"),
        Of("usual place", lambda row: row[1].usual, "rank"),
        Of("its place", lambda row: row[1].place, "rank"),
        Of("more", lambda row: Pair(0.0, row[1].excess_s), "change", 1),
        notes=(listed.cut,),
    )


def _imbalance(study: RankStudy, limit: int) -> Table:
    return Listed(study.imbalance, limit).table(
        Of("function", lambda item: display_name(study.functions[item.column].qualname), "name"),
        Of("where", lambda item: location(study.functions[item.column], "", 0), "path", 3),
        Of("mean", lambda item: item.mean_s, "seconds", 1),
        Of("most", lambda item: item.most_s, "seconds"),
        Of("max/mean", lambda item: item.factor, "factor"),
        Of("in", lambda item: _label(study, item.member), "text", 1),
        Of("position", lambda item: " – ".join(map(str, dict.fromkeys(item.order))), "text", 4),
        notes=("Most lost seconds (most − mean) first; calls that wait for other processes are left out.",),
    )


def _medians(row: RangeRow) -> list[tuple[float, int]]:
    return [(r.median_s, i) for i, r in enumerate(row.of) if r is not None]


def _usual(row: RangeRow) -> float:
    return float(np.median([median for median, _ in _medians(row)]))


def _total(row: RangeRow, part: str) -> float:
    return float(sum(getattr(r, part) for r in row.of if r is not None))


def _ranges(study: RankStudy, limit: int) -> Table:
    return Listed(sorted(study.ranges, key=lambda row: -_total(row, "total_s")), limit).table(
        Of("range", lambda row: clean(row.name)),
        Of("count", lambda row: int(np.median([r.count for r in row.of if r is not None])), "count", 2),
        Of("median", _usual, "seconds"),
        Of("longest", lambda row: max(_medians(row))[0], "seconds"),
        Of("ratio", lambda row: ratio(_usual(row), max(_medians(row))[0]), "factor"),
        Of("in", lambda row: _label(study, max(_medians(row))[1]), "text", 1),
        Of("waiting", _waiting, "share", 3),
        notes=("Median durations without warm-up; waiting: for other processes, inside the range.",),
    )


def _waiting(row: RangeRow) -> float | None:
    return json_number(_total(row, "waits_s") / max(_total(row, "total_s"), 1e-12))


def _efficiency(study: RankStudy) -> Facts:
    e = study.efficiency
    return Facts(
        (
            ("parallel efficiency", f"{units.share(e.parallel)} = load balance × communication efficiency"),
            ("load balance", f"{units.share(e.balance)} (mean / maximum CPU time, without waiting)"),
            ("communication efficiency", f"{units.share(e.communication)} (maximum CPU time / run time)"),
        )
    )


def _members(study: RankStudy, limit: int) -> Table:
    members = study.members
    pace = np.array([m.pace_s for m in members])
    stragglers = {s.member for s in study.stragglers}
    return Listed(np.argsort(-pace, kind="stable").tolist(), limit).table(
        Of("process", lambda i: _label(study, i)),
        Of("host", lambda i: _host(study, i), "text", 3),
        Of("local rank", lambda i: members[i].local_rank, "count", 6),
        Of("node", lambda i: members[i].node, "count", 6),
        Of("own time", lambda i: members[i].pace_s, "seconds"),
        Of("CPU" if study.measured else "self", lambda i: members[i].run_s, "seconds"),
        Of("queued", lambda i: members[i].queue_s if study.measured else None, "seconds", 1),
        Of("blocked", lambda i: members[i].blocked_s, "seconds", 2),
        Of("waits", lambda i: members[i].waits_s if study.waiting_seen else None, "seconds", 1),
        Of("imports", lambda i: members[i].imports_s, "seconds", 5),
        Of("elsewhere", lambda i: float(study.elsewhere[i]), "share", 4),
        notes=("Most own time first. Elsewhere: the share of its time in functions other than usual.",),
        marked=lambda i: i in stragglers,
    )


def _notices(study: RankStudy) -> list[str]:
    said = notice_texts(study.notices)
    more = len(said) - MOST_NOTICES
    return [*said[:MOST_NOTICES], *([f"{more:,} more files were skipped (see JSON)."] if more > 0 else [])]


# JSON --------------------------------------------------------------------------------------------------------------


def _json(study: RankStudy, limit: int) -> dict[str, object]:
    return {
        "schema": "profkit.ranks/1",
        "processes": [
            members(
                m,
                "label file=path rank local_rank node host? measured life_s own_s=pace_s run_s queue_s blocked_s "
                "collects_s collects_in waits_s wait_states imports_s helpers_run_s elsewhere",
                queue_s=m.queue_s if m.measured else None,
                collects_in=_function(m.collects_in),
                wait_states={name: s for name, s in zip(WAIT_STATES, m.waits_by, strict=True) if s > 0},
                elsewhere=float(study.elsewhere[i]),
            )
            for i, m in enumerate(study.members)
        ],
        "stragglers": [_straggler(study, s) for s in study.stragglers],
        "reordered": plain(study.reordered),
        "slow_host": study.slow_host or None,
        "unclear": [
            members(
                move,
                "process=member more more_s less less_s",
                more=_function(move.more),
                less=_function(move.less),
            )
            for move in study.moved
        ],
        **members(study, "waiting_seen measured queue_share efficiency"),
        "functions_total": len(study.imbalance),
        "functions": [
            {
                **members(study.functions[item.column], _FUNCTION),
                **members(item, "mean_s max_s=most_s max_over_mean=factor process=member order"),
                "work_s": study.work[:, item.column].tolist(),
                "outliers": np.flatnonzero(study.outlying[:, item.column]).tolist(),
            }
            for item in study.imbalance[: limit or None]
        ],
        **members(study, "ranges notices"),
    }


def _function(key: FunctionKey | None) -> dict[str, object] | None:
    return key and members(key, _FUNCTION)


def _straggler(study: RankStudy, s: Straggler) -> dict[str, object]:
    return members(
        s,
        "process=member label kind own_s=pace_s usual_s run_excess_s=run_s queue_excess_s blocked_excess_s=blocked_s "
        "collects_excess_s=collects_s waits_s usual_waits_s without_s faster wait_state wait_s reason deviations",
        reason=wait_sentence(study, s),
        wait_state=s.wait_state or None,
        label=plain(study.members[s.member].label),
        queue_excess_s=s.queue_s if study.measured else None,
        deviations=[
            members(
                d,
                "function range value_s usual_s calls z",
                function=_function(d.function),
                range=d.range and dict(zip(("domain", "name"), plain(d.range), strict=True)),
            )
            for d in s.deviations
        ],
    )
