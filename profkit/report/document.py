"""What a report says, before it is laid out: a title and sections of typed blocks.

Cells stay values (seconds, shares, counts, ranks) until a renderer formats them, so that one document
serves a terminal of 80 columns and a comment in a ticket. Strings are `clean`ed by the builders. Nothing
here knows of colours, widths or markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from profkit.report import units
from profkit.report.figures import Figure


class About(float):
    """A count that was estimated, which is shown with a tilde and fewer digits."""


class Pair(NamedTuple):
    """The same quantity on both sides; ``None`` where a side has none."""

    before: float | None
    after: float | None


class Measured(NamedTuple):
    """A value of evidence with its text; `value` is ``None`` for what has no size, such as a name.

    `whole` is what a bar of full length stands for, ``None`` where only the other side says how much it is;
    `limit` is a value that the bar is to be seen against, such as the CPUs available.
    """

    value: float | None
    text: str
    whole: float | None = None
    limit: float | None = None


Cell: TypeAlias = "str | int | float | Pair | Measured | None"

#: Kinds whose cells are numbers, and are therefore aligned to the right.
_NUMERIC = frozenset({"seconds", "change", "share", "count", "factor", "rank", "bar", "pid"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    title
        What heads it.
    kind
        How its cells are meant: ``name`` (a function), ``path``, ``text`` (short), ``prose`` (may be
        wrapped), ``pid`` (a label aligned as a number), or a number: ``seconds``, ``change`` (a `Pair` shown
        as its difference), ``share`` (0 to 1), ``count``, ``factor``, ``rank``, ``bar`` (a share as a bar).
    priority
        0 is always shown; where there is not enough room the greatest goes first.
    folds
        A column that found no room goes into a second line under rows that are marked.
    """

    title: str
    kind: str = "text"
    priority: int = 0
    folds: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `marked` ones are what the table is about, and `tone` says good, bad or nothing."""

    cells: tuple[Cell, ...]
    marked: bool = False
    tone: str = ""


@dataclass(frozen=True, slots=True)
class VerdictBlock:
    """The answer: what, how sure, and one sentence; `tone` is ``good``, ``bad`` or ``unsure``.

    `cause` is the name that scripts match, empty where the headline is that name. There is no `confidence` (0 to 1)
    where nothing is claimed, or it was not measured.
    """

    headline: str
    cause: str
    confidence: float | None
    summary: str
    tone: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a waterfall; `about` names what is in it, `beyond` says that it is more than noise.

    Seconds, with a 95 % interval (NaN where none is known), and the part (1) of the whole.
    """

    title: str
    seconds: float
    low: float
    high: float
    share: float
    beyond: bool
    about: str = ""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """From the wall of one side to that of the other, step by step; of one run (no `before_s`) from 0."""

    before_s: float | None
    after_s: float
    steps: tuple[Step, ...]
    note: str = ""
    sides: tuple[str, str] = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class Facts:
    """Labelled values, one under the other."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under typed columns; `note` says what was left out or how to read it."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def without_empty(self) -> Table:
        """Leave out the columns that no row can fill, as on systems that do not count waiting.

        Columns of priority 0 stay.
        """
        return self.only(
            i
            for i, column in enumerate(self.columns)
            if column.priority == 0 or any(row.cells[i] not in (None, "") for row in self.rows)
        )

    def only(self, columns: Iterable[int]) -> Table:
        """Leave out all but these columns."""
        kept = tuple(columns)
        return Table(
            tuple(self.columns[i] for i in kept),
            tuple(Row(tuple(row.cells[i] for i in kept), row.marked, row.tone) for row in self.rows),
            self.note,
        )


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of a heat map.

    Its `text`, its `heat` from 0 (good) to 1 (bad), ``None`` where nothing is known, and whether it is `marked`.
    """

    text: str
    heat: float | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Values of two parameters against each other; `corner` names both, and every row has a cell for every column."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One quantity over the points of a trend: seconds, ``None`` where it is not known."""

    title: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TrendMark:
    """Where the lines of a trend changed for good: from which point on, how that reads, ``bad`` or ``good``."""

    at: int
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Trend:
    """Quantities over repeated runs, under one another; `labels` say when each point was taken."""

    labels: tuple[str, ...]
    lines: tuple[TrendLine, ...]
    marks: tuple[TrendMark, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; items of a list of `commands` are to be pasted and are never wrapped."""

    items: tuple[str, ...]
    commands: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; `tone` as in `VerdictBlock`, or empty."""

    text: str
    tone: str = ""


Block: TypeAlias = "VerdictBlock | Waterfall | HeatMap | Trend | Facts | Table | Bullets | Note"


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under one heading; what is `detail` may be folded away where the output can fold.

    `role` says what it is for where a page gives that a place of its own: ``account``, ``evidence``,
    ``advice``, ``trust`` (how far the sides can be compared), ``moved`` (sentences on functions), ``functions``
    (their tables), ``iterations``, ``reproduce`` (what only a reader elsewhere needs), or empty.
    """

    title: str
    blocks: tuple[Block, ...]
    detail: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A report: what every renderer takes; those that cannot draw leave its figures out.

    What is `brief` is for one screen, and names another report that has the rest.
    """

    title: str
    sections: tuple[Section, ...]
    figures: tuple[Figure, ...] = ()
    brief: bool = False


def is_numeric(column: Column) -> bool:
    """Whether the cells of this column are numbers."""
    return column.kind in _NUMERIC


def format_one(kind: str, value: float | None) -> str:
    """Format one number of a numeric column."""
    if kind in ("seconds", "change"):
        return units.seconds(value)
    if kind in ("share", "bar"):
        return units.share(value)
    if kind == "factor":
        return units.factor(value)
    if kind == "rank":
        return units.UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0f}"
    return units.about(value) if isinstance(value, About) else units.count(value)


def format_cell(column: Column, cell: Cell) -> str:
    """Format a cell without regard to width; a pair whose sides read the same is one value."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Measured):
        return cell.text
    if isinstance(cell, Pair):
        if column.kind == "change":
            return units.change(*cell)
        before, after = (format_one(column.kind, side) for side in cell)
        return after if before == after else f"{before} → {after}"
    if not is_numeric(column):
        return "" if cell is None else str(cell)
    return format_one(column.kind, cell)
