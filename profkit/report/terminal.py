"""`Document` → text for a terminal at least 40 columns wide; rich is loaded only for colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from profkit.report import units
from profkit.report.document import (
    SIGNS,
    Bullets,
    Document,
    Facts,
    HeatMap,
    Note,
    Section,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
)
from profkit.report.drawn_blocks import sparks, trend_lines, waterfall_lines
from profkit.report.layout import MOST_LINES, Line, Span, table_lines, text_of
from profkit.report.text import cell_width, pad, shorten_middle, wrap_some

#: Columns of a heat map that are named although they do not fit.
_NAMED = 3
#: Least width of tables; a narrower terminal wraps them.
MIN_WIDTH = 40
#: Most width of prose: longer lines are hard to read.
PROSE_WIDTH = 110

_SHORTENED = "… marks shortened text; --format md and --format json have it in full."
_TONES = {"bad": "bold red", "good": "bold green", "unsure": "bold yellow", "": ""}
#: Colours of a heat map from good to bad, with readable ink.
_HEAT = (
    "black on #9bd3a5",
    "black on #cfe8bd",
    "black on #f2efc2",
    "black on #f6d196",
    "black on #eda47e",
    "white on #b3261e",
)
_ASCII = str.maketrans(
    "…→–×µ●✗✓█▉▊▋▌▍▎▏↑↗↘↓·•“”─▲▁▂▃▄▅▆▇",
    '~>-xu*!=#####---^/\\v|*""-^_.-=+*%',
)


def render(
    document: Document,
    *,
    width: int = 80,
    height: int | None = None,
    color_system: str | None = None,
    ascii_only: bool = False,
) -> str:
    """Return a document as text: lines without trailing spaces, each ended by a newline.

    A report longer than `height` lines repeats its answer at the end, near the prompt. `color_system` is
    rich's ``standard``, ``256``, ``truecolor`` or ``windows``, ``None`` for plain text. `ascii_only` replaces
    the few signs beyond ASCII and escapes names.
    """
    width = max(MIN_WIDTH, width)
    lines: list[Line] = []
    shortened = False
    for section in document.sections:
        if section.role == "reproduce":
            # The reader has just typed these commands.
            continue
        shortened |= _section(section, width, lines)
    while lines and not lines[-1]:
        lines.pop()
    if shortened and not document.brief:
        lines += [[], *_prose(_SHORTENED, width, "dim")]
    verdict = document.first(VerdictBlock)
    if height is not None and len(lines) >= height and verdict is not None and not document.brief:
        lines += [[], *_headline(verdict, width)]
    if ascii_only:
        lines = [[(_plain(text), style) for text, style in line] for line in lines]
    if color_system is None:
        return "".join(text_of(line) + "\n" for line in lines)
    return _colored(lines, color_system)


def _plain(text: str) -> str:
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def _colored(lines: list[Line], color_system: str) -> str:
    from rich.console import COLOR_SYSTEMS
    from rich.style import Style

    system = COLOR_SYSTEMS[color_system]

    def styled(text: str, style: str) -> str:
        return Style.parse(style).render(text, color_system=system) if style and text.strip() else text

    return "".join("".join(styled(text, style) for text, style in line) + "\n" for line in lines)


def _section(section: Section, width: int, lines: list[Line]) -> bool:
    """Append the lines of a section; return whether any of its cells was shortened."""
    shortened = False
    if section.title:
        lines.append([(section.title, "bold")])
    for block in section.blocks:
        if isinstance(block, VerdictBlock):
            lines += [*_headline(block, width), *_prose(block.summary, width, "", "  "), []]
        elif isinstance(block, Waterfall):
            lines += [*waterfall_lines(block, width), *_note(block.note, width)]
        elif isinstance(block, HeatMap):
            lines.extend(_heat_map(block, width))
        elif isinstance(block, Trend):
            lines.extend(_trend(block, width))
        elif isinstance(block, Table):
            rows, cut = table_lines(block, width)
            shortened |= cut
            lines += [*rows, *_note(block.note, width)]
        elif isinstance(block, Facts):
            lines.extend(_facts(block, width))
        elif isinstance(block, Bullets):
            lines.extend(_bullets(block, width))
        elif isinstance(block, Note):
            lines.extend(_prose(block.text, width, _TONES[block.tone], "  " if section.title else ""))
    if lines and lines[-1]:
        lines.append([])
    return shortened


def _prose(text: str, width: int, style: str, indent: str = "") -> Iterator[Line]:
    for line in wrap_some(text, min(width, PROSE_WIDTH) - len(indent), MOST_LINES):
        yield [(indent, ""), (line, style)]


def _note(text: str, width: int) -> Iterator[Line]:
    return _prose(text, width, "dim", "  ") if text else iter(())


def _headline(block: VerdictBlock, width: int) -> Iterator[Line]:
    style = _TONES[block.tone]
    sure = "" if block.confidence is None else f"confidence {units.confidence(block.confidence)}"
    head = f"{SIGNS[block.tone]} {block.named}"
    if cell_width(head) + 3 + len(sure) <= width:
        yield [(head, style), ("   " + sure if sure else "", "bold")]
    else:
        for line in wrap_some(head, width, MOST_LINES):
            yield [(line, style)]
        if sure:
            yield [("  " + sure, "bold")]


def _heat_map(block: HeatMap, width: int) -> Iterator[Line]:
    """Yield cells coloured from green to red; the best one has a mark besides its colour."""
    titles = max(cell_width(text) for text in (block.corner, *(title for title, _ in block.rows)))
    titles = min(titles, max(8, width // 3))
    widths = [
        max(cell_width(name), *(cell_width(cells[at].shown) for _, cells in block.rows)) + 2
        for at, name in enumerate(block.columns)
    ]
    shown = _columns_that_fit(block, widths, width - 2 - titles)
    head = "".join(pad(block.columns[at], widths[at] - 1, right=True) + " " for at in shown)
    yield [("  " + pad(shorten_middle(block.corner, titles), titles), "dim"), (head, "bold")]
    for title, cells in block.rows:
        line: Line = [("  " + pad(shorten_middle(title, titles), titles), "bold")]
        for at in shown:
            heat = cells[at].heat
            style = "dim" if heat is None else _HEAT[min(len(_HEAT) - 1, int(heat * len(_HEAT)))]
            line.append((pad(cells[at].shown, widths[at] - 1, right=True) + " ", style))
        yield line
    notes = [block.note] if block.note else []
    missing = [name for at, name in enumerate(block.columns) if at not in shown]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        notes.append(f"Columns left out: {', '.join(missing[:_NAMED])}{more}; they differ less.")
    yield from _note(" ".join(notes), width)


def _columns_that_fit(block: HeatMap, widths: Sequence[int], room: int) -> list[int]:
    """Return the columns to show, in order: those with a marked cell, then those that vary most."""

    def tells(at: int) -> tuple[bool, float]:
        cells = [cells[at] for _, cells in block.rows]
        heats = [cell.heat for cell in cells if cell.heat is not None]
        return any(cell.marked for cell in cells), max(heats, default=0.0) - min(heats, default=0.0)

    kept: list[int] = []
    for at in sorted(range(len(widths)), key=tells, reverse=True):
        if kept and widths[at] > room:
            break
        kept.append(at)
        room -= widths[at]
    return sorted(kept)


def _trend(block: Trend, width: int) -> Iterator[Line]:
    titles = max(cell_width(line.title) for line in block.lines)
    reach = max(cell_width(spark.reach) for spark in sparks(block, 1)[0])
    yield from trend_lines(block, max(8, width - titles - reach - 6))


def _facts(block: Facts, width: int) -> Iterator[Line]:
    label_width = max((cell_width(label) for label, _ in block.items), default=0)
    for label, value in block.items:
        yield from _beside((pad(label, label_width) + "  ", "dim"), value, max(20, width - label_width - 2))


def _bullets(block: Bullets, width: int) -> Iterator[Line]:
    for item in block.items:
        if block.commands:
            yield [("    ", ""), (item, "cyan")]
        else:
            yield from _beside(("  • ", ""), item, min(width, PROSE_WIDTH) - 4)


def _beside(first: Span, text: str, width: int) -> Iterator[Line]:
    """Yield a text of at most `width` columns to the right of a label or sign."""
    for line in wrap_some(text, width, MOST_LINES):
        yield [first, (line, "")]
        first = (" " * cell_width(first[0]), "")
