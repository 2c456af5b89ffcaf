"""Strings of profiles, made safe and made to fit: `profkit.report.text`, and messages of errors."""

from __future__ import annotations

import zlib

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.target import Target, Wrong
from profkit.cli import printable
from profkit.report.text import (
    cell_width,
    clean,
    pad,
    shorten_middle,
    shorten_start,
    unbroken,
    wrap,
    wrap_some,
)

#: Characters of the texts that are repeated, to see whether time grows with their length; the engine's count of
#: branches makes it grow faster.
_LONG, _LONG_COUNTED = 200_000, 10_000


def text_of(data: bytes) -> str:
    """Return bytes as a string that may hold surrogates, as those of paths and of JSON do."""
    return data.decode("utf-8", "surrogateescape")


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    width, text = 2 + (data[0] if data else 0) % 100, text_of(data[1:])
    if text and (thorough or zlib.crc32(data) % 256 == 0):
        text *= max(1, (_LONG if thorough else _LONG_COUNTED) // len(text))
    said = clean(text)
    check_text(said)
    if "\n" in said:
        raise Wrong("a clean text has two lines")
    if clean(said) != said:
        raise Wrong("a clean text is changed again")
    if not printable(text).isprintable():
        raise Wrong("a message of an error is not printable")
    for shortened in (shorten_middle(said, width), shorten_start(said, width)):
        if cell_width(shortened) > width:
            raise Wrong(f"a shortened text is wider than {width} columns: {shortened!r}")
    for right in (False, True):
        if cell_width(pad(said, width, right=right)) != max(width, cell_width(said)):
            raise Wrong("a padded text has another width")
    lines = wrap(said, width)
    if any(cell_width(line) > width for line in lines):
        raise Wrong(f"a wrapped text is wider than {width} columns: {lines!r}")
    if "".join("".join(lines).split()) != "".join(said.split()):
        raise Wrong(f"a wrapped text loses characters: {said!r} {lines!r}")
    if len(wrap_some(said, width, 4)) > 4:
        raise Wrong("a text that was cut has more lines than it may")
    check_text(unbroken(said))


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Put in a text that means something, or change bytes."""
    if mutation.random.random() < 0.6:
        return mutation.bytes_of(data, TARGET.most_bytes)
    return data[:1] + mutation.text(text_of(data[1:])).encode("utf-8", "surrogatepass")[: TARGET.most_bytes]


TARGET = Target(
    check,
    mutate,
    1024,
    ("\u202e".encode(), b"\x1b[", "中".encode(), "e\u0301".encode(), b"5 ms", "\ufeff".encode()),
    quick=2000,
)
