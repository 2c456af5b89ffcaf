"""The formats of a report: one class each in `RENDERERS`; and what they take: masked results, laid out on demand.

Everything is imported when it is needed: a report in one format loads no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.measure.iterations import IterationNames
    from profkit.model import Run
    from profkit.report.document import Document
    from profkit.report.figures import Figures
    from profkit.verdict.types import Diff, RunVerdict


class Report(Protocol):
    """A result that can be laid out; `rows` limits the rows of each list (0: all)."""

    def document(self, rows: int) -> Document: ...

    def json(self, rows: int) -> str:
        """Return one JSON document (docs/json.md), ended by a newline."""
        ...


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
        """Return the answer first, then machines and versions, the rest folded."""
        from profkit.report.ticketdoc import ticket_document

        return ticket_document(self.document(rows), {"": self.run})

    def json(self, rows: int) -> str:
        from profkit.report.jsondoc import show_object
        from profkit.report.jsonvalues import dumps

        return dumps(show_object(self.run, limit=rows, **self._asked))


#: Reports of one or two runs; those of studies have neither figures nor a short answer nor a ticket.
OfRuns: TypeAlias = DiffReport | RunReport


class Renderer:
    """One format, drawn by ``render(document)`` of `module`, except where `render` is its own.

    `draws`: it shows figures, so it needs calls between functions.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    module: ClassVar[str]
    draws: ClassVar[bool] = False
    default_rows: ClassVar[int] = 50

    def render(self, report: Report, rows: int) -> str:
        """Return the report, ended by a newline, with at most `rows` rows per list (0: all)."""
        from profkit.report.renderers import OfRuns

        document = report.document(rows)
        if self.draws and isinstance(report, OfRuns):
            document = replace(document, figures=report.figures())
        written: str = import_module(self.module).render(document)
        return written

    def fitted(self, report: Report) -> str:
        """Return the report for a user who gave no number of rows."""
        return self.render(report, self.default_rows)


#: Most lines of a terminal report, and the rows per list that are tried until it fits.
MOST_LINES = 120
_FEWER_ROWS = (12, 8, 6, 4, 3)


@dataclass(frozen=True, slots=True)
class Terminal(Renderer):
    """Text in columns, with fields as in `profkit.report.terminal.render`; `brief` prefers a short form."""

    name: ClassVar[str] = "terminal"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    default_rows: ClassVar[int] = 20

    width: int = 80
    height: int | None = None
    color_system: str | None = None
    ascii_only: bool = False
    brief: bool = False

    def render(self, report: Report, rows: int) -> str:
        from profkit.report import terminal
        from profkit.report.renderers import OfRuns

        return terminal.render(
            report.brief() if self.brief and isinstance(report, OfRuns) else report.document(rows),
            width=self.width,
            height=self.height,
            color_system=self.color_system,
            ascii_only=self.ascii_only,
        )

    def fitted(self, report: Report) -> str:
        """Cut lists until the report fits: their first rows matter most."""
        text = self.render(report, self.default_rows)
        for rows in _FEWER_ROWS:
            if text.count("\n") <= MOST_LINES:
                break
            text = self.render(report, rows)
        return text


class Json(Renderer):
    """The result for scripts, neither shortened nor formatted."""

    name = "json"
    suffixes = (".json",)

    def render(self, report: Report, rows: int) -> str:
        return report.json(rows)


class Markdown(Renderer):
    """Markdown for a ticket or a merge request, short enough for one comment."""

    name = "md"
    suffixes = (".md", ".markdown")
    module = "profkit.report.markdown"


class Html(Renderer):
    """One page that needs no network and no second file."""

    name = "html"
    suffixes = (".html", ".htm")
    draws = True
    default_rows = 20
    module = "profkit.report.html"


class Svg(Renderer):
    """One picture for a ticket."""

    name = "svg"
    suffixes = (".svg",)
    draws = True
    default_rows = 20
    module = "profkit.report.svg"


#: Every format, in the order of messages.
RENDERERS: tuple[type[Renderer], ...] = (Terminal, Json, Markdown, Html, Svg)


def renderer_named(name: str) -> type[Renderer]:
    """Return the renderer of this name; raise `UsageError` with all names if there is none."""
    for renderer in RENDERERS:
        if renderer.name == name:
            return renderer
    names = _listed([renderer.name for renderer in RENDERERS])
    raise UsageError(f"not a format, use {names}", parameter="format", value=name)


def renderer_for(path: PurePath) -> type[Renderer]:
    """Return the renderer of a file's suffix; raise `UsageError` with all suffixes if there is none."""
    for renderer in RENDERERS:
        if path.suffix.lower() in renderer.suffixes:
            return renderer
    usual = _listed([renderer.suffixes[0] for renderer in RENDERERS])
    problem = f"the suffix names no format, use {usual}, or name the format"
    raise UsageError(problem, parameter="output", value=path)


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
