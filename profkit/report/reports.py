"""What a renderer is given: one run or one comparison, as a document or as JSON, made when it is asked for.

Stands between the results and the renderers: `renderers` calls it, and neither knows the other's types. What is in
it has been masked already, or is meant not to be; nothing here reads or writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationNames
    from profkit.model import Run
    from profkit.report.document import Document
    from profkit.verdict.types import Diff, RunVerdict


class Report(Protocol):
    """A result that can be laid out.

    In both methods `rows` is the greatest number of rows of a list; 0 is all of them.
    """

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """Lay it out as sections, with the figures of those renderers that draw where they are asked for."""
        ...

    def json(self, rows: int) -> str:
        """Write it as one JSON document (docs/json.md), ended by a newline."""
        ...


@runtime_checkable
class Brief(Protocol):
    """A result whose answer fits on one screen."""

    def brief(self) -> Document:
        """Lay out the answer alone."""
        ...


@runtime_checkable
class Ticketed(Protocol):
    """A result that is laid out for a ticket too."""

    def ticket(self, rows: int) -> Document:
        """Lay it out with the answer first, then machines and versions, the rest folded away."""
        ...

    def again(self) -> str:
        """Return the command that makes the report again in the folder of the archive."""
        ...


@dataclass(frozen=True, slots=True)
class DiffReport:
    """A comparison.

    Attributes
    ----------
    diff
        Figures need its `calls`.
    pictured
        The run of each side whose processes and time line are drawn: of replicates, the first.
    attachment
        File that goes with the report and holds the runs; empty without one.
    explain
        Whether every condition of every rule is listed.
    """

    diff: Diff
    pictured: tuple[Run, Run]
    attachment: str = ""
    explain: bool = False

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `Report`."""
        from profkit.report.diffdoc import diff_document

        laid = diff_document(self.diff, rows, self.attachment, explain=self.explain)
        if not figures:
            return laid
        from profkit.report.pictures import diff_figures

        return replace(laid, figures=diff_figures(self.diff, *self.pictured))

    def brief(self) -> Document:
        """See `Brief`."""
        from profkit.report.brief import brief_diff

        return brief_diff(self.diff, explain=self.explain)

    def ticket(self, rows: int) -> Document:
        """See `Ticketed`."""
        from profkit.report.ticketdoc import ticket_document

        sides = zip(("baseline", "candidate"), self.pictured, strict=True)
        return ticket_document(self.document(rows), dict(sides))

    def again(self) -> str:
        """See `Ticketed`."""
        from profkit.report.surroundings import again

        return again(self.diff.baseline.runs, self.diff.candidate.runs)

    def json(self, rows: int) -> str:
        """See `Report`."""
        from profkit.report.jsondoc import diff_json

        return diff_json(self.diff, rows, explain=self.explain)


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run.

    Attributes
    ----------
    run
        With the processes that are to be shown, and no other.
    by
        ``tottime`` or ``cumtime``: the order of the functions.
    judged
        Its account, and what it lacked.
    names
        What the user specified about the NVTX ranges, if anything.
    explain
        Whether every condition of every rule is listed.
    attachment
        File that goes with the report and holds the run; empty without one.
    """

    run: Run
    by: str = "tottime"
    judged: RunVerdict | None = None
    names: IterationNames | None = None
    explain: bool = False
    attachment: str = ""

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `Report`."""
        from profkit.report.showdoc import show_document

        laid = show_document(
            self.run,
            limit=rows,
            by=self.by,
            names=self.names,
            judged=self.judged,
            explain=self.explain,
        )
        if self.attachment:
            from profkit.report.surroundings import reproduce_run

            laid = replace(laid, sections=(*laid.sections, reproduce_run(self.run, self.attachment)))
        if not figures:
            return laid
        from profkit.report.pictures import run_figures

        return replace(laid, figures=run_figures(self.run, self.by))

    def brief(self) -> Document:
        """See `Brief`."""
        from profkit.report.brief import brief_run

        return brief_run(self.run, self.judged, self.by, explain=self.explain)

    def ticket(self, rows: int) -> Document:
        """See `Ticketed`."""
        from profkit.report.ticketdoc import ticket_document

        return ticket_document(self.document(rows), {"": self.run})

    def again(self) -> str:
        """See `Ticketed`."""
        from profkit.report.surroundings import again

        return again()

    def json(self, rows: int) -> str:
        """See `Report`."""
        from profkit.report.jsondoc import show_json

        return show_json(
            self.run,
            limit=rows,
            by=self.by,
            names=self.names,
            judged=self.judged,
            explain=self.explain,
        )
