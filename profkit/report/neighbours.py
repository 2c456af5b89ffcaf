"""Other programs that ran while the program queued for a CPU: a table, and the same as JSON."""

from __future__ import annotations

from typing import Any

from profkit.measure.side_neighbours import NOTICED
from profkit.model import Neighbour, Neighbours
from profkit.report.document import Note, Section
from profkit.report.jsonvalues import members
from profkit.report.listed import Listed, Of
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
    unseen = found.unseen_cores
    if not listed and (unseen is None or unseen < NOTICED):
        return []
    notes = ["CPU used per second by other programs while this one queued for a CPU."]
    if unseen is not None and unseen >= NOTICED:
        why = (
            "by the kernel, by processes that ended soon and by many small ones"
            if found.all_visible
            else "by processes that are not visible from here (of another container or user)"
        )
        notes.append(f"{unseen:.2f} cores more were used {why}.")
    if not listed:
        return [Section("Who else ran meanwhile", (Note(" ".join(notes)),))]
    table = Listed(listed).table(
        Of("program", _program, "name"),
        Of("pid", lambda one: "" if one.pid is None else str(one.pid), "pid", 2),
        Of("user", lambda one: clean(one.user), "text", 3),
        Of("belongs to", lambda one: clean(one.group), "text", 1),
        Of("baseline", lambda one: f"{earlier[_key(one)]:.2f}" if _key(one) in earlier else ""),
        Of("cores", lambda one: f"{one.cores:.2f}"),
        notes=notes,
    )
    return [Section("Who else ran meanwhile", (table,))]


def _program(one: Neighbour) -> str:
    name = clean(one.name) or HIDDEN
    many = f"{one.processes} × " if one.processes > 1 else ""
    return many + name + (", with what it started" if one.children else "")


def _key(one: Neighbour) -> _Key:
    return (one.name, one.pid, one.user, one.group)


def neighbour_objects(found: Neighbours | None) -> dict[str, Any] | None:
    """Return ``neighbours`` of the machine in ``profkit.show/2``."""
    if found is None:
        return None
    names = "name pid processes user group cores children"
    return members(
        found,
        "queued_s cores all_visible listed",
        listed=[members(one, names) for one in found.listed],
    )
