"""What a reader elsewhere needs of a comparison: what is different around the program, and how to reproduce it.

Sections of the document that `diffdoc` lays out; what differs is found by `measure.settings`.
"""

from __future__ import annotations

import shlex

from profkit.measure.settings import set_by_hand
from profkit.report import units
from profkit.report.document import Block, Bullets, Column, Note, Row, Section, Table
from profkit.report.text import clean
from profkit.report.wording import cut_note
from profkit.verdict.types import Diff

__all__ = ["reproduce_section", "setting_sections"]


def setting_sections(diff: Diff, limit: int) -> list[Section]:
    """List what is not the same around the program."""
    settings = diff.settings
    if diff.baseline.inventory is not None and diff.candidate.inventory is not None:
        # They are in a table of their own.
        settings = tuple(s for s in settings if s.kind not in ("variable", "pool"))
    if not settings:
        return []
    shown = settings[:limit] if limit else settings
    columns = (
        Column("", "text", 1),
        Column("what", "text"),
        Column("baseline", "prose"),
        Column("candidate", "prose"),
    )
    rows = tuple(
        Row((s.kind, clean(s.name), clean(s.baseline) or units.UNKNOWN, clean(s.candidate) or units.UNKNOWN))
        for s in shown
    )
    note = cut_note(len(shown), len(settings), "differences")
    return [Section("What is different around the program", (Table(columns, rows, note),))]


def reproduce_section(diff: Diff, attachment: str) -> Section:
    """Say how to reproduce both runs, for a reader who has only this report."""
    commands = []
    notes = []
    for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate)):
        if not side.command:
            notes.append(f"The {name} is a profile that does not say what was run.")
            continue
        words = [f"{n}={shlex.quote(v)}" for n, v in set_by_hand(side.environment).items()]
        repeat = [f"--repeat {side.runs}"] if side.runs > 1 else []
        words += ["profkit capture", "-o", f"{name}.prof", *repeat, "--", shlex.join(side.command)]
        commands.append(clean(" ".join(words)))
    if attachment:
        notes.append(
            f"{clean(attachment)} holds the runs of both sides; unpacked, the last command makes this report again."
        )
    sides = []
    for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate)):
        several = name if attachment else f"'{name}-*.prof'"
        sides.append(f"{name}.prof" if side.runs == 1 else several)
    commands.append(f"profkit diff {' '.join(sides)}")
    blocks: list[Block] = [Note(" ".join(notes))] if notes else []
    return Section("How to reproduce", (*blocks, Bullets(tuple(commands), commands=True)), role="reproduce")
