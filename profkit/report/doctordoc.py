"""`Diagnosis` → `Document` or JSON: the risk, the machine, the pool sizes, and what to set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profkit.model import Pool
from profkit.report import units
from profkit.report.document import Block, Bullets, Document, Facts, Note, Section, Table, laid_out
from profkit.report.jsonvalues import dumps, members, plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.report.wording.doctor import (
    SIZES_NOTE,
    UNTRACED,
    limit_items,
    own_texts,
    reason_text,
    risk,
    title_of,
)
from profkit.study.doctor import Diagnosis, Size
from profkit.study.doctor_load import Load
from profkit.study.launch import Launch, lines


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """A diagnosis; `command` is empty if none was run, `problem` says how it ended on its own."""

    diagnosis: Diagnosis
    command: tuple[str, ...]
    problem: str

    def document(self, rows: int) -> Document:
        diagnosis = self.diagnosis
        load, python = diagnosis.load, diagnosis.python
        facts = limit_items(diagnosis.limits)
        if python is not None:
            said = f"{clean(python.version)} ({clean(python.path)})"
            facts.append(("Python", f"{said}; {UNTRACED}" if python.tracer_missing else said))
        problem = (Note(clean(self.problem), "unsure"),) if self.problem else ()
        did = () if load is None else (*problem, _crews(load, rows))
        return laid_out(
            "profkit doctor",
            Section("", (risk(diagnosis),)),
            Section("This machine", (Facts(tuple(facts)),), role="account"),
            Section("What the command did", did, role="account"),
            Section(
                "What each library starts",
                _sizes(diagnosis.sizes) if load is None and diagnosis.sizes else (),
                role="account",
            ),
            Section("What to do", _cures(diagnosis), role="advice"),
        )

    def json(self, rows: int) -> str:
        """Return the whole diagnosis as JSON; `rows` is ignored."""
        diagnosis = self.diagnosis
        limits, answer = diagnosis.limits, risk(diagnosis)
        return dumps(
            {
                "schema": "profkit.doctor/1",
                "oversubscribed": diagnosis.oversubscribed,
                **members(diagnosis, "demand pooled share"),
                "machine": members(
                    limits,
                    "cpus cores sockets nodes affinity_cores affinity cpuset quota_cpus quota_view slurm ranks "
                    "container effective_cpus=effective",
                    slurm=limits.slurm and dict(zip(("cpus", "variable"), plain(limits.slurm), strict=True)),
                ),
                **members(diagnosis, "python libraries=sizes"),
                "trial": diagnosis.load
                and members(
                    diagnosis.load,
                    "command problem wall_s at_once cores predicted_cores queued others_cores=others crews",
                    command=plain(self.command),
                    problem=plain(self.problem),
                ),
                "advice": [{"variable": name, "value": value} for name, value in diagnosis.advice],
                "own": plain(diagnosis.own),
                "launch": [launch_object(launch) for launch in diagnosis.launches],
                "text": {"headline": answer.headline, "summary": answer.summary},
            }
        )


def launch_block(launch: Launch) -> Bullets:
    return Bullets(tuple(map(clean, lines(launch))), commands=True)


def launch_object(launch: Launch) -> dict[str, Any]:
    names = "launcher? ranks threads workers cpus_each lines"
    return members(launch, names, lines=plain(lines(launch)))


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
    return (Facts(tuple(items)), Note(SIZES_NOTE))


def _crews(load: Load, limit: int) -> Table:
    return Listed(load.crews, limit, left_out="{left} kinds not listed.").table(
        Of("processes", lambda crew: f"{crew.processes} × " * (crew.processes != 1) + clean(crew.role)),
        Of("threads at once", lambda crew: str(crew.threads) if crew.threads else "waits", "pid"),
        Of("pools", lambda crew: "; ".join(dict.fromkeys(map(_pool, crew.pools))), "prose", 1),
        Of("CPUs used", lambda crew: _cores(crew.cores), "pid", 1),
        Of("with queueing", lambda crew: _cores(crew.demanded), "pid", 2),
        notes=("CPUs of each process, over its life.",),
    )


def _pool(pool: Pool) -> str:
    return f"{title_of(pool.library)} {pool.threads or '?'}"


def _cores(value: float) -> str:
    return units.UNKNOWN if math.isnan(value) else f"{value:.1f}"


def _cures(diagnosis: Diagnosis) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if diagnosis.launches:
        blocks += map(launch_block, diagnosis.launches)
    elif diagnosis.advice:
        settings = " ".join(f"{name}={value}" for name, value in diagnosis.advice)
        blocks.append(Bullets((f"export {settings}",), commands=True))
    if diagnosis.python is not None and diagnosis.python.tracer_missing:
        minor = ".".join(clean(diagnosis.python.version).split(".")[:2])  # the path may be masked
        blocks.append(Bullets((f"profkit doctor --build-tracers python{minor}",), commands=True))
    if diagnosis.own and diagnosis.oversubscribed:
        blocks.append(Bullets(tuple(own_texts(diagnosis.own))))
    return tuple(blocks)
