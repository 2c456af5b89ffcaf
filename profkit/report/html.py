"""`Document` → one HTML file that needs nothing else: no network, no library, no second file.

The answer comes first: the verdict, the account, what to do, what it rests on. Then the pictures: the time
line, the flame graph, the ranking, one table of functions. What is looked up is folded below. All text is
written here as markup, so that it can be read without scripts, printed, and heard; the script of the page draws
only what one moves about in. A Content Security Policy allows exactly this style and this script by their
hashes, and no request at all, whatever a function is called. Returns a string and prints nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
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
    evidence_bars,
    slopegraph,
    slopes_height,
    spans,
    waterfall_rows,
)
from profkit.report.figures import CallGraph, FunctionTable, Multiples, Slopes, StackGraph, Timeline
from profkit.report.htmlfigures import (
    calls_part,
    functions_section,
    multiples_part,
    stacks_section,
    timeline_section,
)
from profkit.report.markup import element, escape
from profkit.report.pagedata import page_json
from profkit.report.text import unbroken
from profkit.report.trends import TREND_WIDTH, trend_drawing, trend_height, trend_text

__all__ = ["render"]

_STYLES = ("colours.css", "page.css", "slopes.css", "heat.css", "trend.css", "figures.css", "flame.css")
_SCRIPTS = ("format.js", "model.js", "table.js", "calls.js", "flame.js", "timeline.js", "page.js")
#: What stands before the headline, so that good and bad do not differ by colour alone.
_SIGNS = {"bad": "✗", "good": "✓", "unsure": "?"}
#: Rows of evidence that are not folded.
_FIRST_SIGNALS = 3
#: Grounds of a heat map in ``heat.css``.
_HEAT_LEVELS = 6
_Kind = TypeVar("_Kind")


def render(document: Document) -> str:
    """Render a document as a page."""
    style, script = _assets()
    functions, calls = _figure(document, FunctionTable), _figure(document, CallGraph)
    stacks, timeline = _figure(document, StackGraph), _figure(document, Timeline)
    verdict = _verdict_of(document)
    title = document.title if verdict is None else f"{_named(verdict)} · {document.title}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
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
            *_answer(document),
            *_pictures(document),
            *_folded(document),
            "</main>",
            f'<script type="application/json" id="data">{page_json(functions, calls, stacks, timeline)}</script>',
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


def _of_role(document: Document, role: str) -> list[Section]:
    return [section for section in document.sections[1:] if section.role == role]


def _blocks(section: Section) -> str:
    return "".join(map(_block, section.blocks))


def _answer(document: Document) -> Iterator[str]:
    """What is seen first: the verdict, where the time went beside what to do, and what that rests on."""
    if _verdict_of(document) is None:
        yield element("h1", escape(document.title), class_="plain")
    for section in document.sections[:1]:
        yield '<section class="first">' + _blocks(section) + "</section>"
    account = [_section(section, _blocks(section)) for section in _of_role(document, "account")]
    advice = [_section(section, _blocks(section)) for section in _of_role(document, "advice")]
    if _drawn(document):
        advice += [
            _section(section, _blocks(section)) for section in _of_role(document, "") if _is_said(section)
        ]
    beside = bool(advice) and any(
        isinstance(block, Waterfall) for section in _of_role(document, "account") for block in section.blocks
    )
    if beside:
        yield element("div", *account, element("div", *advice), class_="pair account")
    else:
        yield from account
    for section in _of_role(document, "trust"):
        score, *rest = section.blocks
        about = f"{section.title}: {score.text}" if isinstance(score, Note) else section.title
        yield _fold(about, "".join(map(_block, rest)))
    for section in _of_role(document, "evidence"):
        yield _section(section, _evidence(section.blocks))
    if not beside:
        yield from advice


def _pictures(document: Document) -> Iterator[str]:
    """What is drawn, and without a drawing of functions every section there is."""
    timeline, stacks = _figure(document, Timeline), _figure(document, StackGraph)
    functions, slopes = _figure(document, FunctionTable), _figure(document, Slopes)
    for section in _of_role(document, "iterations"):
        yield _section(section, _said_first(section, "In each iteration"))
    if timeline is not None:
        yield timeline_section(timeline)
    if stacks is not None and functions is not None:
        yield stacks_section(stacks)
    moved = [_section(section, _blocks(section)) for section in _of_role(document, "moved")]
    if slopes is not None:
        yield element("div", _slopes(slopes), *moved, class_="pair")
    else:
        yield from moved
    tables = _of_role(document, "functions")
    if functions is not None:
        # A script draws one table of all; what reads without one has these.
        yield functions_section(
            functions,
            "".join(element("h3", escape(section.title)) + _blocks(section) for section in tables),
        )
    else:
        yield from (_section(section, _blocks(section)) for section in tables)
    if not _drawn(document):
        for section in _of_role(document, ""):
            yield (
                _fold(section.title, _blocks(section))
                if section.detail
                else _section(section, _blocks(section))
            )


def _folded(document: Document) -> Iterator[str]:
    """What is looked up: who calls whom, processes, machines and settings, how to reproduce."""
    functions, calls = _figure(document, FunctionTable), _figure(document, CallGraph)
    multiples = _figure(document, Multiples)
    if calls is not None and functions is not None:
        yield _fold("Who calls whom", calls_part(calls, compared=functions.before is not None), "calls")
    if multiples is not None:
        yield _fold("Process by process", multiples_part(multiples))
    if _drawn(document):
        for section in _of_role(document, ""):
            if not _is_said(section):
                yield _fold(section.title, _blocks(section))
    for section in _of_role(document, "reproduce"):
        yield _fold(section.title, _blocks(section))


def _said_first(section: Section, tables: str) -> str:
    """Sentences and facts, with the tables folded below them."""
    said = [block for block in section.blocks if isinstance(block, (Facts, Note))]
    rest = [block for block in section.blocks if not isinstance(block, (Facts, Note))]
    notes = [block for block in said if isinstance(block, Note) and not block.tone]
    first = "".join(_block(block) for block in said if block not in notes)
    folded = "".join(map(_block, (*rest, *notes)))
    return first + element("details", element("summary", escape(tables)), folded)


def _drawn(document: Document) -> bool:
    """Whether it is a run or a comparison, whose functions are drawn, rather than a study of its own."""
    return _figure(document, FunctionTable) is not None


def _is_said(section: Section) -> bool:
    """Whether it is no more than sentences."""
    return not section.detail and all(isinstance(block, (Bullets, Note)) for block in section.blocks)


def _fold(title: str, content: str, name: str | None = None) -> str:
    return element(
        "details", element("summary", element("h2", escape(title))), content, class_="card", id=name
    )


def _section(section: Section, content: str) -> str:
    return element(
        "section", element("h2", escape(section.title)), content, class_=f"card {section.role}".strip()
    )


def _slopes(slopes: Slopes) -> str:
    what = "self time" if slopes.by == "tottime" else "cumulative time"
    named = sum(1 for line in slopes.lines if line.tone)
    more = f" {slopes.hidden:,} more moved; the table below marks them." if slopes.hidden else ""
    if named:
        said = (
            "Functions that moved beyond the noise are named: red took more seconds, blue fewer, the thicker the "
            f"more. Functions that wait are left out.{more}"
        )
    else:
        said = "No function moved beyond the noise."
    picture = element(
        "svg",
        slopegraph(slopes),
        viewBox=f"0 0 {SLOPES_WIDTH:g} {slopes_height(slopes):g}",
        role="img",
        aria_label=f"Ranks of functions by {what}, baseline against candidate",
        class_="slopes",
    )
    caption = f"Rank by {what}, most at the top, on a logarithmic scale. {said}"
    figure = element("figure", picture, element("figcaption", escape(caption)))
    return element("section", element("h2", "How the ranking moved"), figure, class_="card")


def _evidence(blocks: Sequence[Block]) -> str:
    """Evidence as bars, the rest of it folded; what is no such table is laid out as everywhere."""
    first, *others = blocks
    if not isinstance(first, Table) or not any(isinstance(c, Measured) for r in first.rows for c in r.cells):
        return "".join(map(_block, blocks))
    sides = [column.title for column in first.columns[1:-1]]
    items = [_signal(first, row, sides) for row in first.rows]
    shown, rest = items[:_FIRST_SIGNALS], items[_FIRST_SIGNALS:]
    below = (element("ul", *rest, class_="signals") if rest else "") + "".join(map(_block, others))
    words = (
        *([f"{len(rest)} more"] if rest else []),
        *(["how the order of functions changed"] if others else []),
    )
    about = " and ".join(words)
    return element("ul", *shown, class_="signals") + (
        element("details", element("summary", about), below) if below else ""
    )


def _signal(table: Table, row: Row, sides: Sequence[str]) -> str:
    signal, *values, says = (format_cell(c, v) for c, v in zip(table.columns, row.cells, strict=True))
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
        for at, (side, text, (share, limit)) in enumerate(
            zip(sides, values, evidence_bars(row.cells[1:-1]), strict=True)
        )
    )
    return element("li", element("h3", escape(signal)), element("dl", drawn), element("p", escape(says)))


def _bar(share: float | None, side: str, limit: float | None = None) -> str:
    if share is None:
        return ""
    bar = element("rect", width=f"{100 * max(share, 0.004):.1f}%", height="100%", rx=2)
    if limit is not None:
        bar += element("line", x1=f"{100 * limit:.1f}%", x2=f"{100 * limit:.1f}%", y1=0, y2="100%")
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
    """Draw one bar under the other; text flows around them, so that it reads on a phone too."""
    rows = []
    offset = int(block.before_s is not None)
    for at, ((kind, left, right), (title, seconds, about)) in enumerate(
        zip(spans(block), waterfall_rows(block), strict=True)
    ):
        step = None if kind == "wall" else block.steps[at - offset]
        faint = " noise" if step is not None and not step.beyond else ""
        if step is not None and block.before_s is None:
            kind = "part"  # of one run: no more and no less than of another
        bar = element(
            "rect",
            x=f"{100 * left:.2f}%",
            width=f"{max(0.3, 100 * (right - left)):.2f}%",
            height="100%",
            rx=2,
            class_=f"step-{kind}",
        )
        rows.append(
            element(
                "li",
                element("span", escape(title), class_="step"),
                element("svg", bar, class_="bar", aria_hidden="true"),
                element("span", escape(seconds), class_="took"),
                element("span", escape(about), class_="about", title=about or None),
                class_=f"{kind}{faint}",
            )
        )
    note = element("p", escape(unbroken(block.note)), class_="note") if block.note else ""
    return element("ol", *rows, class_="waterfall") + note


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
