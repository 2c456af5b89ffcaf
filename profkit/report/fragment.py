"""`Document` → an HTML fragment for a notebook: answer, account, evidence, advice, functions.

No script, which a notebook may not run; no style sheet, which would style the whole notebook.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from profkit.report import units
from profkit.report.document import (
    SIGNS,
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    HeatMap,
    Note,
    Row,
    Section,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
    is_numeric,
)
from profkit.report.drawn_blocks import trend_lines, waterfall_drawing
from profkit.report.layout import text_of
from profkit.report.markup import element, escape
from profkit.report.text import shorten_middle, unbroken

#: Colours of the bar beside a verdict, visible on light and dark ground.
_TONES = {"bad": "#d9534f", "good": "#3d8bd4", "unsure": "#c98a1b"}
MOST_ROWS = 10
MOST_CELL = 120
#: Most columns of a table; the greatest priority is dropped first.
MOST_COLUMNS = 7
_TREND_COLUMNS = 80

_FRAME = "border-left:4px solid {};padding:2px 0 2px 12px;margin:4px 0 8px"
_TABLE = "border-collapse:collapse;font-size:90%;margin:2px 0 8px"
_NUMBER = "text-align:right;padding:1px 8px;white-space:nowrap"
_TEXT = "text-align:left;padding:1px 8px"
_MUTED = "opacity:.75;margin:2px 0 8px;font-size:90%"


def fragment(document: Document) -> str:
    """Return one ``div`` with a document's essentials and no figures; all text is escaped."""
    shown = list(document.sections[:1])
    for role in ("account", "evidence", "advice"):
        shown += [section for section in document.sections[1:] if section.role == role]
    # The first table of functions with times that is not yet shown.
    for section, table in document.every(Table):
        kinds = {column.kind for column in table.columns}
        if {"name", "seconds"} <= kinds and not any(section is one for one in shown):
            shown.append(Section(section.title, (table,)))
            break
    return element("div", *map(_section, shown), class_="profkit")


def _section(section: Section) -> str:
    heading = element("p", element("strong", escape(section.title)), style="margin:8px 0 2px")
    return (heading if section.title else "") + "".join(map(_block, section.blocks))


def _block(block: Block) -> str:
    if isinstance(block, VerdictBlock):
        return _verdict(block)
    if isinstance(block, Waterfall):
        return element("div", waterfall_drawing(block).markup, style="max-width:640px") + _note(block.note)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, HeatMap):
        columns = (Column(block.corner), *(Column(name, "pid") for name in block.columns))
        rows = tuple(Row((title, *(cell.shown for cell in cells))) for title, cells in block.rows)
        return table_markup(Table(columns, rows)) + _note(block.note)
    if isinstance(block, Trend):
        lines = "\n".join(text_of(line)[2:] for line in trend_lines(block, _TREND_COLUMNS))
        return element("pre", escape(lines), style="margin:2px 0 8px;line-height:1.2")
    if isinstance(block, Facts):
        return table_markup(Table((Column(""), Column("")), tuple(map(Row, block.items))))
    if isinstance(block, Bullets):
        if block.commands:
            commands = escape("\n".join(block.items))
            return element("pre", commands, style="margin:2px 0 8px;white-space:pre-wrap")
        return element("ul", *(element("li", escape(unbroken(item))) for item in block.items))
    if isinstance(block, Note):
        return _note(block.text)
    raise AssertionError(f"no such block: {block!r}")


def _verdict(block: VerdictBlock) -> str:
    cause = f" ({block.cause})" if block.cause else ""
    sure = "" if block.confidence is None else f" — confidence {units.confidence(block.confidence)}"
    sign = SIGNS[block.tone]
    return element(
        "div",
        element("strong", escape(f"{sign} {block.headline}"), style="font-size:115%"),
        element("span", escape(unbroken(cause + sure))),
        element("p", escape(unbroken(block.summary)), style="margin:2px 0"),
        style=_FRAME.format(_TONES[block.tone]),
    )


def _note(text: str) -> str:
    return element("p", escape(unbroken(text)), style=_MUTED) if text else ""


def _table(table: Table) -> str:
    fewer = table.without_empty().without_bars()
    by_weight = sorted(range(len(fewer.columns)), key=lambda at: fewer.columns[at].priority)
    fewer = fewer.only(sorted(by_weight[:MOST_COLUMNS]))
    left = len(fewer.rows) - MOST_ROWS
    rows = units.counted(left, "more row is", "more rows are")
    more = element("p", f"{rows} in the report.", style=_MUTED) if left > 0 else ""
    return table_markup(replace(fewer, rows=fewer.rows[:MOST_ROWS])) + more


def table_markup(table: Table) -> str:
    """Return a plain table with numbers right-aligned, and a head if a column has a title."""
    styles = [_NUMBER if is_numeric(column) else _TEXT for column in table.columns]

    def line(tag: str, texts: Iterable[str]) -> str:
        cells = (element(tag, escape(text), style=s) for text, s in zip(texts, styles, strict=True))
        return element("tr", *cells)

    titles = [column.title for column in table.columns]
    head = element("thead", line("th", titles)) if any(titles) else ""
    body = [line("td", (shorten_middle(text, MOST_CELL) for text in table.texts(row))) for row in table.rows]
    drawn = element("table", head, element("tbody", *body), style=_TABLE)
    # The table may be wider than the notebook's cell.
    return element("div", drawn, style="overflow-x:auto")
