"""A report before layout: sections of typed blocks; cells stay values until a renderer formats them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias, TypeVar

from profkit.report import units
from profkit.report.figures import Figures

_Kind = TypeVar("_Kind")
#: The sign before a verdict, so that good and bad do not differ by colour alone.
SIGNS = {"bad": "✗", "good": "✓", "unsure": "?"}


class About(float):
    """An estimated count, shown with a tilde and fewer digits."""


class Pair(NamedTuple):
    """One quantity on both sides; ``None`` where a side has none."""

    before: float | None
    after: float | None


#: Cells without a value.
_EMPTY = (None, "", Pair(None, None))


class Measured(NamedTuple):
    """A value of evidence: its text and, where it has a size, the length of its bar, from 0 to 1.

    `limit` is the place on the bar of a value to compare with, such as the available CPUs.
    """

    text: str
    bar: float | None = None
    limit: float | None = None


Cell: TypeAlias = "str | int | float | Pair | Measured | None"

#: Kinds whose cells are right-aligned.
_NUMERIC = frozenset({"seconds", "change", "share", "count", "factor", "rank", "bar", "pid"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    `kind` is ``name`` (a function), ``path``, ``text`` (short), ``prose`` (may wrap), ``pid`` (a label
    aligned as a number), or a number: ``seconds``, ``change`` (a `Pair` shown as its difference), ``share``
    (0 to 1), ``count``, ``factor``, ``rank``, ``bar`` (a share drawn as a bar). Columns of the greatest
    `priority` are dropped first, 0 never; a dropped column that `folds` moves below marked rows.
    """

    title: str
    kind: str = "text"
    priority: int = 0
    folds: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `marked` rows are what the table is about; `tone` is ``good``, ``bad`` or empty."""

    cells: tuple[Cell, ...]
    marked: bool = False
    tone: str = ""


@dataclass(frozen=True, slots=True)
class VerdictBlock:
    """The answer; `tone` is ``good``, ``bad`` or ``unsure``.

    `cause` is the name that scripts match, empty if the headline is that name. `confidence` (0 to 1) is
    ``None`` if nothing is claimed or it was not measured.
    """

    headline: str
    summary: str
    tone: str
    cause: str = ""
    confidence: float | None = None

    @property
    def named(self) -> str:
        return f"{self.headline} ({self.cause})" if self.cause else self.headline


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a waterfall; `share` (0 to 1) is of the longer wall, `beyond`: it exceeds the noise."""

    title: str
    seconds: float
    share: float
    beyond: bool
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Steps from one wall to the other; for one run (`before_s` is ``None``) from 0."""

    before_s: float | None
    after_s: float
    steps: tuple[Step, ...]
    note: str = ""
    sides: tuple[str, str] = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class Facts:
    """Labelled values, one below the other."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under typed columns; `note` says what was left out or how to read it."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def without_empty(self) -> Table:
        """Drop columns without any value, except those of priority 0."""
        return self.only(
            i
            for i, column in enumerate(self.columns)
            if column.priority == 0 or any(row.cells[i] not in _EMPTY for row in self.rows)
        )

    def only(self, columns: Iterable[int]) -> Table:
        kept = tuple(columns)
        return Table(
            tuple(self.columns[i] for i in kept),
            tuple(Row(tuple(row.cells[i] for i in kept), row.marked, row.tone) for row in self.rows),
            self.note,
        )

    def without_bars(self) -> Table:
        """Drop bars, which repeat another column."""
        return self.only(i for i, column in enumerate(self.columns) if column.kind != "bar")

    def texts(self, row: Row) -> list[str]:
        return [format_cell(column, cell) for column, cell in zip(self.columns, row.cells, strict=True)]


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of a heat map; `heat` runs from 0 (good) to 1 (bad), ``None`` if not known."""

    text: str
    heat: float | None = None
    marked: bool = False

    @property
    def shown(self) -> str:
        return f"● {self.text}" if self.marked else self.text


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Values by two parameters, both named in `corner`; every row has all columns."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One quantity over a trend's points, ``None`` where not known; `kind` is that of a `Column`."""

    title: str
    values: tuple[float | None, ...]
    kind: str = "seconds"


@dataclass(frozen=True, slots=True)
class TrendMark:
    """A lasting change: its first point, its description, and ``bad`` or ``good``."""

    at: int
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class Trend:
    """Quantities over repeated runs; `labels` give the time of each point, `points` their plural noun."""

    labels: tuple[str, ...]
    lines: tuple[TrendLine, ...]
    marks: tuple[TrendMark, ...] = ()
    points: str = "runs"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; `commands` are to be pasted, so they are never wrapped."""

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
    """Blocks under one heading; `detail` sections are folded where the format can fold.

    `role` places a section on a page: ``account``, ``evidence``, ``advice``, ``trust`` (how far the sides
    compare), ``moved`` (sentences on functions), ``functions`` (tables), ``iterations``, ``reproduce`` (for
    readers elsewhere), or empty.
    """

    title: str
    blocks: tuple[Block, ...]
    detail: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A report for any renderer; a `brief` one fits one screen and refers to the full one."""

    title: str
    sections: tuple[Section, ...]
    figures: Figures = field(default_factory=Figures)
    brief: bool = False

    def every(self, kind: type[_Kind]) -> Iterator[tuple[Section, _Kind]]:
        for section in self.sections:
            for block in section.blocks:
                if isinstance(block, kind):
                    yield section, block

    def first(self, kind: type[_Kind]) -> _Kind | None:
        return next((block for _, block in self.every(kind)), None)


def laid_out(title: str, *sections: Section) -> Document:
    """Return a document without empty blocks and the sections that hold nothing else."""
    said = (replace(section, blocks=tuple(filter(_says, section.blocks))) for section in sections)
    return Document(title, tuple(section for section in said if section.blocks))


def _says(block: Block) -> bool:
    if isinstance(block, Table | HeatMap):
        return bool(block.rows)
    if isinstance(block, Facts | Bullets):
        return bool(block.items)
    return not isinstance(block, Note) or bool(block.text)


def is_numeric(column: Column) -> bool:
    return column.kind in _NUMERIC


def format_one(kind: str, value: float | None) -> str:
    return units.about(value) if isinstance(value, About) else units.WRITTEN.get(kind, units.count)(value)


def format_cell(column: Column, cell: Cell) -> str:
    """Format a cell regardless of width; a pair of equal texts becomes one value."""
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
