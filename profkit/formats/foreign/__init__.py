"""Readers of other tools' files, selected by content; what a format lacks stays unknown."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
import zlib
from typing import Any

from profkit.errors import FormatError
from profkit.formats.foreign.json_traces import read_chrome, read_speedscope
from profkit.formats.foreign.pprof import is_pprof, read_pprof
from profkit.formats.foreign.tachyon import MAGICS, read_tachyon
from profkit.formats.foreign.text_stacks import is_collapsed, is_perf_script, read_collapsed, read_perf_script
from profkit.formats.limits import FACTOR, FLOOR, Budget, LimitError, json_weight
from profkit.formats.pstats_file import read_dump
from profkit.formats.regular_file import NotRegularError, open_regular
from profkit.model import ProfileError, Run

_HEAD = 1 << 16
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
#: Errors of readers on malformed files.
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, struct.error)
_AGAIN = "copy it again, or record again"


def read_foreign(path: Any) -> Run | None:
    """Read the profile of another tool, ``None`` for an unknown format; raise only `FormatError`."""
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD)
    except (OSError, NotRegularError):
        return None  # the next reader reports why
    kind = _kind(_first_gunzipped(head) if head.startswith(_GZIP) else head)
    if head.startswith(_GZIP) and kind in ("", "sqlite"):
        raise FormatError(path, "is compressed, and as such no profile that is read", "unpack it with gunzip")
    if not kind:
        return None
    try:
        return _read(path, kind)
    except (LimitError, ProfileError) as error:
        raise FormatError(path, str(error), "its numbers are damaged; record again") from None
    except _DAMAGED as error:
        raise FormatError(path, f"is damaged: {_what(error)}", _AGAIN) from None


def _what(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {str(error)[:60]}"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _kind(head: bytes) -> str:
    """Return the format of a file by its first bytes, as a word that `_read` knows; empty if unknown."""
    if head.startswith(_SQLITE):
        return "sqlite"
    if head[:4] in MAGICS:
        return "tachyon"
    if is_pprof(head):
        return "pprof"
    start = head.lstrip()[:2].split()
    # A pstats dump begins with a brace too, but its next byte, an object's type, is none of these characters.
    if start and (start[0] in (b"{", b"[", b"[{") or start[0] == b'{"'):
        return "json"
    if b"\0" in head:
        return ""
    text = head.decode("utf-8", "replace")
    return "perf" if is_perf_script(text) else "collapsed" if is_collapsed(text) else ""


def _read(path: Any, kind: str) -> Run:
    if kind == "sqlite":
        from profkit.formats.foreign.nsys import read_nsys  # a Python may lack SQLite

        return read_nsys(path)
    data = read_dump(path)
    budget = Budget(len(data))
    if data.startswith(_GZIP):
        data = _gunzipped(data, FLOOR + FACTOR * len(data))
    readers = {"tachyon": read_tachyon, "pprof": read_pprof, "json": _read_json}
    if kind in readers:
        return readers[kind](path, data, budget)
    text = data.decode("utf-8", "replace")
    return read_perf_script(path, text, budget) if kind == "perf" else read_collapsed(path, text, budget)


def _read_json(path: Any, data: bytes, budget: Budget) -> Run:
    budget.spend("values of JSON", json_weight(data))
    found = _decoded(data.decode("utf-8", "replace"))
    if isinstance(found, dict) and "shared" in found and "profiles" in found:
        return read_speedscope(path, found, budget)
    if isinstance(found, list) or "traceEvents" in found:
        return read_chrome(path, found, budget)
    raise FormatError(
        path, "is JSON, but not a known profile", "speedscope's and Chrome's (traceEvents) are read"
    )


def _decoded(text: str) -> Any:
    """Decode JSON; an array may lack its end, as that of a Chrome trace may."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if not text.lstrip().startswith("["):
            raise
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(text.rstrip().removesuffix(",") + "]")
        raise


def _first_gunzipped(data: bytes) -> bytes:
    """Return the first bytes of what begins with this data, unpacked; empty if it is damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(data, _HEAD)
    except zlib.error:
        return b""


def _gunzipped(data: bytes, most: int) -> bytes:
    """Return unpacked data, of one member or of several; raise `ValueError` if damaged or more than `most` bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None
    if len(unpacked) > most:
        raise ValueError("it unpacks to more than a file of its size may hold")
    return unpacked
