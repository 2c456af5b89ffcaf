"""Tables as lines of a given width, without colours: which columns fit, how wide, what folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from profkit.report.document import Cell, Column, Pair, Row, Table, format_cell, format_one, is_numeric
from profkit.report.text import cell_width, pad, shorten_middle, shorten_start, wrap, wrap_some

#: Text and the name of its style.
Span = tuple[str, str]
Line = list[Span]

#: Most lines of a cell; longer texts come from profiles.
MOST_LINES = 6

_GAP = 2
_MARK = 2
_BAR = 8
_EIGHTHS = "▏▎▍▌▋▊▉"
#: Ratio of two ranks from which a slope is drawn as steep.
_STEEP = 4
#: Least width that makes a column of this kind worth showing.
_LEAST = {"name": 20, "path": 20, "prose": 20, "text": 11}
#: Most width of a column, so that names keep their room.
_MOST = {"name": 60, "prose": 70, "text": 34, "path": 40}
#: Width that a short text gets before prose beside it.
_SOME_WORDS = 18
#: The same where a word would break, as in names of variables.
_LONG_WORD = 24
_ROW_TONES = {"bad": "red", "good": "green", "": ""}


@dataclass(slots=True)
class _Fitted:
    """A column with formatted cells; the sides of pairs are padded so that arrows align."""

    index: int
    column: Column
    cells: list[str]
    natural: int
    width: int = 0
    shortened: bool = False

    def padded(self, text: str) -> str:
        """Fill a text to the column's width, numbers on their left."""
        return pad(text, self.width, right=is_numeric(self.column) and self.column.kind != "bar")


def text_of(line: Line) -> str:
    """Return a line's text without trailing spaces."""
    return "".join(text for text, _ in line).rstrip()


def _formatted(column: Column, cells: list[Cell]) -> list[str]:
    if column.kind == "bar":
        return [_bar(cell) if isinstance(cell, float) else "" for cell in cells]
    sign = "#" if column.kind == "rank" else ""
    if any(isinstance(cell, Pair) for cell in cells) and column.kind != "change":
        return _paired(column, cells, sign)
    texts = [sign + format_cell(column, cell) for cell in cells]
    if column.kind in ("seconds", "change") and any(t.endswith(("ms", "µs", "ns")) for t in texts):
        # "s" takes the width of "ms", so that digits align.
        texts = [text + " " if text.endswith(" s") else text for text in texts]
    return texts


def _bar(share: float) -> str:
    """Draw a share; the last character has eighths, so that small shares differ too."""
    eighths = round(8 * _BAR * min(1.0, max(0.0, share)))
    rest: str = ("", *_EIGHTHS)[eighths % 8]
    return "█" * (eighths // 8) + rest


def _slope(before: float | None, after: float | None) -> str:
    """Return the arrow of a rank change: up is towards rank 1, steep from a factor of `_STEEP`."""
    if not before or not after or before == after:
        return "→"
    steep = max(before, after) >= _STEEP * min(before, after)
    return ("↑" if steep else "↗") if after < before else ("↓" if steep else "↘")


def _paired(column: Column, cells: list[Cell], sign: str) -> list[str]:
    sides: list[tuple[str, str, str]] = []
    for cell in cells:
        if isinstance(cell, Pair):
            before, after = (sign + format_one(column.kind, side) for side in cell)
            arrow = _slope(*cell) if column.kind == "rank" else "→"
            if before == after:
                sides.append(("", "", after))
            else:
                sides.append((before.removesuffix(" %") if after.endswith(" %") else before, arrow, after))
        else:
            sides.append(("", "", format_cell(column, cell)))
    left = max(cell_width(before) for before, _, _ in sides)
    right = max(cell_width(after) for _, _, after in sides)
    return [
        f"{pad(before, left, right=True)} {arrow or ' '} {pad(after, right, right=True)}" if left else after
        for before, arrow, after in sides
    ]


def _fit(table: Table, width: int, mark: int) -> tuple[list[_Fitted], list[_Fitted]]:
    fitted = []
    for index, column in enumerate(table.columns):
        cells = _formatted(column, [row.cells[index] for row in table.rows])
        natural = max((cell_width(text) for text in (column.title, *cells)), default=0)
        fitted.append(_Fitted(index, column, cells, natural))
    dropped: list[_Fitted] = []
    while len(fitted) > 1 and mark + _needed(fitted) > width:
        last = max(fitted, key=lambda f: f.column.priority)
        if last.column.priority == 0:
            break
        fitted.remove(last)
        dropped.append(last)
    spare = width - mark - _needed(fitted)
    for item in fitted:
        item.width = _least(item)
    # Room goes to names, then to short texts up to a few words, then to prose; the rest to any of them.
    for kinds, most in ((("name",), _MOST), (("text",), {"text": _SOME_WORDS}), (tuple(_MOST), _MOST)):
        for item in (item for kind in kinds for item in fitted if item.column.kind == kind):
            limit = most[item.column.kind]
            if item.column.kind == "text":
                longest = max((cell_width(word) for cell in item.cells for word in cell.split()), default=0)
                limit = max(limit, min(_LONG_WORD, longest))
            spare -= _widen(item, min(spare, limit - item.width))
    for item in (item for item in fitted if item.column.kind in _MOST):
        spare -= _widen(item, spare)
    dropped.sort(key=lambda f: f.index)
    return fitted, dropped


def _widen(item: _Fitted, room: int) -> int:
    """Widen a column by at most `room`; return by how much."""
    more = max(0, min(room, item.natural - item.width))
    item.width += more
    return more


def _least(item: _Fitted) -> int:
    # A column that can fold below its row is not squeezed.
    limits = _MOST if item.column.folds else _LEAST
    return min(item.natural, limits.get(item.column.kind, item.natural))


def _needed(fitted: list[_Fitted]) -> int:
    return sum(_least(item) for item in fitted) + _GAP * (len(fitted) - 1)


def table_lines(table: Table, width: int) -> tuple[list[Line], bool]:
    """Return a table's lines, at most `width` wide, and whether a cell was cut.

    Cells lose their middle, paths their start; columns that do not fit are dropped, or fold below rows.
    """
    if not table.rows:
        return [], False
    mark = _MARK if any(row.marked for row in table.rows) else 0
    fitted, dropped = _fit(table, width, mark)
    lines: list[Line] = []
    head: Line = [(" " * mark, "")]
    for item in fitted:
        title = item.padded(item.column.title)
        head.append((title.rstrip() if item is fitted[-1] else title + " " * _GAP, "dim"))
    if any(item.column.title for item in fitted):
        lines.append(head)
    for number, row in enumerate(table.rows):
        lines.extend(_row(fitted, number, row, mark))
        if row.marked:
            lines.extend(_folded(fitted, dropped, number, row, width, mark))
    return lines, any(item.shortened for item in (*fitted, *dropped))


def _row(fitted: list[_Fitted], number: int, row: Row, mark: int) -> Iterator[Line]:
    texts = [_lines_of(item, number) for item in fitted]
    for level in range(max(len(lines) for lines in texts)):
        sign = "● " if row.marked and level == 0 else " " * _MARK
        line: Line = [(sign[:mark], _ROW_TONES[row.tone])]
        for item, lines in zip(fitted, texts, strict=True):
            text = lines[level] if level < len(lines) else ""
            gap = "" if item is fitted[-1] else " " * _GAP
            line.append((item.padded(text) + gap, _style(item.column, row)))
        yield line


def _lines_of(item: _Fitted, number: int) -> list[str]:
    text = item.cells[number]
    if item.column.kind in ("prose", "text"):
        return wrap_some(text, max(1, item.width), MOST_LINES)
    shown = (shorten_start if item.column.kind == "path" else shorten_middle)(text, item.width)
    item.shortened |= shown != text
    return [shown]


def _style(column: Column, row: Row) -> str:
    if column.kind == "name":
        return "bold" if row.marked else ""
    if column.kind == "path":
        return "dim"
    return _ROW_TONES[row.tone] if column.kind in ("rank", "factor", "bar", "change") else ""


def _folded(
    fitted: list[_Fitted], dropped: list[_Fitted], number: int, row: Row, width: int, mark: int
) -> Iterator[Line]:
    """Yield the lines under a marked row that show its dropped columns, if they add something."""
    parts = []
    for item in dropped:
        cell = row.cells[item.index]
        if not item.column.folds or cell in ("", None):
            continue
        if isinstance(cell, Pair) and len({format_one(item.column.kind, side) for side in cell}) == 1:
            continue
        text = format_cell(item.column, cell)
        if item.column.kind == "path":
            parts.append(shorten_start(text, _MOST["path"]))
            item.shortened |= parts[-1] != text
        else:
            parts.append(f"{item.column.title} {text}")
    if not parts:
        return
    before = takewhile(lambda item: item.column.kind != "name", fitted)
    indent = mark + sum(item.width + _GAP for item in before)
    for line in wrap(" · ".join(parts), max(20, width - indent)):
        yield [(" " * indent, ""), (line, "dim")]
