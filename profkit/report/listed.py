"""A list as a table: columns with a cell for each item, and how many items are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from profkit.report.document import Cell, Column, Row, Table

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Of(Generic[Item]):
    """A `Column`, its cell for one item, and whether the table has it."""

    title: str
    cell: Callable[[Item], Cell]
    kind: str = "text"
    priority: int = 0
    folds: bool = False
    there: bool = True


class Listed(Generic[Item]):
    """The first `limit` items of a list (0: all); `cut` says how many of `what` are shown if not all.

    `left_out` is another sentence for this, with ``{left}`` for the number of the others.
    """

    def __init__(self, items: Iterable[Item], limit: int = 0, what: str = "", *, left_out: str = "") -> None:
        every = list(items)
        self.shown = every[: limit or None]
        self.cut = cut_note(len(self.shown), len(every), what)
        if self.cut and left_out:
            self.cut = left_out.format(left=len(every) - len(self.shown))

    def table(
        self,
        *columns: Of[Item],
        notes: Iterable[str] = (),
        marked: Callable[[Item], bool] = lambda _: False,
        tone: Callable[[Item], str] = lambda _: "",
    ) -> Table:
        """Return a table without columns that have no value, except those of priority 0.

        `cut` is its last note, unless `notes` contain it.
        """
        columns = tuple(of for of in columns if of.there)
        rows = (Row(tuple(of.cell(item) for of in columns), marked(item), tone(item)) for item in self.shown)
        heads = tuple(Column(of.title, of.kind, of.priority, of.folds) for of in columns)
        note = " ".join(dict.fromkeys(filter(None, (*notes, self.cut))))
        return Table(heads, tuple(rows), note).without_empty()


def cut_note(shown: int, total: int, what: str = "") -> str:
    """Return how many rows are shown and how to see all; empty if none is left out."""
    if shown >= total:
        return ""
    of = f"{total:,} {what}".rstrip()
    return f"{shown:,} of {of} shown (--limit 0 lists all)."
