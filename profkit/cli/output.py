"""Where reports go, in which format, and as much of them as a terminal can show.

Options are checked before anything is read.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profkit.api.files import keep_inputs, write_file
from profkit.api.reported import Reported, rows_of
from profkit.cli import discard, say
from profkit.cli.progress import Progress
from profkit.errors import UsageError
from profkit.report.renderers import Html, Markdown, Renderer, Terminal, renderer_for, renderer_named
from profkit.report.units import counted

#: Name of the archive of ``--ticket`` if the Markdown goes to stdout.
_ARCHIVE = "profkit-ticket.zip"
#: GitHub's limit for one attachment (25 MB); the defaults of GitLab and Jira are similar or greater.
MOST_BYTES = 25 * 1000 * 1000
#: Columns of a text report in a pipe, where the reader's width is unknown.
_PLAIN_WIDTH = 80
#: Most columns: wider tables are harder to read.
_MAX_WIDTH = 200


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The user's options for a report; no command has all of them."""

    output: Path | None = None
    format: str | None = None
    limit: int | None = None
    full: bool = False
    explain: bool = False
    full_paths: bool = False
    mask_names: bool = False
    ticket: bool = False
    open_report: bool = False

    def __post_init__(self) -> None:
        if self.mask_names and self.full_paths:
            raise UsageError("--mask-names and --full-paths exclude each other: choose one")

    def destination(self) -> Destination:
        """Check where the report goes, before anything is read; raises `UsageError`."""
        return Destination(self)

    def write(self, doing: str, read: Callable[[], Reported]) -> None:
        """Read something with progress `doing`, and write a report."""
        gc.disable()  # as in ``profkit diff``
        goal = self.destination()
        with Progress(doing):
            result = read()
        goal.keep(result.inputs())
        goal.write(result)


class Destination:
    """Where a report goes; `output` is ``None`` for stdout, and `archive` ``None`` without ``--ticket``.

    Raises `UsageError` if an option is invalid, or two contradict.
    """

    def __init__(self, wanted: ReportOptions) -> None:
        output = wanted.output
        if wanted.open_report and output is None:
            import secrets
            import tempfile

            # An unpredictable name, since the file is created only when it is complete; it is kept for the browser.
            output = Path(tempfile.gettempdir()) / f"profkit-{secrets.token_hex(8)}.html"
        renderer = _renderer(wanted, output)
        needed: list[tuple[bool, type[Renderer], str]] = [
            (wanted.open_report, Html, "--open opens a page, give -o an .html file or leave it out"),
            (wanted.ticket, Markdown, "--ticket writes Markdown, give -o a .md file or leave it out"),
        ]
        for asked, kind, why in needed:
            if asked and wanted.format not in (None, kind.name):
                raise UsageError(why, "format", wanted.format)
            if asked and output is not None and not isinstance(renderer, kind):
                raise UsageError(why, "output", output)
        if wanted.ticket:
            renderer = Markdown()
        rows_of(wanted.limit, renderer)
        self.wanted = wanted
        self.renderer = renderer
        self.output = output
        self.archive = archive_of(output) if wanted.ticket else None

    @property
    def drawn(self) -> bool:
        """Whether figures are needed, in the report or in the archive."""
        return self.renderer.draws or self.archive is not None

    def keep(self, inputs: Iterable[str]) -> None:
        """Raise `UsageError` if the report or the archive would overwrite an input."""
        keep_inputs(inputs, self.output, self.archive)

    def keep_study(self, directory: Path) -> None:
        """Raise `UsageError` if the report or the archive would be a file of the study in a directory."""
        from profkit.study.journal import KEPT

        inside = os.path.realpath(directory)
        for file in (self.output, self.archive):
            place, name = ("", "") if file is None else os.path.split(os.path.realpath(file))
            if name in KEPT and os.path.commonpath((place, inside)) == inside:
                raise UsageError("is a file of the study, name another file", "output", file)

    def write(self, result: Reported, *, masked: bool = False) -> None:
        """Write report and archive; text on stdout is masked only if `masked` or by ``--mask-names``."""
        if self.wanted.mask_names:
            result.mask(names_hidden=True)
            masked = True
        elsewhere = self.output is not None or self.archive is not None
        # Users paste the commands of text that is on stdout only.
        shown = isinstance(self.renderer, Terminal) and not elsewhere
        full_paths = self.wanted.full_paths or (shown and not masked)
        limit, explain = self.wanted.limit, self.wanted.explain
        if self.archive is None:
            with Progress("writing the report"):
                text = result.report(self.renderer, limit=limit, full_paths=full_paths, explain=explain)
            emit(text, self.output)
            if self.wanted.open_report and self.output is not None:
                show_page(self.output)
        else:
            from profkit.api.posted import ticket

            with Progress("writing the ticket"):
                made = ticket(result, self.archive.name, limit=limit, full_paths=full_paths, explain=explain)
            emit(made.markdown, self.output)
            write_file((made.archive,), self.archive)
            much = len(made.archive)
            size = f"{much / 1e6:.1f} MB" if much >= 1e6 else f"{much / 1e3:.0f} kB"
            say(f"wrote {self.archive} ({counted(made.runs, 'run file')}, {size}): attach it to the ticket")
            if much > MOST_BYTES:
                say("that is more than the 25 MB that GitHub accepts; attach fewer runs")
        if not full_paths and elsewhere:
            say("paths, hosts and words of commands are masked: --full-paths leaves them unmasked")


def _renderer(wanted: ReportOptions, output: Path | None) -> Renderer:
    """Decide the format: ``--format`` first, then the suffix of the output, then the terminal."""
    chosen: type[Renderer] = Terminal
    if wanted.format is not None:
        chosen = renderer_named(wanted.format)
    elif output is not None:
        chosen = renderer_for(output)
    # --limit implies the whole report, which has the lists; files always have it.
    brief = not wanted.full and wanted.limit is None
    return console(brief=brief) if chosen is Terminal and output is None else chosen()


def archive_of(output: Path | None) -> Path:
    """Return where the archive of ``--ticket`` goes: beside the report, or into the working directory."""
    return Path(_ARCHIVE) if output is None else output.with_suffix(".zip")


def console(*, brief: bool = False) -> Terminal:
    """Return the renderer of a text report for stdout's terminal or pipe."""
    return Terminal(
        brief=brief,
        width=_width(),
        height=shutil.get_terminal_size().lines if sys.stdout.isatty() else None,
        color_system=_color_system(),
        ascii_only=not _prints_signs(),
    )


def show_page(page: Path) -> None:
    """Open a page in the user's browser, or print its address if there is none."""
    import webbrowser

    address = Path(os.path.abspath(page)).as_uri()
    opened = False
    with contextlib.suppress(webbrowser.Error):
        opened = webbrowser.open(address)
    print(f"profkit: {'opened' if opened else 'no browser found; open'} {address}", file=sys.stderr)


def emit(text: str, output: Path | None) -> None:
    """Write to a file in one piece, or to stdout; a closed reader is not an error."""
    if output is not None:
        write_file((text.encode("utf-8", "backslashreplace"),), output)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def emit_chunks(chunks: Iterable[bytes], output: Path | None, *, packed: bool = False) -> None:
    """Write bytes as they are produced to a file or stdout; compress if `packed` or for a ``.gz`` file.

    Raises `UsageError` if it cannot be written, or stdout is a terminal.
    """
    if packed or (output is not None and output.suffix.lower() == ".gz"):
        chunks = _compressed(chunks)
    if output is not None:
        write_file(chunks, output)
        return
    if sys.stdout.isatty():
        raise UsageError("the output is not for a terminal: give -o FILE, or redirect it")
    try:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)


def _compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16 selects gzip's header
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


def _width() -> int:
    columns = shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns
    if os.name == "nt":
        columns -= 1  # old consoles wrap a full line
    return min(columns, _MAX_WIDTH)


def _color_system() -> str | None:
    """Return rich's color system of the terminal; ``None`` for a pipe, NO_COLOR and old Windows consoles."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return None
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        return None
    from rich.console import Console

    found = Console(file=sys.stdout)
    return None if found.legacy_windows else found.color_system


def _prints_signs() -> bool:
    """Return whether stdout can encode the characters beyond ASCII that reports use."""
    try:
        "…→–×µ●✗✓█▁▏·•↑↗↘↓▲".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
