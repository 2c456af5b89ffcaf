"""What a renderer takes: one masked run or comparison, laid out on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationNames
    from profkit.model import Run
    from profkit.report.document import Document
    from profkit.report.figures import Figures
    from profkit.verdict.types import Diff, RunVerdict


class Report(Protocol):
    """A result that can be laid out; `rows` limits the rows of each list (0: all)."""

    def document(self, rows: int) -> Document: ...

    def json(self, rows: int) -> str: ...


@dataclass(frozen=True, slots=True)
class DiffReport:
    """A comparison; figures need the `calls` of `diff`, and each side's run in `pictured`."""

    diff: Diff
    pictured: tuple[Run, ...] = ()
    attachment: str = ""
    explain: bool = False

    def document(self, rows: int) -> Document:
        from profkit.report.diffdoc import diff_document

        return diff_document(self.diff, rows, self.attachment, explain=self.explain)

    def figures(self) -> Figures:
        from profkit.report.pictures import diff_figures

        return diff_figures(self.diff, *self.pictured)

    def brief(self) -> Document:
        from profkit.report.brief import brief_diff

        return brief_diff(self.diff, explain=self.explain)

    def ticket(self, rows: int) -> Document:
        """Return the answer first, then machines and versions, the rest folded."""
        from profkit.report.ticketdoc import ticket_document

        sides = zip(("baseline", "candidate"), self.pictured, strict=True)
        return ticket_document(self.document(rows), dict(sides))

    def json(self, rows: int) -> str:
        from profkit.report.jsondoc import diff_object
        from profkit.report.jsonvalues import dumps

        return dumps(diff_object(self.diff, rows, explain=self.explain))


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run with the processes to show; `judged` is its account and verdict."""

    run: Run
    by: str
    judged: RunVerdict
    names: IterationNames | None = None
    explain: bool = False
    attachment: str = ""

    @property
    def _asked(self) -> dict[str, Any]:
        """Return the arguments that document and JSON share."""
        return {name: getattr(self, name) for name in ("by", "judged", "names", "explain")}

    def document(self, rows: int) -> Document:
        from profkit.report.showdoc import show_document

        return show_document(self.run, limit=rows, attachment=self.attachment, **self._asked)

    def figures(self) -> Figures:
        from profkit.report.pictures import run_figures

        return run_figures(self.run, self.by)

    def brief(self) -> Document:
        from profkit.report.brief import brief_run

        return brief_run(self.run, self.judged, self.by, explain=self.explain)

    def ticket(self, rows: int) -> Document:
        from profkit.report.ticketdoc import ticket_document

        return ticket_document(self.document(rows), {"": self.run})

    def json(self, rows: int) -> str:
        from profkit.report.jsondoc import show_object
        from profkit.report.jsonvalues import dumps

        return dumps(show_object(self.run, limit=rows, **self._asked))


#: Reports of one or two runs; those of studies have neither figures nor a short answer nor a ticket.
OfRuns: TypeAlias = DiffReport | RunReport
