"""What ``profkit diff`` and ``profkit show`` do alike with their report: its format, its files, what goes with it.

The options are checked before anything is read, and the files are written when all is made. What the report says
is the commands' affair, and how a file is written that of `output`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.cli.output import (
    DRAWN,
    check_by,
    choose_format,
    default_limit,
    emit_report,
    keep_inputs,
    page_to_open,
    show_page,
)
from profkit.report.document import Document

if TYPE_CHECKING:
    from profkit.model import Run

__all__ = ["Destination", "destination"]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a report goes.

    Attributes
    ----------
    format
        One of `output.FORMATS`.
    output
        File, or ``None`` for stdout.
    archive
        File of ``--ticket`` that is attached, ``None`` without one.
    rows
        Most rows of a list; 0 is all of them.
    opened
        Whether the page is opened when it is written.
    """

    format: str
    output: Path | None
    archive: Path | None
    rows: int
    opened: bool

    @property
    def drawn(self) -> bool:
        """Whether figures are asked for, here or in the archive."""
        return self.format in DRAWN or self.archive is not None

    def keep(self, inputs: Iterable[str]) -> None:
        """Refuse to write over a file that was read.

        Raises
        ------
        UsageError
            The report or the archive is one of them.
        """
        keep_inputs(inputs, self.output, self.archive)

    def write(
        self, json_text: Callable[[], str], document: Callable[[], Document], runs: Mapping[str, Run]
    ) -> None:
        """Write the report, open it, and pack the archive, as far as they are asked for.

        Parameters
        ----------
        json_text, document
            Make the JSON text or the document; only what is needed is called.
        runs
            Run files of the archive, by their names in it.
        """
        emit_report(self.format, self.output, json_text, document)
        if self.opened:
            show_page(self.output)
        if self.archive is not None:
            from profkit.cli.ticket import pack
            from profkit.report import html

            pack(self.archive, runs, {"report.json": json_text(), "report.html": html.render(document())})


def destination(
    format: str | None, output: Path | None, *, limit: int | None, by: str, ticket: bool, open_report: bool
) -> Destination:
    """Check what the user said of the report.

    Parameters
    ----------
    format, output, limit, by, ticket, open_report
        The options of these names.

    Raises
    ------
    UsageError
        One of them cannot be, or two do not go together.
    """
    if open_report:
        output = page_to_open(format, output)
    chosen = choose_format(format, output)
    archive = None
    if ticket:
        from profkit.cli.ticket import archive_of, check_ticket

        chosen, archive = check_ticket(format, chosen, output), archive_of(output)
    check_by(by)
    return Destination(chosen, output, archive, default_limit(limit, chosen), open_report)
