"""One block of a `Document` as escaped markup, without scripts."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.report import units
from profkit.report.document import (
    SIGNS,
    Block,
    Bullets,
    Column,
    Facts,
    HeatCell,
    HeatMap,
    Measured,
    Note,
    Pair,
    Row,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
    format_cell,
    format_one,
    is_numeric,
)
from profkit.report.drawn_blocks import trend_drawing, waterfall_drawing
from profkit.report.markup import element, escape
from profkit.report.text import unbroken

#: Rows of evidence that are not folded.
_FIRST_SIGNALS = 3
#: Number of colours of a heat map in ``heat.css``.
_HEAT_LEVELS = 6


def evidence_markup(blocks: Sequence[Block]) -> str:
    """Return evidence as bars, all but the first rows folded; other blocks as usual."""
    first, *others = blocks
    if not isinstance(first, Table) or not any(isinstance(c, Measured) for r in first.rows for c in r.cells):
        return "".join(map(block_markup, blocks))
    sides = [column.title for column in first.columns[1:-1]]
    items = [_signal(first, row, sides) for row in first.rows]
    shown, rest = items[:_FIRST_SIGNALS], items[_FIRST_SIGNALS:]
    below = (element("ul", *rest, class_="signals") if rest else "") + "".join(map(block_markup, others))
    words = (f"{len(rest)} more" if rest else "", "how the order of functions changed" if others else "")
    about = " and ".join(filter(None, words))
    return element("ul", *shown, class_="signals") + (
        element("details", element("summary", about), below) if below else ""
    )


def _signal(table: Table, row: Row, sides: Sequence[str]) -> str:
    signal, *_, says = table.texts(row)
    values = (cell for cell in row.cells if isinstance(cell, Measured))
    drawn = "".join(
        element(
            "div",
            element("dt", escape(side)),
            element(
                "dd",
                _bar(share, "candidate" if at == len(sides) - 1 else "baseline", limit),
                element("span", escape(text)),
            ),
        )
        for at, (side, (text, share, limit)) in enumerate(zip(sides, values, strict=True))
    )
    return element("li", element("h3", escape(signal)), element("dl", drawn), element("p", escape(says)))


def _bar(share: float | None, side: str, limit: float | None = None) -> str:
    if share is None:
        return ""
    bar = element("rect", width=f"{100 * max(share, 0.004):.1f}%", height="100%", rx=2)
    if limit is not None:
        bar += element("line", x1=f"{100 * limit:.1f}%", x2=f"{100 * limit:.1f}%", y1=0, y2="100%")
    return element("svg", bar, class_=f"bar {side}", aria_hidden="true")


def block_markup(block: Block) -> str:
    if isinstance(block, VerdictBlock):
        return _verdict(block)
    if isinstance(block, Waterfall):
        return waterfall_drawing(block).markup + _note(block.note)
    if isinstance(block, HeatMap):
        return _heat_map(block)
    if isinstance(block, Trend):
        drawn = trend_drawing(block)
        return _wide(drawn.picture("trend", drawn.said), "trend")
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Facts):
        items = (element("div", element("dt", escape(k)), element("dd", escape(v))) for k, v in block.items)
        return element("dl", *items, class_="facts")
    if isinstance(block, Bullets):
        if block.commands:
            codes = "\n".join(element("code", escape(item)) for item in block.items)
            return element("pre", codes, tabindex=0)
        return element("ul", *(element("li", escape(unbroken(item))) for item in block.items))
    if isinstance(block, Note):
        return element("p", escape(unbroken(block.text)), class_=f"note {block.tone}".strip())
    raise AssertionError(f"no such block: {block!r}")


def _verdict(block: VerdictBlock) -> str:
    sure = ""
    if block.confidence is not None:
        bar = _bar(block.confidence, "sure")
        sure = element("p", f"Confidence {units.confidence(block.confidence)} ", bar, class_="confidence")
    sign = element("span", SIGNS[block.tone], class_="sign", aria_hidden="true")
    # The cause is what scripts match.
    cause = f" {element('small', escape(f'({block.cause})'))}" if block.cause else ""
    return element(
        "div",
        sign,
        element("h1", escape(block.headline), cause),
        sure,
        element("p", escape(unbroken(block.summary)), class_="summary"),
        class_=f"verdict {block.tone}",
    )


def _heat_map(block: HeatMap) -> str:
    heads = [element("th", escape(name), scope="col") for name in block.columns]
    head = element("tr", element("th", escape(block.corner), class_="corner"), *heads)
    rows = [
        element("tr", element("th", escape(title), scope="row"), *map(_heat_cell, cells))
        for title, cells in block.rows
    ]
    body = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    return _wide(body, "heat map") + _note(block.note)


def _heat_cell(cell: HeatCell) -> str:
    level = "none" if cell.heat is None else str(min(_HEAT_LEVELS - 1, int(cell.heat * _HEAT_LEVELS)))
    mark = '<span aria-hidden="true">●</span> <span class="hear">best</span>' if cell.marked else ""
    return element("td", mark + escape(cell.text), class_=f"h{level}")


def _table(table: Table) -> str:
    if not table.rows:
        return _note(table.note)
    marks = any(row.marked for row in table.rows)
    heads = [element("th", element("span", "moved", class_="hear"), class_="mark", scope="col")] * marks
    for column in table.columns:
        kind = "number" if is_numeric(column) else column.kind
        head = element("th", escape(column.title), scope="col", class_=kind)
        heads.append(head if column.title else element("td"))
    rows = "".join(_row(table.columns, row, marks) for row in table.rows)
    body = element("table", element("thead", element("tr", *heads)), element("tbody", rows), class_="said")
    return _wide(body, "table") + _note(table.note)


def _wide(content: str, label: str) -> str:
    # The keyboard can scroll an element that has the focus.
    return element("div", content, class_="wide", tabindex=0, role="region", aria_label=label)


def _note(text: str) -> str:
    return element("p", escape(unbroken(text)), class_="note") if text else ""


def _row(columns: tuple[Column, ...], row: Row, marks: bool) -> str:
    cells = []
    if marks:
        dot = '<span aria-hidden="true">●</span><span class="hear">yes</span>' if row.marked else ""
        cells.append(element("td", dot, class_="mark"))
    for column, cell in zip(columns, row.cells, strict=True):
        text = escape(format_cell(column, cell))
        kind = "number" if is_numeric(column) else column.kind
        if column.kind == "bar":
            share = cell if isinstance(cell, float) else None
            text = _bar(share, "candidate")
        elif column.kind == "rank":
            text = _ranks(cell) if isinstance(cell, Pair) else f"#{text}"
        elif column.kind in ("name", "path"):
            # Let long paths break between their parts.
            text = element("code", element("bdi", text.replace("/", "/<wbr>")))
        elif column.kind == "change":
            kind += " change"
        tag, scope = ("th", "row") if column.kind == "name" else ("td", None)
        cells.append(element(tag, text, scope=scope, class_=kind))
    return element("tr", *cells, class_=f"{row.tone} {'marked' if row.marked else ''}".strip() or None)


def _ranks(cell: Pair) -> str:
    before, after = (format_one("rank", side) for side in cell)
    return f"#{after}" if before == after else f"#{before} → #{after}"
