"""`Document` → one SVG picture for a ticket, with its own style, for sites that run no scripts."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.report import units
from profkit.report.document import (
    SIGNS,
    Bullets,
    Document,
    Facts,
    Measured,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
    format_cell,
    format_one,
)
from profkit.report.drawing import SLOPES_WIDTH, slopegraph
from profkit.report.drawn_blocks import trend_drawing, waterfall_drawing
from profkit.report.markup import Drawing, assets, element, escape, number, svg_text
from profkit.report.text import shorten_middle, wrap_some
from profkit.report.units import UNKNOWN

_PADDING = 24.0
#: Width of the evidence, left of the slopegraph.
_EVIDENCE = 400.0
_GAP = 28.0
_ACCOUNT = 640.0
_WIDTH = 2 * _PADDING + _EVIDENCE + _GAP + SLOPES_WIDTH
#: Characters of a line: across the picture, the same in smaller text, of the evidence, and beside it.
_WIDE, _LONG, _NARROW, _BESIDE = 112, 140, 62, 80
#: Where the verdict's text begins.
_INDENT = 78.0
#: Most functions shown of a run without a verdict.
_MOST_BARS = 12
_STYLES = ("colours.css", "waterfall.css", "picture.css", "slopes.css", "trend.css")


def render(document: Document) -> str:
    verdict = document.first(VerdictBlock)
    head = _verdict(document, verdict) if verdict is not None else _facts(document)
    slopes = document.figures.slopes
    title, evidence = next(
        ((section.title, t) for section, t in document.every(Table) if section.role == "evidence"), ("", None)
    )
    right = _moved(document) if slopes is None else slopegraph(slopes)
    if evidence is None:
        left = _functions(document)
    else:
        left = _evidence(title, evidence)
        if len(_sides(evidence)) < 2:  # one run has no slopes
            left = _below(left, _functions(document))
    account = _account(document)
    below = _PADDING + head.height + 18
    top = below + (account.height + _GAP if account.height else 0.0)
    height = top + max(left.height, right.height) + _PADDING
    name = document.title if verdict is None else verdict.headline
    said = "" if verdict is None else verdict.summary
    description = " ".join(filter(None, (said, account.said, right.said)))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + element(
            "svg",
            element("title", escape(name), id="title"),
            element("desc", escape(description), id="desc"),
            f"<style>{assets(*_STYLES)}</style>",
            element("rect", width=_WIDTH, height=height, rx=10, class_="ground"),
            _at(0, 0, head.markup),
            _at(_PADDING, below, account.markup),
            _at(_PADDING, top, left.markup),
            _at(_PADDING + _EVIDENCE + _GAP, top, element("g", right.markup, class_="slopes")),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {number(_WIDTH)} {number(height)}",
            width=_WIDTH,
            height=height,
            role="img",
            aria_labelledby="title desc",
        )
        + "\n"
    )


def _at(x: float, y: float, markup: str) -> str:
    return element("g", markup, transform=f"translate({number(x)} {number(y)})") if markup else ""


def _verdict(document: Document, block: VerdictBlock) -> Drawing:
    headline = wrap_some(block.headline, 56, 3)
    sure = "" if block.confidence is None else f"Confidence {units.confidence(block.confidence)}"
    small = " · ".join(filter(None, (block.cause, sure)))
    summary = wrap_some(block.summary, _WIDE, 4)
    times = wrap_some(_times(document), _LONG, 3)
    parts = []
    y = 52.0
    for line in headline:
        parts.append(svg_text(line, _INDENT, y, "headline"))
        y += 32
    for kind, lines, step in (("small", [small], 22), ("summary", summary, 21), ("text", times, 22)):
        for line in filter(None, lines):
            parts.append(svg_text(line, _INDENT, y - 6, kind))
            y += step
    height, right = y - 8, number(_WIDTH - 10)
    band = (
        # Rounded at the top, like the picture.
        element(
            "path", d=f"M0 10a10 10 0 0 1 10 -10H{right}a10 10 0 0 1 10 10V{number(height)}H0z", class_="soft"
        ),
        element("path", d=f"M0 10a10 10 0 0 1 6 -9.2V{number(height)}H0z", class_="tone"),
        element("circle", cx=44, cy=44, r=17, class_="tone"),
        svg_text(SIGNS[block.tone], 44, 51, "sign"),
    )
    return Drawing(element("g", *band, *parts, class_=block.tone), height)


def _times(document: Document) -> str:
    """Return what both sides took, from a comparison's table below the verdict, or command and time of one run."""
    table = next((block for block in document.sections[0].blocks if isinstance(block, Table)), None)
    if table is None:
        facts = document.first(Facts) or Facts(())
        return " · ".join(value for label, value in facts.items if label in ("command", "time"))
    return " · ".join(
        f"{column.title} {before} → {after}" + (f" ({ratio})" if ratio else "")
        for column, before, after, ratio in zip(table.columns, *map(table.texts, table.rows), strict=True)
        if column.kind == "seconds" and UNKNOWN not in (before, after)
    )


def _account(document: Document) -> Drawing:
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Waterfall):
                drawn = waterfall_drawing(block, _ACCOUNT)
            elif isinstance(block, Trend):
                drawn = trend_drawing(block)
            else:
                continue
            heading = svg_text(section.title, 0, 14, "heading")
            return drawn._replace(markup=heading + _at(0, 28, drawn.markup), height=28 + drawn.height)
    return Drawing("", 0.0)


def _facts(document: Document) -> Drawing:
    """Return name and times of a run without a verdict."""
    facts = document.first(Facts) or Facts(())
    parts = [svg_text(document.title, _PADDING, 40, "headline plain")]
    y = 66.0
    beside = _beside([label for label, _ in facts.items], 90.0)
    for label, value in facts.items:
        parts.append(svg_text(label, _PADDING, y, "muted"))
        for line in wrap_some(value, _WIDE + 8, 3):
            parts.append(svg_text(line, _PADDING + beside, y, "text"))
            y += 20
    return Drawing("".join(parts), y - 10)


def _beside(labels: Sequence[str], least: float) -> float:
    """Return the x at which texts beside these labels begin."""
    return max(least, 8 + 7.2 * max(map(len, labels), default=0))


def _sides(evidence: Table) -> list[str]:
    return [column.title for column in evidence.columns[1:-1]]


def _below(upper: Drawing, lower: Drawing) -> Drawing:
    if not lower.height:
        return upper
    top = upper.height + _GAP
    return Drawing(upper.markup + _at(0, top, lower.markup), top + lower.height)


def _moved(document: Document) -> Drawing:
    """Return the sentences on moved functions, shown if these are too few for slopes."""
    parts, y = [], 14.0
    for section in document.sections:
        items = [i for b in section.blocks if isinstance(b, Bullets) for i in b.items]
        if section.role == "moved" and items:
            parts.append(svg_text(section.title, 0, y, "heading"))
            for line in (line for item in items for line in (*wrap_some(item, _BESIDE, 3), "")):
                y += 17 if line else 8
                parts.append(svg_text(line, 0, y, "text") if line else "")
    return Drawing("".join(parts), y if parts else 0.0)


def _evidence(title: str, table: Table) -> Drawing:
    """Return the signals with the values of all sides and what they say, or the rows of any other table."""
    signals = any(isinstance(cell, Measured) for row in table.rows for cell in row.cells)
    sides = _sides(table) if signals else [column.title for column in table.columns[1:]]
    parts = [svg_text("Evidence" if signals else title, 0, 14, "heading")]
    y = 40.0
    for row in table.rows:
        signal, *values = table.texts(row)
        says = values.pop() if signals else ""
        parts.append(svg_text(shorten_middle(signal, 54), 0, y, "signal"))
        y += 8
        for side, text, cell in zip(sides, values, row.cells[1 : 1 + len(sides)], strict=True):
            share, limit = (cell.bar, cell.limit) if isinstance(cell, Measured) else (None, None)
            x = _beside(sides, 74.0)
            parts.append(svg_text(side, 0, y + 11, "muted"))
            if share is not None:
                width = max(1.5, 110 * share)
                kind = "candidate" if side == sides[-1] else "baseline"
                parts.append(element("rect", x=x, y=y + 1, width=width, height=11, rx=2, class_=kind))
                if limit is not None:
                    parts.append(
                        element("rect", x=x + 110 * limit - 1, y=y - 1, width=2, height=15, class_="limit")
                    )
                x += 120
            room = 36 if share is not None else 54
            parts.append(svg_text(shorten_middle(text, room), x, y + 11, "text"))
            y += 18
        for line in wrap_some(says, _NARROW, 2):
            parts.append(svg_text(line, 0, y + 11, "muted"))
            y += 16
        y += 20
    return Drawing("".join(parts), y - 16)


def _functions(document: Document) -> Drawing:
    for section, table in document.every(Table):
        if {"name", "share"} <= {column.kind for column in table.columns}:
            return _bars(section.title, table)
    return Drawing("", 0.0)


def _bars(title: str, table: Table) -> Drawing:
    kinds = [column.kind for column in table.columns]
    name, share, time = kinds.index("name"), kinds.index("share"), kinds.index("seconds")
    rows = table.rows[:_MOST_BARS]
    values = [cell if isinstance(cell := row.cells[share], float) else 0.0 for row in rows]
    most = max(values, default=0.0) or 1.0
    parts = [svg_text(title, 0, 14, "heading")]
    for at, (row, value) in enumerate(zip(rows, values, strict=True)):
        y, width = 40.0 + 22 * at, max(1.0, 420 * value / most)
        label = shorten_middle(format_cell(table.columns[name], row.cells[name]), 36)
        text = f"{format_cell(table.columns[time], row.cells[time])}, {format_one('share', value)}"
        parts.append(svg_text(label, 280, y, "code end"))
        parts.append(element("rect", x=292, y=y - 10, width=width, height=12, rx=2, class_="candidate"))
        parts.append(svg_text(text, 300 + width, y, "muted"))
    return Drawing("".join(parts), 40.0 + 22 * len(rows))
