"""The formats of a report: one class each, and the registry that finds one by its name or by a file's suffix.

A renderer takes a `Report` and returns a string. Another format is one class and one entry of `RENDERERS`: the
command line, the Python API and their messages know what is in it. What a renderer needs is imported when it renders,
so that asking for the names costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.report.reports import Report


class Renderer(ABC):
    """One format.

    Attributes
    ----------
    name
        What the user calls it.
    suffixes
        Suffixes of the files that hold it, in lower case, the usual one first.
    draws
        Whether it shows figures, and so needs who calls whom.
    default_rows
        Most rows of a list where the user names no number.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    draws: ClassVar[bool] = False
    default_rows: ClassVar[int] = 50

    @abstractmethod
    def render(self, report: Report, rows: int) -> str:
        """Return the report in this format, ended by a newline.

        Parameters
        ----------
        report
            What to render.
        rows
            Most rows of a list; 0 is all of them.
        """


@dataclass(frozen=True, slots=True)
class Terminal(Renderer):
    """Text in columns.

    Attributes
    ----------
    width, height, color_system, ascii_only
        As `profkit.report.terminal.render` takes them: what the terminal can show. The defaults are plain text for a
        file.
    brief
        Whether only the answer is shown, of results that have a short form.
    """

    name: ClassVar[str] = "terminal"
    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    default_rows: ClassVar[int] = 20

    width: int = 80
    height: int | None = None
    color_system: str | None = None
    ascii_only: bool = False
    brief: bool = False

    def render(self, report: Report, rows: int) -> str:
        """See `Renderer`."""
        from profkit.report import terminal
        from profkit.report.reports import Brief

        short = report.brief() if self.brief and isinstance(report, Brief) else None
        return terminal.render(
            report.document(rows) if short is None else short,
            width=self.width,
            height=self.height,
            color_system=self.color_system,
            ascii_only=self.ascii_only,
        )


class Json(Renderer):
    """The result itself for scripts: nothing is shortened or formatted."""

    name = "json"
    suffixes = (".json",)

    def render(self, report: Report, rows: int) -> str:
        """See `Renderer`."""
        return report.json(rows)


class Markdown(Renderer):
    """Markdown for a ticket or a merge request, short enough for one comment."""

    name = "md"
    suffixes = (".md", ".markdown")

    def render(self, report: Report, rows: int) -> str:
        """See `Renderer`."""
        from profkit.report import markdown

        return markdown.render(report.document(rows))


class Html(Renderer):
    """One page that needs no network and no second file."""

    name = "html"
    suffixes = (".html", ".htm")
    draws = True
    default_rows = 20

    def render(self, report: Report, rows: int) -> str:
        """See `Renderer`."""
        from profkit.report import html

        return html.render(report.document(rows, figures=True))


class Svg(Renderer):
    """One picture for a ticket."""

    name = "svg"
    suffixes = (".svg",)
    draws = True
    default_rows = 20

    def render(self, report: Report, rows: int) -> str:
        """See `Renderer`."""
        from profkit.report import svg

        return svg.render(report.document(rows, figures=True))


#: Every format, in the order in which messages name them.
RENDERERS: tuple[type[Renderer], ...] = (Terminal, Json, Markdown, Html, Svg)


def renderer_named(name: str) -> type[Renderer]:
    """Return the renderer of this name.

    Raises
    ------
    UsageError
        There is none; the message lists them.
    """
    for renderer in RENDERERS:
        if renderer.name == name:
            return renderer
    names = [renderer.name for renderer in RENDERERS]
    raise UsageError(
        f"not a format, use {', '.join(names[:-1])} or {names[-1]}", parameter="format", value=name
    )


def renderer_for(path: PurePath) -> type[Renderer]:
    """Return the renderer that the suffix of a file names.

    Raises
    ------
    UsageError
        It names none; the message lists the usual suffixes.
    """
    for renderer in RENDERERS:
        if path.suffix.lower() in renderer.suffixes:
            return renderer
    usual = [renderer.suffixes[0] for renderer in RENDERERS]
    raise UsageError(
        f"the suffix names no format, use {', '.join(usual[:-1])} or {usual[-1]}, or name the format",
        parameter="output",
        value=path,
    )
