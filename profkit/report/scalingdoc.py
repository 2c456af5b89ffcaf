"""`Scaling` → `Document` or JSON: a table of processes × nodes, and where more of them are slower."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import Bullets, Document, HeatCell, HeatMap, Section, Table, laid_out
from profkit.report.jsonvalues import dumps, json_number, members
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.wording.runs import place_name, scaling_verdict, slowdown_text
from profkit.study.scaling import Scaling

#: Least ratio to the best that gets the worst colour of the heat map.
LEAST_SCALE = 1.5
#: Members of a place in the JSON.
_PLACE = (
    "processes nodes runs median_s low_s high_s speedup ideal_speedup=ideal parallel_efficiency=parallel "
    "load_balance=balance communication_efficiency=communication computation_scaling=computation "
    "global_efficiency=whole"
)


@dataclass(frozen=True, slots=True)
class ScalingReport:
    study: Scaling

    def document(self, rows: int) -> Document:
        study = self.study
        slowdowns = [slowdown_text(study, slow) for slow in study.slowdowns]
        return laid_out(
            "profkit scaling",
            Section("", (scaling_verdict(study),)),
            Section("Time by processes and nodes", _heat(study), role="account"),
            Section("Scaling", (_table(study),), role="account"),
            Section("Notes", (Bullets((*slowdowns, *notice_texts(study.notices))),)),
        )

    def json(self, rows: int) -> str:
        places = [members(place, _PLACE) for place in self.study.places]
        names = "weak spread places slowdowns notices"
        return dumps({"schema": "profkit.scaling/1", **members(self.study, names, places=places)})


def _slower(study: Scaling) -> set[str]:
    return {place_name(study.places[slow.more]) for slow in study.slowdowns}


def _table(study: Scaling) -> Table:
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


def _heat(study: Scaling) -> tuple[HeatMap, ...]:
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
