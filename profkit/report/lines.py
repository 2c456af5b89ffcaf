"""The lines in which a function's time went, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.measure.line_times import FunctionLines, SeenLine
from profkit.report.document import Pair, Section, Table
from profkit.report.listed import Listed, Of
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
    after = [(line, lines.before(line)) for line in lines.candidate]
    # Baseline lines paired with the candidate's need no row of their own.
    paired = {line.place for line, before in after if before is not None}
    before = [(line, None) for line in lines.baseline if line.place not in paired]
    if brief:
        return [Section("", (_table(f"lines of {name}", (after or before)[:_FEW], ""),))]
    tables = (
        _table("line", after, "" if before else _NOTE),
        _table("line, in the baseline" if after else "line", before, _NOTE),
    )
    return [Section(f"Lines of {name}", tables, role="moved")]


def _table(title: str, lines: Sequence[tuple[SeenLine, SeenLine | None]], note: str) -> Table:
    """Return a table of lines, each with itself in the baseline if that is known."""
    return Listed(lines).table(
        Of(title, lambda at: location(at[0].key, at[0].file, at[0].line), "path"),
        Of("share", lambda at: Pair(at[1].share, at[0].share) if at[1] else at[0].share, "share"),
        Of("samples", lambda at: Pair(at[1].samples, at[0].samples) if at[1] else at[0].samples, "count", 2),
        Of("", lambda at: clean(at[0].text), "prose", 1),
        notes=(note,),
    )
