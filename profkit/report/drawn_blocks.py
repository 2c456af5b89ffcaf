"""What is drawn and written as text: the account as a waterfall, and trends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from profkit.report import units
from profkit.report.document import Trend, TrendLine, Waterfall, format_one
from profkit.report.layout import Line
from profkit.report.markup import Drawing, element, escape, svg_text
from profkit.report.text import cell_width, pad, shorten_middle

#: Height of a row: a line of text, and a bar below it.
_ROW = 36.0
#: Percent of the width for titles; seconds have the rest.
_TITLES = 66
#: Most characters of a step's contents; least and most columns of the bars in text.
_ABOUT, _LEAST_BAR, _MOST_BAR = 60, 8, 24
#: Colours without a style sheet.
_FILLS = {"wall": "#8a8f98", "more": "#d9534f", "less": "#3d8bd4", "part": "#3d8bd4"}
_STYLES = {"wall": "dim", "more": "red", "less": "green", "part": ""}


class WaterfallRow(NamedTuple):
    """One row; its bar runs from `left` to `right`, 0 to 1; `sure` is false within the noise."""

    kind: str
    left: float
    right: float
    title: str
    seconds: str
    about: tuple[str, ...] = ()
    sure: bool = True


def waterfall_rows(waterfall: Waterfall) -> list[WaterfallRow]:
    """Return the wall before (for a comparison), every step, and the wall after."""
    alone = waterfall.before_s is None
    edges = [waterfall.before_s or 0.0]
    for step in waterfall.steps:
        edges.append(edges[-1] + step.seconds)
    low, high = min(0.0, *edges), max(*edges, waterfall.after_s, 1e-12)

    def reach(start: float, end: float) -> tuple[float, float]:
        left, right = ((value - low) / (high - low) for value in sorted((start, end)))
        return left, right

    def wall(title: str, seconds: float) -> WaterfallRow:
        return WaterfallRow("wall", *reach(0.0, seconds), title, units.seconds(seconds))

    rows = [] if waterfall.before_s is None else [wall(waterfall.sides[0], waterfall.before_s)]
    for step, (start, end) in zip(waterfall.steps, pairwise(edges), strict=True):
        sign = "+" if step.seconds > 0 and not alone else ""
        share = f" ({units.share(step.share)})" if math.isfinite(step.share) else ""
        kind = "part" if alone else "more" if step.seconds >= 0 else "less"
        seconds = f"{sign}{units.seconds(step.seconds)}{share}"
        rows.append(WaterfallRow(kind, *reach(start, end), step.title, seconds, step.about, step.beyond))
    return [*rows, wall("wall" if alone else waterfall.sides[1], waterfall.after_s)]


def waterfall_drawing(waterfall: Waterfall, width: float | str = "100%") -> Drawing:
    """Draw an ``svg`` element whose bars scale with its width; text keeps its size."""
    rows = waterfall_rows(waterfall)
    said = "; ".join(f"{row.title} {row.seconds}" for row in rows)
    height = _ROW * len(rows)
    drawn = element(
        "svg",
        *(_drawn_row(row, _ROW * at) for at, row in enumerate(rows)),
        width=width,
        height=height,
        role="img",
        aria_label=f"{said}.",
        font_size=14,
        fill="currentColor",
        class_="waterfall",
    )
    return Drawing(drawn, height)


def _drawn_row(row: WaterfallRow, y: float) -> str:
    about = _fitting(row.about, _ABOUT)
    aside = element("tspan", escape(about), dx=8, font_size=12, opacity=0.8, class_="about") if about else ""
    weight, kind = (600, "wall") if row.kind == "wall" else (None, None)
    # The inner ``svg`` cuts titles that are too long.
    title = element(
        "svg",
        element("text", escape(row.title), aside, y=15, font_weight=weight, class_=kind),
        element("title", escape(" ".join((row.title, row.seconds, ", ".join(row.about))).strip())),
        y=y,
        width=f"{_TITLES}%",
        height=_ROW,
    )
    seconds = element(
        "text", escape(row.seconds), x="100%", y=y + 15, text_anchor="end", font_weight=weight, class_=kind
    )
    bar = element(
        "rect",
        x=f"{100 * row.left:.2f}%",
        y=y + 20,
        width=f"{max(0.3, 100 * (row.right - row.left)):.2f}%",
        height=10,
        rx=2,
        fill=_FILLS[row.kind],
        opacity=None if row.sure else 0.4,
        class_=f"step-{row.kind}",
    )
    return title + seconds + bar


def _fitting(names: tuple[str, ...], width: int) -> str:
    """Return as many of the names as fit, at least the first one, shortened."""
    count, used = 1, sum(map(cell_width, names[:1]))
    for name in names[1:]:
        used += len(", ") + cell_width(name)
        if used > width:
            break
        count += 1
    return shorten_middle(", ".join(names[:count]), width)


def waterfall_lines(waterfall: Waterfall, width: int) -> Iterator[Line]:
    """Yield the waterfall as text: title, bar, seconds, and contents if there is room."""
    rows = waterfall_rows(waterfall)
    titles = max(cell_width(row.title) for row in rows)
    numbers = max(cell_width(row.seconds) for row in rows)
    room = width - titles - numbers - 6
    bars = max(_LEAST_BAR, min(_MOST_BAR, room // 2)) if room >= _LEAST_BAR else 0
    left = room - bars - 2
    for row in rows:
        first = round(row.left * bars)
        count = max(1, round(row.right * bars) - first)
        bar = " " * min(first, bars - 1) + "█" * count if bars else ""
        said = _fitting(row.about, left) if row.about and left >= 12 else ""
        style = _STYLES[row.kind] if row.sure and waterfall.before_s is not None else ""
        yield [
            ("  " + pad(row.title, titles) + "  ", ""),
            (pad(bar, bars) + "  ", style if row.sure else "dim"),
            (pad(row.seconds, numbers, right=True), "bold" if row.kind != "wall" and row.sure else ""),
            ("  " + said if said else "", "dim"),
        ]


#: Width of the drawing in its own units, and where the lines begin and end.
_WIDTH = 1000.0
_LEFT, _RIGHT = 150.0, 890.0
#: Heights of the first line, which the trend is about, of the others, and of the text around them.
_FIRST, _OTHER, _GAP, _HEAD, _FOOT = 150.0, 44.0, 14.0, 22.0, 24.0
#: Height of a line of marks' words, and the width of a letter.
_WORDS, _LETTER = 16.0, 7.5
#: Signs of a line of text, from the least value to the greatest.
_SIGNS = "▁▂▃▄▅▆▇█"
#: Least ratio of values that fills the height, so that noise looks small.
_LEAST_RATIO = 1.1
#: Most points that are each drawn as a dot.
_DOTS = 400


class Spark(NamedTuple):
    """One line of text: its title, a sign for each column, and the range of its values."""

    title: str
    signs: str
    reach: str


def _limits(line: TrendLine) -> tuple[float, float]:
    known = [value for value in line.values if value is not None]
    low, high = min(known), max(known)
    return low, max(high, low * _LEAST_RATIO, low + 1e-12)


def sparks(trend: Trend, width: int) -> tuple[list[Spark], str]:
    """Return a trend as lines of signs, each a median if points exceed `width`, and a line of pointers."""
    count = len(trend.labels)
    edges = np.linspace(0, count, min(count, width) + 1).round().astype(int).tolist()
    columns = list(pairwise(edges))
    found = []
    for line in trend.lines:
        low, high = _limits(line)
        signs = []
        for begin, end in columns:
            known = [value for value in line.values[begin:end] if value is not None]
            if not known:
                signs.append(" ")
                continue
            height = (float(np.median(known)) - low) / (high - low)
            signs.append(_SIGNS[min(len(_SIGNS) - 1, int(height * len(_SIGNS)))])
        known = [value for value in line.values if value is not None]
        reach = " – ".join(format_one(line.kind, end(known)) for end in (min, max))
        found.append(Spark(line.title, "".join(signs), reach))
    pointers = [" "] * len(columns)
    for mark in trend.marks:
        pointers[next(i for i, (begin, end) in enumerate(columns) if begin <= mark.at < end)] = "▲"
    return found, "".join(pointers).rstrip()


def trend_lines(trend: Trend, columns: int) -> Iterator[Line]:
    """Yield the trend as text: its lines, the pointers to its changes, the first and the last point."""
    drawn, pointers = sparks(trend, columns)
    titles = max(cell_width(spark.title) for spark in drawn)
    indent = " " * (titles + 4)
    for number, spark in enumerate(drawn):
        yield [
            ("  " + pad(spark.title, titles) + "  ", "dim" if number else ""),
            (spark.signs, "dim" if number else "bold"),
            ("  " + spark.reach, "dim"),
        ]
    if pointers:
        yield [(indent + pointers, "bold")]
    first, last, signs = trend.labels[0], trend.labels[-1], len(drawn[0].signs)
    if len(trend.labels) < 2:
        ends = first
    elif cell_width(first) + cell_width(last) < signs:
        ends = pad(first, signs - cell_width(last)) + last
    else:
        ends = f"{first} – {last}"
    yield [(indent + ends, "dim")]


def _said(trend: Trend) -> str:
    lines = "; ".join(f"{spark.title} {spark.reach}" for spark in sparks(trend, 1)[0])
    marks = "; ".join(f"{trend.labels[mark.at]}: {mark.text}" for mark in trend.marks)
    changes = f"Changes: {marks}." if marks else "No change."
    return f"{len(trend.labels)} {trend.points}: {lines}. {changes}"


def trend_drawing(trend: Trend) -> Drawing:
    """Draw each quantity on its own axis, and where it changed."""
    count = len(trend.labels)
    step = (_RIGHT - _LEFT) / max(1, count - 1)
    places = [_LEFT + step * (mark.at - 0.5) for mark in trend.marks]
    heights, upper = _lines_of_marks(trend, places)
    top = _HEAD + _WORDS * upper
    height = top + _FIRST + (_OTHER + _GAP) * (len(trend.lines) - 1) + _FOOT
    parts = []
    for mark, x, above in zip(trend.marks, places, heights, strict=True):
        parts.append(
            element("line", x1=x, x2=x, y1=top - 6, y2=height - _FOOT, class_=f"trend-mark {mark.tone}")
        )
        end = " end" if _ends_at(x) else ""
        parts.append(svg_text(mark.text, x, top - 9 - _WORDS * above, f"trend-words {mark.tone}{end}"))
    for number, line in enumerate(trend.lines):
        tall = _OTHER if number else _FIRST
        parts.append(_drawn_line(trend, line, top, tall, step))
        top += tall + _GAP
    base = height - 7
    parts.append(svg_text(trend.labels[0], _LEFT, base, "trend-axis"))
    if count > 1:
        parts.append(svg_text(trend.labels[-1], _RIGHT, base, "trend-axis end"))
    return Drawing("".join(parts), height, _WIDTH, _said(trend))


def _ends_at(x: float) -> bool:
    """Return whether the words of a mark end at it, to stay inside the drawing."""
    return x > (_LEFT + _RIGHT) / 2


def _lines_of_marks(trend: Trend, places: Sequence[float]) -> tuple[list[int], int]:
    """Return for each mark the line of its words, 0 the lowest, so that none overlap, and the uppermost line."""
    taken: list[list[tuple[float, float]]] = []
    lines = []
    for mark, x in zip(trend.marks, places, strict=True):
        wide = _LETTER * (cell_width(mark.text) + 1)
        left, right = (x - wide, x) if _ends_at(x) else (x, x + wide)
        free = (at for at, words in enumerate(taken) if all(right <= a or left >= b for a, b in words))
        line = next(free, len(taken))
        if line == len(taken):
            taken.append([])
        taken[line].append((left, right))
        lines.append(line)
    return lines, max(0, len(taken) - 1)


def _drawn_line(trend: Trend, line: TrendLine, top: float, tall: float, step: float) -> str:
    low, high = _limits(line)
    points: list[tuple[str, str, str]] = []
    for at, value in enumerate(line.values):
        if value is not None:
            y = top + tall * (1 - (value - low) / (high - low))
            said = f"{trend.labels[at]}: {line.title} {format_one(line.kind, value)}"
            points.append((f"{_LEFT + step * at:.1f}", f"{y:.1f}", said))
    path = "M" + "L".join(f"{x} {y}" for x, y, _ in points)
    dots = [
        element("circle", element("title", escape(said)), cx=x, cy=y, r=3, class_="trend-dot")
        for x, y, said in points
        if len(points) <= _DOTS
    ]
    words = [
        svg_text(line.title, _LEFT - 12, top + tall / 2 + 5, "trend-title end"),
        svg_text(format_one(line.kind, high), _RIGHT + 12, top + 10, "trend-axis"),
        svg_text(format_one(line.kind, low), _RIGHT + 12, top + tall, "trend-axis"),
    ]
    return "".join([element("path", d=path, class_="trend-line"), *dots, *words])
