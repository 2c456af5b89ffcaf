"""`Diagnosis` → `Document` or JSON: the risk first, then the machine, the sizes, and what to set."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from profkit.report import units
from profkit.report.document import Block, Bullets, Column, Document, Facts, Note, Row, Section, Table
from profkit.report.inventory_sections import pool_object
from profkit.report.jsonvalues import json_number, json_text
from profkit.report.text import clean
from profkit.report.wording.doctor import (
    limit_items,
    own_texts,
    reason_text,
    risk,
    sizes_note,
    title_of,
)
from profkit.study.doctor import Demand, Diagnosis, Size
from profkit.study.doctor_load import Load

DOCTOR_SCHEMA = "profkit.doctor/1"


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """A diagnosis; `command` is empty where none was run, `problem` tells how it ended by itself."""

    diagnosis: Diagnosis
    command: tuple[str, ...]
    problem: str

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        diagnosis = self.diagnosis
        sections = [Section("", (risk(diagnosis),))]
        facts = limit_items(diagnosis.limits)
        if diagnosis.python is not None:
            facts.append(("Python", f"{clean(diagnosis.python.version)} ({clean(diagnosis.python.path)})"))
        sections.append(Section("This machine", (Facts(tuple(facts)),), role="account"))
        if diagnosis.load is not None:
            notes = (Note(clean(self.problem), "unsure"),) if self.problem else ()
            sections.append(
                Section("What the command did", (*notes, _crews(diagnosis.load, rows)), role="account")
            )
        elif diagnosis.sizes:
            sections.append(Section("What would start how much", _sizes(diagnosis.sizes), role="account"))
        cures = _cures(diagnosis)
        if cures:
            sections.append(Section("What to do", cures, role="advice"))
        return Document("profkit doctor", tuple(sections))

    def json(self, rows: int) -> str:
        """Return the JSON: everything, whatever `rows` is."""
        diagnosis = self.diagnosis
        limits = diagnosis.limits
        answer = risk(diagnosis)
        document = {
            "schema": DOCTOR_SCHEMA,
            "oversubscribed": diagnosis.oversubscribed,
            "demand": _demand(diagnosis.demand),
            "pooled": None if diagnosis.pooled is None else _demand(diagnosis.pooled),
            "share": diagnosis.share,
            "machine": {
                **{
                    name: getattr(limits, name)
                    for name in ("cpus", "cores", "sockets", "nodes", "affinity_cores")
                },
                "affinity": list(limits.affinity),
                "cpuset": None if limits.cpuset is None else list(limits.cpuset),
                "quota_cpus": json_number(limits.quota_cpus),
                "quota_view": limits.quota_view,
                "slurm": None
                if limits.slurm is None
                else {"cpus": limits.slurm[0], "variable": limits.slurm[1]},
                "ranks": None if limits.ranks is None else asdict(limits.ranks),
                "container": limits.container,
                "effective_cpus": limits.effective,
            },
            "python": None if diagnosis.python is None else asdict(diagnosis.python),
            "libraries": [_size(size) for size in diagnosis.sizes],
            "trial": None if diagnosis.load is None else self._trial(diagnosis.load),
            "advice": [{"variable": name, "value": value} for name, value in diagnosis.advice],
            "own": [asdict(own) for own in diagnosis.own],
            "text": {"headline": answer.headline, "summary": answer.summary},
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"

    def _trial(self, load: Load) -> dict[str, Any]:
        return {
            "command": [json_text(word) for word in self.command],
            "problem": json_text(self.problem),
            "wall_s": json_number(load.wall_s),
            "at_once": load.at_once,
            "cores": json_number(load.cores),
            "predicted_cores": json_number(load.predicted_cores),
            "queued": json_number(load.queued),
            "others_cores": json_number(load.others),
            "crews": [
                {
                    "role": json_text(crew.role),
                    "processes": crew.processes,
                    "threads": crew.threads,
                    "pooled": crew.pooled,
                    "cores": json_number(crew.cores),
                    "demanded": json_number(crew.demanded),
                    "pools": [pool_object(pool) for pool in crew.pools],
                }
                for crew in load.crews
            ],
        }


def _demand(demand: Demand) -> dict[str, Any]:
    return {**asdict(demand), "factor": demand.factor}


def _size(size: Size) -> dict[str, Any]:
    honours = size.honours
    return {
        "library": size.library.name,
        "packages": [json_text(package) for package in size.packages],
        "starts": size.library.starts,
        "automatic": size.library.automatic,
        "computes": size.library.computes,
        "size": size.size,
        "origin": size.origin,
        "variable": json_text(size.variable),
        "unseen": size.unseen,
        "honours": {
            "affinity": honours.affinity,
            "quota": honours.quota,
            "views": list(honours.views),
            "variables": [asdict(variable) for variable in honours.variables],
            "version": honours.version,
            "source": honours.source,
        },
    }


def _sizes(sizes: Sequence[Size]) -> tuple[Block, ...]:
    """Merge libraries that start equally many for the same reason; leave out pools that mostly wait."""
    groups: dict[tuple[bool, str, int, str], list[str]] = {}
    for size in sizes:
        if size.library.automatic and not size.library.computes:
            continue
        key = (not size.library.automatic, size.library.starts, size.size, reason_text(size))
        groups.setdefault(key, []).append(title_of(size.library.name))
    items, asked_for = [], []
    for (asked, starts, number, reason), names in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1] != "threads", -item[0][2])
    ):
        what = starts if number != 1 else {"threads": "thread", "processes": "process"}[starts]
        if asked:
            asked_for.append(f"{', '.join(names)} {number} {what} ({reason})")
        else:
            items.append((f"{number} {what}", f"{', '.join(names)}: {reason}"))
    if asked_for:
        items.append(("if called", "; ".join(asked_for)))
    return (Facts(tuple(items)), Note(sizes_note()))


def _crews(load: Load, limit: int) -> Table:
    shown = load.crews[:limit] if limit else load.crews
    columns = (
        Column("processes", "text"),
        Column("threads at once", "pid"),
        Column("pools", "prose", 1),
        Column("CPUs used", "pid", 1),
        Column("with queueing", "pid", 2),
    )
    rows = tuple(
        Row(
            (
                clean(crew.role) if crew.processes == 1 else f"{crew.processes} × {clean(crew.role)}",
                str(crew.threads) if crew.threads else "waits",
                "; ".join(
                    dict.fromkeys(f"{title_of(pool.library)} {pool.threads or '?'}" for pool in crew.pools)
                ),
                _cores(crew.cores),
                _cores(crew.demanded),
            )
        )
        for crew in shown
    )
    note = f"Each, over its life. {len(load.crews) - len(shown)} kinds are not listed." * (
        len(shown) < len(load.crews)
    )
    return Table(columns, rows, note or "CPUs of each process, over its life.").without_empty()


def _cores(value: float) -> str:
    return units.UNKNOWN if math.isnan(value) else f"{value:.1f}"


def _cures(diagnosis: Diagnosis) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if diagnosis.advice:
        settings = " ".join(f"{name}={value}" for name, value in diagnosis.advice)
        blocks.append(Bullets((f"export {settings}",), commands=True))
    if diagnosis.own and diagnosis.oversubscribed:
        blocks.append(Bullets(tuple(own_texts(diagnosis.own))))
    return tuple(blocks)
