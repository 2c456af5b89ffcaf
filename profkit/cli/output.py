"""Where a report goes: its format from ``--format`` or the suffix, a file in one piece, or stdout.

The only place of the package that asks what the terminal can do. Renders nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.errors import UsageError
from profkit.formats.atomic import replacing
from profkit.report.document import Document

if TYPE_CHECKING:
    from profkit.model import Run
    from profkit.report.safety import Masker

__all__ = [
    "DRAWN",
    "FORMATS",
    "check_by",
    "choose_format",
    "default_limit",
    "emit",
    "emit_bytes",
    "emit_chunks",
    "emit_report",
    "keep_inputs",
    "masker",
    "page_to_open",
    "show_page",
]

#: Formats by name; suffixes of ``-o`` that mean them.
FORMATS = ("terminal", "json", "md", "html", "svg")
#: Formats that draw, and so ask for a document's figures.
DRAWN = frozenset({"html", "svg"})
_SUFFIXES = {
    ".json": "json",
    ".md": "md",
    ".markdown": "md",
    ".txt": "terminal",
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
}

#: Rows of a list where ``--limit`` is not given: a screen's worth on a terminal, more where one can scroll.
_LIMITS = {"terminal": 20, "json": 50, "md": 50, "html": 20, "svg": 20}

#: Columns of a text report in a file or a pipe, where nothing says how wide the reader's window is.
_PLAIN_WIDTH = 80
#: Columns beyond which a table is harder to read, however wide the window is.
_MAX_WIDTH = 200


def choose_format(name: str | None, output: Path | None) -> str:
    """Decide the format: ``--format`` first, then the suffix of the output, then the terminal."""
    if name is not None:
        if name not in FORMATS:
            raise UsageError(f"--format {name}: not a format, use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
        return name
    if output is None:
        return "terminal"
    known = _SUFFIXES.get(output.suffix.lower())
    if known is None:
        raise UsageError(
            f"-o {output}: the suffix names no format, use .html, .svg, .json, .md or .txt, or give --format"
        )
    return known


def check_by(by: str) -> None:
    """Refuse what functions cannot be ranked by."""
    if by not in ("tottime", "cumtime"):
        raise UsageError(f"--by {by}: functions are ranked by tottime or cumtime")


def default_limit(limit: int | None, chosen: str) -> int:
    """Return the number of rows for a format; 0 is all of them."""
    if limit is not None and limit < 0:
        raise UsageError(f"--limit {limit}: give the number of rows, 0 for all")
    return _LIMITS[chosen] if limit is None else limit


def keep_inputs(inputs: Iterable[str], *outputs: Path | None) -> None:
    """Refuse to write over a file that was read: a profile cannot be had again, a report can.

    Parameters
    ----------
    inputs
        Paths of what was read; not asked for where no output is there yet.
    outputs
        Files to write, or ``None`` for stdout.

    Raises
    ------
    UsageError
        One of them is an input, by whatever name.
    """
    existing = [output for output in outputs if output is not None and output.is_file()]
    for path in inputs if existing else ():
        for output in existing:
            with contextlib.suppress(OSError):
                if os.path.samefile(output, path):
                    raise UsageError(f"-o {output}: is a profile that is read here, name another file")


def masker(runs: Iterable[Run]) -> Masker:
    """Make what takes users, hosts and secrets out of a report on these runs, also those of this machine."""
    import getpass
    import platform

    from profkit.report.safety import Masker, Owner

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name, as in a container
        user = ""
    home = os.path.expanduser("~")
    return Masker(runs, Owner("" if home == "~" else home, user, platform.node()))


def page_to_open(format: str | None, output: Path | None) -> Path:
    """Return the file of a page that is opened: the output, or a temporary file that stays for the browser."""
    if (format or "html") != "html" or (output is not None and choose_format(format, output) != "html"):
        asked = f"--format {format}" if format not in (None, "html") else f"-o {output}"
        raise UsageError(f"{asked}: --open opens a page, give -o an .html file or leave it away")
    if output is not None:
        return output
    # A name that nobody can have guessed; the file comes into being when it is complete.
    return Path(tempfile.gettempdir()) / f"profkit-{secrets.token_hex(8)}.html"


def show_page(page: Path | None) -> None:
    """Open a page in the user's browser; where there is none, its place is said."""
    import webbrowser

    assert page is not None
    address = Path(os.path.abspath(page)).as_uri()
    opened = False
    with contextlib.suppress(webbrowser.Error):
        opened = webbrowser.open(address)
    print(f"profkit: {'opened' if opened else 'no browser found; open'} {address}", file=sys.stderr)


def emit_report(
    chosen: str, output: Path | None, json_text: Callable[[], str], document: Callable[[], Document]
) -> None:
    """Render what was chosen and write it where it belongs.

    Parameters
    ----------
    chosen
        A format of `FORMATS`.
    output
        File, or ``None`` for stdout.
    json_text, document
        Make the JSON text or the document; only the one that is needed is called.
    """
    if chosen == "json":
        text = json_text()
    elif chosen == "md":
        from profkit.report import markdown

        text = markdown.render(document())
    elif chosen == "html":
        from profkit.report import html

        text = html.render(document())
    elif chosen == "svg":
        from profkit.report import svg

        text = svg.render(document())
    else:
        from profkit.report import terminal

        if output is not None:
            text = terminal.render(document(), width=_PLAIN_WIDTH)
        else:
            text = terminal.render(
                document(),
                width=_width(),
                height=shutil.get_terminal_size().lines if sys.stdout.isatty() else None,
                color_system=_color_system(),
                ascii_only=not _prints_signs(),
            )
    emit(text, output)


def emit(text: str, output: Path | None) -> None:
    """Write to a file in one piece, or to stdout; a reader that has closed its end is not an error."""
    if output is not None:
        emit_bytes(text.encode("utf-8", "backslashreplace"), output)
        return
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer must not be tried again when the interpreter closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_bytes(data: bytes, output: Path) -> None:
    """Write a file in one piece, as `emit_chunks` does."""
    _emit_file((data,), output)


def emit_chunks(chunks: Iterable[bytes], output: Path | None) -> None:
    """Write bytes as they are made, to a file or to stdout; a name that ends in ``.gz`` is compressed.

    A file is written beside the target and renamed: nobody reads half of it, and a failure keeps the old one.

    Raises
    ------
    UsageError
        It cannot be written there, or stdout is a terminal.
    """
    if output is not None:
        _emit_file(_compressed(chunks) if output.suffix.lower() == ".gz" else chunks, output)
        return
    if sys.stdout.isatty():
        raise UsageError("this is no text for a terminal: give -o FILE, or redirect it")
    try:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16: with gzip's header
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


def _emit_file(chunks: Iterable[bytes], output: Path) -> None:
    if output.exists() and not output.is_file():
        # A device, a pipe (/dev/stdout, a process substitution): there is nothing to rename over.
        if output.is_dir():
            raise UsageError(f"-o {output}: is a directory, name a file")
        _write_into(output, chunks)
        return
    try:
        with replacing(output) as stream:
            stream.writelines(chunks)
    except OSError as error:
        raise UsageError(f"-o {output}: cannot be written there, {error.strerror}") from error


def _write_into(output: Path, chunks: Iterable[bytes]) -> None:
    try:
        with open(output, "wb") as stream:
            stream.writelines(chunks)
    except BrokenPipeError:
        return
    except OSError as error:
        raise UsageError(f"-o {output}: cannot be written there, {error.strerror}") from error


def _width() -> int:
    columns = shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns
    if os.name == "nt":
        columns -= 1  # a full line makes an old console break it
    return min(columns, _MAX_WIDTH)


def _color_system() -> str | None:
    """Ask rich what the terminal understands; a pipe, NO_COLOR and old Windows consoles get plain text."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return None
    if not sys.stdout.isatty() and not os.environ.get("FORCE_COLOR"):
        return None
    from rich.console import Console

    console = Console(file=sys.stdout)
    return None if console.legacy_windows else console.color_system


def _prints_signs() -> bool:
    """Whether stdout's encoding has the few signs beyond ASCII that reports use."""
    try:
        "…→–×µ●✗✓█▏·•↑↗↘↓".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
