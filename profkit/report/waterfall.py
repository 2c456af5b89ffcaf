"""The account as a waterfall, drawn or as text: each bar begins where the previous one ended."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from profkit.report import units
from profkit.report.document import Waterfall
from profkit.report.layout import Line
from profkit.report.markup import Drawing, element, escape
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
        *(_drawn(row, _ROW * at) for at, row in enumerate(rows)),
        width=width,
        height=height,
        role="img",
        aria_label=f"{said}.",
        font_size=14,
        fill="currentColor",
        class_="waterfall",
    )
    return Drawing(drawn, height)


def _drawn(row: WaterfallRow, y: float) -> str:
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
