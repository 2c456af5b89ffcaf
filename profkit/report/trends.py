"""A `Trend` as lines of text, and as an SVG drawing with classes instead of colours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from profkit.report.document import Trend, TrendLine, format_one
from profkit.report.layout import Line
from profkit.report.markup import Drawing, element, escape, svg_text
from profkit.report.text import cell_width, pad

#: Width of the drawing in its own units, and where the lines begin and end.
_WIDTH = 1000.0
_LEFT, _RIGHT = 110.0, 890.0
#: Heights of the first line, which the trend is about, of the others, and of the text around them.
_FIRST, _OTHER, _GAP, _HEAD, _FOOT = 150.0, 44.0, 14.0, 22.0, 24.0
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
    columns = list(itertools.pairwise(edges))
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
    return f"{len(trend.labels)} {trend.points}: {lines}. " + (
        f"Changes: {marks}." if marks else "No change."
    )


def trend_drawing(trend: Trend) -> Drawing:
    """Draw each quantity on its own axis, and where it changed."""
    count = len(trend.labels)
    step = (_RIGHT - _LEFT) / max(1, count - 1)
    parts = []
    height = _HEAD + _FIRST + (_OTHER + _GAP) * (len(trend.lines) - 1) + _FOOT
    for mark in trend.marks:
        x = _LEFT + step * (mark.at - 0.5)
        end = " end" if x > (_LEFT + _RIGHT) / 2 else ""
        parts.append(
            element("line", x1=x, x2=x, y1=_HEAD - 6, y2=height - _FOOT, class_=f"trend-mark {mark.tone}")
        )
        parts.append(svg_text(mark.text, x, _HEAD - 9, f"trend-words {mark.tone}{end}"))
    top = _HEAD
    for number, line in enumerate(trend.lines):
        tall = _OTHER if number else _FIRST
        parts.append(_drawn(trend, line, top, tall, step))
        top += tall + _GAP
    base = height - 7
    parts.append(svg_text(trend.labels[0], _LEFT, base, "trend-axis"))
    if count > 1:
        parts.append(svg_text(trend.labels[-1], _RIGHT, base, "trend-axis end"))
    return Drawing("".join(parts), height, _WIDTH, _said(trend))


def _drawn(trend: Trend, line: TrendLine, top: float, tall: float, step: float) -> str:
    low, high = _limits(line)
    points: list[tuple[float, float, str]] = []
    for at, value in enumerate(line.values):
        if value is not None:
            y = top + tall * (1 - (value - low) / (high - low))
            points.append(
                (_LEFT + step * at, y, f"{trend.labels[at]}: {line.title} {format_one(line.kind, value)}")
            )
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
    dots = []
    if len(points) <= _DOTS:
        dots = [
            element(
                "circle",
                element("title", escape(text)),
                cx=f"{x:.1f}",
                cy=f"{y:.1f}",
                r=3,
                class_="trend-dot",
            )
            for x, y, text in points
        ]
    words = [
        svg_text(line.title, _LEFT - 12, top + tall / 2 + 5, "trend-title end"),
        svg_text(format_one(line.kind, high), _RIGHT + 12, top + 10, "trend-axis"),
        svg_text(format_one(line.kind, low), _RIGHT + 12, top + tall, "trend-axis"),
    ]
    return "".join([element("path", d=path, class_="trend-line"), *dots, *words])
