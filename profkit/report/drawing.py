"""The slopegraph of ranks, as an SVG fragment with classes instead of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profkit.report import units
from profkit.report.figures import Slope, Slopes
from profkit.report.markup import Drawing, element, escape, number, svg_text
from profkit.report.text import cell_width, shorten_middle

SLOPES_WIDTH = 540.0
_LEFT, _RIGHT = 116.0, 252.0
_TOP, _BOTTOM = 34.0, 14.0
#: Height of the ranks, and of the area below for functions that one side lacks.
_PLOT, _ABSENT = 270.0, 34.0
#: Least distance between two labels.
_LINE = 17.0
#: Most columns of a name.
_NAME = 19
#: Least number of ranks drawn, so that a few labels do not stretch over the whole height.
_LEAST_RANKS = 20


def slopegraph(slopes: Slopes) -> Drawing:
    """Draw ranks, baseline left and candidate right.

    Positions are logarithmic in the rank, so equal slopes are equal factors ``ln(rank before / rank after)``.
    """
    named = [line for line in slopes.lines if line.tone]
    deepest = max([_LEAST_RANKS, *(rank for line in named for rank in (line.before, line.after) if rank)])
    scale = _PLOT / math.log2(deepest)
    nowhere = _TOP + _PLOT + _ABSENT / 2

    def y(rank: int | None) -> float:
        return nowhere if rank is None else _TOP + scale * math.log2(rank)

    left, right = _LEFT, SLOPES_WIDTH - _RIGHT
    parts = [
        svg_text("baseline", left, 14, "axis end"),
        svg_text("candidate", right, 14, "axis"),
        *(element("line", x1=x, y1=_TOP, x2=x, y2=_TOP + _PLOT, class_="rule") for x in (left, right)),
    ]
    faint = [
        line
        for line in slopes.lines
        if not line.tone and 0 < (line.before or 0) <= deepest and 0 < (line.after or 0) <= deepest
    ]
    # One path for all: these only show that other functions stay, and need no identity.
    path = "".join(
        f"M{number(left)} {number(y(line.before))}L{number(right)} {number(y(line.after))}" for line in faint
    )
    if path:
        parts.append(element("path", d=path, class_="faint"))
    for line in reversed(named):
        parts.append(_line(line, left, y(line.before), right, y(line.after)))
    parts += _labels([(y(line.before), _before(line), line.tone) for line in named], left, left=True)
    parts += _labels([(y(line.after), _after(line), line.tone) for line in named], right, left=False)
    absent = _ABSENT if any(line.before is None or line.after is None for line in slopes.lines) else 0.0
    said = f"Rank by {slopes.by}, baseline to candidate: {'; '.join(map(_described, named))}."
    return Drawing("".join(parts), _TOP + _PLOT + absent + _BOTTOM, SLOPES_WIDTH, said)


def _line(line: Slope, x1: float, y1: float, x2: float, y2: float) -> str:
    absent = "" if line.before and line.after else " absent"
    dots = "".join(
        element("circle", cx=x, cy=y, r=3.5)
        for x, y, rank in ((x1, y1, line.before), (x2, y2, line.after))
        if rank
    )
    return element(
        "g",
        element("title", escape(_described(line))),
        element("line", x1=x1, y1=y1, x2=x2, y2=y2),
        dots,
        class_=f"slope {line.tone}{absent} w{1 + int(2.99 * min(1.0, line.weight))}",
    )


def _described(line: Slope) -> str:
    """Describe one function for tooltips and screen readers."""
    if line.before is None:
        return f"{line.name}: new, #{line.after} with {units.seconds(line.after_s)}"
    if line.after is None:
        return f"{line.name}: gone, was #{line.before} with {units.seconds(line.before_s)}"
    return (
        f"{line.name}: #{line.before} to #{line.after}, {units.seconds(line.before_s)} to "
        f"{units.seconds(line.after_s)}"
    )


def _before(line: Slope) -> tuple[str, str]:
    return ("new", "") if line.before is None else (f"#{line.before}", units.seconds(line.before_s))


def _after(line: Slope) -> tuple[str, str]:
    rank, time = ("gone", "") if line.after is None else (f"#{line.after}", units.seconds(line.after_s))
    name = shorten_middle(line.name, _NAME - max(0, cell_width(rank) - 3))
    return f"{rank} {name}", time


def _labels(wanted: Sequence[tuple[float, tuple[str, str], str]], x: float, *, left: bool) -> list[str]:
    """Return labels beside an axis, moved apart where they overlap, each with a line to its point."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i][0])
    places = _apart([wanted[i][0] for i in order])
    side = -1 if left else 1
    parts = []
    for at, place in zip(order, places, strict=True):
        y, (main, minor), tone = wanted[at]
        if abs(place - y) > 1:
            parts.append(element("line", x1=x + side * 4, y1=y, x2=x + side * 13, y2=place, class_="lead"))
        minor_text = element("tspan", escape(minor), class_="minor") if minor else ""
        text = f"{minor_text} {escape(main)}" if left else f"{escape(main)} {minor_text}"
        kind = f"name {tone}" + (" end" if left else "")
        parts.append(element("text", text.strip(), x=x + side * 16, y=place + 4, class_=kind))
    return parts


def _apart(wanted: Sequence[float]) -> list[float]:
    """Return positions at least one line apart, in order, and nearest to the wanted ones.

    Overlapping labels form blocks centred on their wanted positions (isotonic regression by pooling adjacent
    violators), which are then kept inside the picture.
    """
    blocks: list[tuple[float, int]] = []  # position of a block's first label, number of its labels
    for y in wanted:
        start, size = y, 1
        while blocks and blocks[-1][0] + blocks[-1][1] * _LINE > start:
            before, count = blocks.pop()
            # The block starts at the mean of its labels' wanted starts.
            start = (before * count + (start - count * _LINE) * size) / (count + size)
            size += count
        blocks.append((max(start, _TOP), size))
    places = [start + at * _LINE for start, size in blocks for at in range(size)]
    limit = max(_TOP + _PLOT, max(wanted, default=0.0))
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], limit)
        limit = places[i] - _LINE
    return places
