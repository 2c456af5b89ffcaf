"""`Document` → one HTML file that needs nothing else: no network, no library, no second file.

All text is written here as markup, so that it can be read without scripts, printed, and heard; the script of
the page draws only what one moves about in (calls, time line, the table of every function). A Content Security
Policy allows exactly this style and this script by their hashes, and no request at all, whatever a function is
called. Returns a string and prints nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TypeVar

from profkit.report import units
from profkit.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    HeatCell,
    HeatMap,
    Measured,
    Note,
    Pair,
    Row,
    Section,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
    format_cell,
    format_one,
    is_numeric,
)
from profkit.report.drawing import (
    SLOPES_WIDTH,
    WATERFALL_WIDTH,
    bar_shares,
    slopegraph,
    slopes_height,
    waterfall_drawing,
    waterfall_height,
    waterfall_text,
)
from profkit.report.figures import CallGraph, FunctionTable, Multiples, Slopes, Timeline
from profkit.report.htmlfigures import calls_section, functions_section, multiples_section, timeline_section
from profkit.report.markup import element, escape
from profkit.report.pagedata import page_json
from profkit.report.text import unbroken
from profkit.report.trends import TREND_WIDTH, trend_drawing, trend_height, trend_text

__all__ = ["render"]

_STYLES = ("colours.css", "page.css", "slopes.css", "waterfall.css", "heat.css", "trend.css", "figures.css")
_SCRIPTS = ("format.js", "model.js", "table.js", "calls.js", "timeline.js", "page.js")
#: What stands before the headline, so that good and bad do not differ by colour alone.
_SIGNS = {"bad": "✗", "good": "✓", "unsure": "?"}
#: Grounds of a heat map in ``heat.css``.
_HEAT_LEVELS = 6
_Kind = TypeVar("_Kind")


def render(document: Document) -> str:
    """Render a document as a page."""
    style, script = _assets()
    slopes = _figure(document, Slopes)
    functions, calls = _figure(document, FunctionTable), _figure(document, CallGraph)
    timeline, multiples = _figure(document, Timeline), _figure(document, Multiples)
    verdict = _verdict_of(document)
    title = document.title if verdict is None else f"{_named(verdict)} · {document.title}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    figures = [
        ""
        if calls is None or functions is None
        else calls_section(calls, compared=functions.before is not None),
        "" if timeline is None else timeline_section(timeline),
        "" if multiples is None else multiples_section(multiples),
        "" if functions is None else functions_section(functions),
    ]
    head = "".join(
        (
            '<meta charset="utf-8">',
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            element("title", escape(title)),
            f"<style>{style}</style>",
        )
    )
    body = "".join(
        (
            '<a class="skip" href="#answer">To the answer</a>',
            element("header", escape(document.title), class_="top"),
            '<main id="answer">',
            *_lead(document, slopes),
            *_rest(document, figures),
            "</main>",
            '<div id="tip" role="tooltip" hidden></div>',
            f'<script type="application/json" id="data">{page_json(functions, calls, timeline)}</script>',
            f"<script>{script}</script>",
        )
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


@cache
def _assets() -> tuple[str, str]:
    """Style and script of the page; the script's parts share one scope, and none with anything else."""
    files = resources.files("profkit.report") / "assets"
    style, script = (
        "\n".join((files / name).read_text(encoding="utf-8") for name in names)
        for names in (_STYLES, _SCRIPTS)
    )
    return style, f'(() => {{\n"use strict";\n{script}}})();\n'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _figure(document: Document, kind: type[_Kind]) -> _Kind | None:
    return next((figure for figure in document.figures if isinstance(figure, kind)), None)


def _verdict_of(document: Document) -> VerdictBlock | None:
    return next((b for s in document.sections for b in s.blocks if isinstance(b, VerdictBlock)), None)


def _named(verdict: VerdictBlock) -> str:
    return f"{verdict.headline} ({verdict.cause})" if verdict.cause else verdict.headline


def _lead(document: Document, slopes: Slopes | None) -> Iterator[str]:
    """What is seen first: the verdict, what it rests on beside the ranks, and what to do."""
    if _verdict_of(document) is None:
        yield element("h1", escape(document.title), class_="plain")
    for section in document.sections[:1]:
        yield '<section class="first">' + "".join(map(_block, section.blocks)) + "</section>"
    for section in document.sections[1:]:
        if section.role == "account":
            yield _section(section, "".join(map(_block, section.blocks)))
    evidence = [s for s in document.sections[1:] if s.role == "evidence"]
    if evidence or slopes is not None:
        yield '<div class="pair">'
        for section in evidence:
            yield _section(section, "".join(_evidence(b) for b in section.blocks))
        if slopes is not None:
            yield _slopes(slopes)
        yield "</div>"
    for section in document.sections[1:]:
        if section.role == "advice":
            yield _section(section, "".join(map(_block, section.blocks)))


def _rest(document: Document, figures: list[str]) -> Iterator[str]:
    sections = [s for s in document.sections[1:] if not s.role]
    for section in sections:
        if not section.detail:
            yield _section(section, "".join(map(_block, section.blocks)))
    yield from figures
    for section in sections:
        if section.detail:
            yield element(
                "details",
                element("summary", element("h2", escape(section.title))),
                *map(_block, section.blocks),
                class_="card",
            )


def _section(section: Section, content: str) -> str:
    return element(
        "section", element("h2", escape(section.title)), content, class_=f"card {section.role}".strip()
    )


def _slopes(slopes: Slopes) -> str:
    what = "self time" if slopes.by == "tottime" else "cumulative time"
    named = sum(1 for line in slopes.lines if line.tone)
    more = f" {slopes.hidden:,} more moved; the table below marks them." if slopes.hidden else ""
    caption = (
        f"Rank by {what}, most at the top, on a logarithmic scale. Functions that moved beyond the noise are named; "
        f"the others are faint.{more}"
        if named
        else f"Rank by {what}, most at the top, on a logarithmic scale. No function moved beyond the noise."
    )
    picture = element(
        "svg",
        slopegraph(slopes),
        viewBox=f"0 0 {SLOPES_WIDTH:g} {slopes_height(slopes):g}",
        role="img",
        aria_label=f"Ranks of functions by {what}, baseline against candidate",
        class_="slopes",
    )
    figure = element("figure", picture, element("figcaption", escape(caption)))
    return element("section", element("h2", "How the ranking moved"), figure, class_="card")


def _evidence(block: Block) -> str:
    """Evidence as paired bars; what is no such table is laid out as everywhere."""
    if not isinstance(block, Table) or len(block.columns) != 4:
        return _block(block)
    rows = []
    for row in block.rows:
        signal, before, after, says = (
            format_cell(c, v) for c, v in zip(block.columns, row.cells, strict=True)
        )
        shares = bar_shares(*(cell.value if isinstance(cell, Measured) else None for cell in row.cells[1:3]))
        sides = "".join(
            element(
                "div",
                element("dt", label),
                element("dd", _bar(share, label) + element("span", escape(text))),
            )
            for label, text, share in zip(
                ("baseline", "candidate"), (before, after), shares or (None, None), strict=True
            )
        )
        rows.append(
            element("li", element("h3", escape(signal)), element("dl", sides), element("p", escape(says)))
        )
    return element("ul", *rows, class_="signals")


def _bar(share: float | None, side: str) -> str:
    if share is None:
        return ""
    bar = element("rect", width=f"{100 * max(share, 0.004):.1f}%", height="100%", rx=2)
    return element("svg", bar, class_=f"bar {side}", aria_hidden="true")


def _block(block: Block) -> str:
    if isinstance(block, VerdictBlock):
        return _verdict(block)
    if isinstance(block, Waterfall):
        return _waterfall(block)
    if isinstance(block, HeatMap):
        return _heat_map(block)
    if isinstance(block, Trend):
        return _trend(block)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Facts):
        items = (element("div", element("dt", escape(k)), element("dd", escape(v))) for k, v in block.items)
        return element("dl", *items, class_="facts")
    if isinstance(block, Bullets):
        if block.commands:
            return element(
                "pre", "\n".join(element("code", escape(item)) for item in block.items), tabindex=0
            )
        return element("ul", *(element("li", escape(unbroken(item))) for item in block.items))
    if isinstance(block, Note):
        return element("p", escape(unbroken(block.text)), class_=f"note {block.tone}".strip())
    raise AssertionError(f"no such block: {block!r}")


def _verdict(block: VerdictBlock) -> str:
    sure = ""
    if block.confidence is not None:
        share = min(1.0, max(0.0, block.confidence))
        bar = element(
            "svg",
            element("rect", width=f"{100 * share:.0f}%", height="100%", rx=2),
            class_="bar sure",
            aria_hidden="true",
        )
        sure = element("p", f"Confidence {units.confidence(block.confidence)} ", bar, class_="confidence")
    sign = element("span", _SIGNS.get(block.tone, "?"), class_="sign", aria_hidden="true")
    return element(
        "div",
        sign,
        element("h1", _headline(block)),
        sure,
        element("p", escape(unbroken(block.summary)), class_="summary"),
        class_=f"verdict {block.tone}",
    )


def _headline(block: VerdictBlock) -> str:
    """Set the name of the cause, which scripts match, smaller than the words before it."""
    if not block.cause:
        return escape(block.headline)
    return f"{escape(block.headline)} {element('small', escape(f'({block.cause})'))}"


def _waterfall(block: Waterfall) -> str:
    picture = element(
        "svg",
        waterfall_drawing(block),
        viewBox=f"0 0 {WATERFALL_WIDTH:g} {waterfall_height(block):g}",
        role="img",
        aria_label=waterfall_text(block),
        class_="waterfall",
    )
    note = element("p", escape(unbroken(block.note)), class_="note") if block.note else ""
    return element("div", picture, class_="wide", tabindex=0, role="region", aria_label="account") + note


def _heat_map(block: HeatMap) -> str:
    heads = [element("th", escape(name), scope="col") for name in block.columns]
    head = element("tr", element("th", escape(block.corner), class_="corner"), *heads)
    rows = [
        element("tr", element("th", escape(title), scope="row"), *map(_heat_cell, cells))
        for title, cells in block.rows
    ]
    body = element("table", element("thead", head), element("tbody", *rows), class_="heat")
    note = element("p", escape(unbroken(block.note)), class_="note") if block.note else ""
    return element("div", body, class_="wide", tabindex=0, role="region", aria_label="heat map") + note


def _trend(block: Trend) -> str:
    picture = element(
        "svg",
        trend_drawing(block),
        viewBox=f"0 0 {TREND_WIDTH:g} {trend_height(block):g}",
        role="img",
        aria_label=trend_text(block),
        class_="trend",
    )
    note = element("p", escape(unbroken(block.note)), class_="note") if block.note else ""
    return element("div", picture, class_="wide", tabindex=0, role="region", aria_label="trend") + note


def _heat_cell(cell: HeatCell) -> str:
    level = "none" if cell.heat is None else str(min(_HEAT_LEVELS - 1, int(cell.heat * _HEAT_LEVELS)))
    mark = '<span aria-hidden="true">●</span> <span class="hear">best</span>' if cell.marked else ""
    return element("td", mark + escape(cell.text), class_=f"h{level}")


def _table(table: Table) -> str:
    if not table.rows:
        return element("p", escape(unbroken(table.note)), class_="note") if table.note else ""
    marks = any(row.marked for row in table.rows)
    heads = (
        [element("th", element("span", "moved", class_="hear"), class_="mark", scope="col")] if marks else []
    )
    heads += [
        element(
            "th", escape(column.title), scope="col", class_="number" if is_numeric(column) else column.kind
        )
        if column.title
        else element("td")
        for column in table.columns
    ]
    rows = "".join(_row(table.columns, row, marks) for row in table.rows)
    body = element("table", element("thead", element("tr", *heads)), element("tbody", rows), class_="said")
    note = element("p", escape(unbroken(table.note)), class_="note") if table.note else ""
    # What is wider than the window can be moved by keyboard too.
    return element("div", body, class_="wide", tabindex=0, role="region", aria_label="table") + note


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
            # A long path is broken where its parts end.
            text = element("code", element("bdi", text.replace("/", "/<wbr>")))
        elif column.kind == "change":
            kind += " change"
        if column.kind == "name":
            cells.append(element("th", text, scope="row", class_=kind))
        else:
            cells.append(element("td", text, class_=kind))
    return element("tr", *cells, class_=f"{row.tone} {'marked' if row.marked else ''}".strip() or None)


def _ranks(cell: Pair) -> str:
    before, after = (format_one("rank", side) for side in cell)
    return f"#{after}" if before == after else f"#{before} → #{after}"
