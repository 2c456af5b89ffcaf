"""Other programs that ran while the program queued for a CPU: a table, and the same as JSON."""

from __future__ import annotations

from typing import Any

from profkit.measure.beside import NOTICED
from profkit.model import Neighbour, Neighbours
from profkit.report.document import Cell, Column, Note, Row, Section, Table
from profkit.report.jsonvalues import json_text
from profkit.report.text import clean

#: What stands for processes that are known by their cgroup only.
HIDDEN = "(hidden processes)"
_Key = tuple[str, int | None, str, str]


def neighbour_sections(found: Neighbours | None, before: Neighbours | None = None) -> list[Section]:
    """Return who ran while a run, or a comparison's candidate, queued; `before` is the baseline's."""
    if found is None:
        return []
    listed = [one for one in found.listed if one.cores >= NOTICED]
    earlier = {_key(one): one.cores for one in (before.listed if before is not None else ())}
    rows = [_row(one, earlier.get(_key(one))) for one in listed]
    unseen = found.unseen_cores
    if not rows and (unseen is None or unseen < NOTICED):
        return []
    notes = ["CPU used per second by other programs while this one queued for a CPU."]
    if unseen is not None and unseen >= NOTICED:
        why = (
            "by the kernel, by processes that ended soon and by many small ones"
            if found.all_visible
            else "by processes that are not visible from here (of another container or user)"
        )
        notes.append(f"{unseen:.2f} cores more were used {why}.")
    if not rows:
        return [Section("Who else ran meanwhile", (Note(" ".join(notes)),))]
    columns = (
        Column("program", "name"),
        Column("pid", "pid", 2),
        Column("user", "text", 3),
        Column("belongs to", "text", 1),
        Column("baseline", "text"),
        Column("cores", "text"),
    )
    table = Table(columns, tuple(rows), " ".join(notes)).without_empty()
    return [Section("Who else ran meanwhile", (table,))]


def _row(one: Neighbour, before: float | None) -> Row:
    name = clean(one.name) or HIDDEN
    if one.processes > 1:
        name = f"{one.processes} × {name}"
    if one.children:
        name += ", with what it started"
    cells: tuple[Cell, ...] = (
        name,
        "" if one.pid is None else str(one.pid),
        clean(one.user),
        clean(one.group),
        "" if before is None else f"{before:.2f}",
        f"{one.cores:.2f}",
    )
    return Row(cells)


def _key(one: Neighbour) -> _Key:
    return (one.name, one.pid, one.user, one.group)


def neighbour_objects(found: Neighbours | None) -> dict[str, Any] | None:
    """Return ``neighbours`` of the machine in ``profkit.show/2``."""
    if found is None:
        return None
    return {
        "queued_s": found.queued_s,
        "cores": found.cores,
        "all_visible": found.all_visible,
        "listed": [
            {
                "name": json_text(one.name),
                "pid": one.pid,
                "processes": one.processes,
                "user": json_text(one.user),
                "group": json_text(one.group),
                "cores": one.cores,
                "children": one.children,
            }
            for one in found.listed
        ],
    }
