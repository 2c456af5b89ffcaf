"""The formats of a report: one class each in `RENDERERS`, importing what it needs only to render."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.report.reports import Report


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
        from profkit.report.reports import OfRuns

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
        from profkit.report.reports import OfRuns

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
