"""The lines in which a function's time went, as a table and as JSON."""

from __future__ import annotations

from typing import Any

from profkit.measure.line_times import FunctionLines, SeenLine
from profkit.report.document import Cell, Column, Pair, Row, Section, Table
from profkit.report.jsonvalues import json_text, members
from profkit.report.text import clean
from profkit.report.wording.functions import display_name, location

#: Rows on the first screen.
_FEW = 2

_NOTE = (
    "Sampled shares of the time of the function itself and of native functions that it calls: on a CPU, "
    "queued and waiting."
)


def line_sections(lines: FunctionLines | None, *, brief: bool = False) -> list[Section]:
    """Return the lines of a function, empty if not known; `brief` keeps a few, without the baseline's."""
    if lines is None:
        return []
    name = display_name(lines.name)
    after = [_row(line, lines.before(line)) for line in lines.candidate]
    # Baseline lines paired with the candidate's need no row of their own.
    paired = {line.place for line in lines.candidate if lines.before(line) is not None}
    before = [_row(line, None) for line in lines.baseline if line.place not in paired]
    if brief:
        rows = tuple((after or before)[:_FEW])
        return [Section("", (_table(f"lines of {name}", rows, ""),))]
    blocks = []
    if after:
        blocks.append(_table("line", tuple(after), "" if before else _NOTE))
    if before:
        blocks.append(_table("line, in the baseline" if lines.candidate else "line", tuple(before), _NOTE))
    return [Section(f"Lines of {name}", tuple(blocks), role="moved")]


def _table(title: str, rows: tuple[Row, ...], note: str) -> Table:
    columns = (
        Column(title, "path"),
        Column("share", "share"),
        Column("samples", "count", 2),
        Column("", "prose", 1),
    )
    return Table(columns, rows, note).without_empty()


def _row(line: SeenLine, before: SeenLine | None) -> Row:
    share: Cell = line.share if before is None else Pair(before.share, line.share)
    samples: Cell = line.samples if before is None else Pair(before.samples, line.samples)
    return Row((location(line.key, line.file, line.line), share, samples, clean(line.text)))


def lines_object(lines: FunctionLines | None) -> dict[str, Any] | None:
    """Return the lines' JSON object."""
    if lines is None:
        return None
    names = "function=key.qualname root=key.root path=key.path line seconds share samples text?"
    return {
        "function": json_text(lines.name),
        "baseline": [members(line, names) for line in lines.baseline],
        "candidate": [members(line, names) for line in lines.candidate],
    }
