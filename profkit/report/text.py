"""Strings from profiles, made safe and made to fit.

Names may contain newlines, escape sequences and undecodable bytes: `clean` every string on its way into a
document. Renderers escape their own markup.
"""

from __future__ import annotations

import functools
import re
import textwrap
import unicodedata
from collections.abc import Iterator

#: C0 and C1 controls, DEL, surrogates, line and paragraph separators, and invisible characters: bidirectional
#: controls, which reorder text, zero-width characters and the byte order mark.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

#: A space between number and unit, where no line breaks, and its stand-in, which no cleaned text contains.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs|ns)(?![\w%]))")
_KEPT = "\x01"


def clean(text: str) -> str:
    """Return `text` on one line, control characters and surrogates spelled as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def cell_width(text: str) -> int:
    """Return the columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


@functools.lru_cache(4096)
def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill `text` with spaces to `width` columns, on its left if `right`."""
    fill = " " * max(0, width - cell_width(text))
    return fill + text if right else text + fill


def shorten_middle(text: str, width: int) -> str:
    """Cut the middle of `text` to at most `width` columns."""
    if cell_width(text) <= width:
        return text
    room = width - 1
    if room <= 0:
        return "…"[:width]
    tail = _take(text[::-1], room - room // 2)[::-1]
    head = _take(text, room - cell_width(tail))
    return f"{head}…{tail}"


def shorten_start(text: str, width: int) -> str:
    """Cut the start of `text` to at most `width` columns: a path's end matters most."""
    if cell_width(text) <= width:
        return text
    return "…" + _take(text[::-1], width - 1)[::-1] if width > 1 else "…"[:width]


def _take(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    used = 0
    for at, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:at]
    return text


def wrap(text: str, width: int) -> list[str]:
    """Break prose into lines of at most `width` columns, between words if possible, never before a unit."""
    if cell_width(text) <= width:
        return [text]
    return [line.replace(_KEPT, " ") for line in _wrapped(_UNIT.sub(_KEPT, text), width)]


def _wrapped(text: str, width: int) -> list[str]:
    if text.isascii():
        return textwrap.wrap(text, max(1, width), break_on_hyphens=False) or [""]
    lines: list[str] = []
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if cell_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width)
        lines += full
    if line:
        lines.append(line)
    return lines or [""]


def _pieces(word: str, width: int) -> Iterator[str]:
    """Cut a word into lines in one pass: generated names can be very long."""
    start = used = 0
    for at, char in enumerate(word):
        own = _char_width(char)
        if used + own > width and at > start:
            yield word[start:at]
            start, used = at, 0
        used += own
    yield word[start:]


def unbroken(text: str) -> str:
    """Join numbers and units by no-break spaces, for callers that break lines."""
    return _UNIT.sub("\u00a0", text)


def wrap_some(text: str, width: int, most: int) -> list[str]:
    """Break prose like `wrap`, and cut its middle if that gives more than `most` lines."""
    lines = wrap(text, width)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 2], "…", lines[-1]]
