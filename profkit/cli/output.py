"""Write text and bytes to stdout, a file or the browser, as far as the terminal can show them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from profkit.api.files import write_file
from profkit.errors import UsageError
from profkit.report.renderers import Terminal

#: Columns of a text report in a pipe, where the reader's width is unknown.
_PLAIN_WIDTH = 80
#: Most columns: wider tables are harder to read.
_MAX_WIDTH = 200


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
        # The interpreter must not flush the rest of the buffer again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
