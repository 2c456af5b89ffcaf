"""`Scaling` → `Document` or JSON: a table of processes × nodes, and where more of them are slower."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from profkit.report import units
from profkit.report.document import Bullets, Column, Document, HeatCell, HeatMap, Row, Section, Table
from profkit.report.notices import notice_objects, notice_text
from profkit.report.text import clean
from profkit.report.wording.scaling import place_name, scaling_verdict, slowdown_text
from profkit.study.scaling import Place, Scaling

#: Ratio to the best from which a cell of the heat map is as bad as it gets, at least.
LEAST_SCALE = 1.5


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """Runs with different numbers of processes and nodes."""

    study: Scaling

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`: all places are listed."""
        study = self.study
        sections = [Section("", (scaling_verdict(study),))]
        heat = _heat(study)
        if heat is not None:
            sections.append(Section("Time by processes and nodes", (heat,), role="account"))
        sections.append(Section("Scaling", (_table(study),), role="account"))
        notes = [slowdown_text(study, slow) for slow in study.slowdowns]
        notes += [clean(notice_text(notice)) for notice in study.notices]
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        return Document("profkit scaling", tuple(sections))

    def json(self, rows: int) -> str:
        """See `profkit.report.reports.Report`: all places are listed."""
        study = self.study
        document = {
            "schema": "profkit.scaling/1",
            "weak": study.weak,
            "spread": _number(study.spread),
            "places": [_place_json(place) for place in study.places],
            "slowdowns": [asdict(slow) for slow in study.slowdowns],
            "notices": notice_objects(study.notices),
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _place_json(place: Place) -> dict[str, object]:
    return {
        "processes": place.processes,
        "nodes": place.nodes,
        "runs": place.runs,
        "median_s": place.median_s,
        "low_s": _number(place.low_s),
        "high_s": _number(place.high_s),
        "speedup": _number(place.speedup),
        "ideal_speedup": place.ideal,
        "parallel_efficiency": _number(place.parallel),
        "load_balance": _number(place.balance),
        "communication_efficiency": _number(place.communication),
        "computation_scaling": _number(place.computation),
        "global_efficiency": _number(place.whole),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _table(study: Scaling) -> Table:
    columns = (
        Column("processes", "count"),
        Column("nodes", "count"),
        Column("time", "seconds"),
        Column("95 % interval", "text", 3),
        Column("speed-up", "factor"),
        Column("ideal", "factor", 4),
        Column("global eff.", "share", 2),
        Column("parallel", "share", 1),
        Column("balance", "share", 1),
        Column("commun.", "share", 1),
        Column("comp. scaling", "share", 2),
        Column("runs", "count", 5),
    )
    slower = {slow.more for slow in study.slowdowns}
    rows = tuple(
        Row(
            (
                place.processes,
                place.nodes,
                place.median_s,
                f"{units.seconds(place.low_s)} – {units.seconds(place.high_s)}"
                if math.isfinite(place.low_s)
                else "",
                _number(place.speedup),
                place.ideal,
                _number(place.whole),
                _number(place.parallel),
                _number(place.balance),
                _number(place.communication),
                _number(place.computation),
                place.runs,
            ),
            marked=i in slower,
            tone="bad" if i in slower else "",
        )
        for i, place in enumerate(study.places)
    )
    note = "Parallel efficiency = load balance × communication efficiency; global = parallel × computation scaling."
    if slower:
        note += " ● is slower than a place with fewer processes or nodes."
    return Table(columns, rows, note).without_empty()


def _heat(study: Scaling) -> HeatMap | None:
    """Processes against nodes; ``None`` with fewer than two of either."""
    processes = sorted({place.processes for place in study.places})
    nodes = sorted({place.nodes for place in study.places})
    if len(processes) < 2 or len(nodes) < 2:
        return None
    at = {(place.processes, place.nodes): place for place in study.places}
    slower = {place_name(study.places[slow.more]) for slow in study.slowdowns}
    medians = [place.median_s for place in study.places]
    least, scale = min(medians), math.log(max(max(medians) / min(medians), LEAST_SCALE))

    def cell(p: int, n: int) -> HeatCell:
        place = at.get((p, n))
        if place is None:
            return HeatCell("")
        heat = math.log(place.median_s / least) / scale
        return HeatCell(units.seconds(place.median_s), heat, place_name(place) in slower)

    note = "Median times; ● is slower than with fewer." if slower else "Median times."
    return HeatMap(
        "processes ↓  nodes →",
        tuple(map(str, nodes)),
        tuple((str(p), tuple(cell(p, n) for n in nodes)) for p in processes),
        note,
    )
