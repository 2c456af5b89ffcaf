"""What source files say of functions, cached while their size, times and inode are the same.

Nothing depends on the cache: if it is missing, damaged, or not the user's own, the sources are read.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.formats.atomic import replacing
from profkit.formats.regular_file import read_regular

if TYPE_CHECKING:  # slow to import, and only needed for what the cache lacks
    from profkit.capture.source import SourceFile

#: Most bytes; beyond, the least recently used is dropped. A large framework's program takes 1 MiB.
_MOST_BYTES = 8 * 2**20
#: Directories that are made for it: a user without a home (`/nonexistent`) gets none.
_MOST_MADE = 2
#: A file written more recently may be written again unnoticed: some file systems count in 2 s.
_SETTLED_S = 3.0
#: Numbers before the functions of a line, and fields of a function.
_STAMP, _FIELDS = 4, 4

_Stamp = tuple[int, int, int, int]


def cache_file(environ: Mapping[str, str]) -> Path | None:
    """Return the user's cache; ``None`` if there is no place, or owners of files are unknown (Windows)."""
    if not hasattr(os, "geteuid"):
        return None
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME", ""), ".cache")
    return Path(base) / "profkit" / "sources" if os.path.isabs(base) else None


class Sources:
    """Source files, each examined once, with what the `cache` has of them."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache
        self._files: dict[str, _File] = {}

    def describe(self, path: str, line: int, name: str, qualname: str) -> tuple[str, str]:
        """Return a function's qualified name (`qualname` if not empty) and source hash; empty if unknown."""
        found, digest = self._at(path).function(line, name, named=not qualname and not name.startswith("<"))
        return qualname or found, digest

    def calls(self, path: str, name: str) -> list[str]:
        """Return the functions of a file around calls of `name` (`SourceFile.calls`); empty without the file."""
        text = self._at(path).text()
        return [] if text is None else list(text.calls(name))

    def definitions(self, path: str) -> dict[str, str]:
        """Return the source hashes of a file's functions by qualified name; empty without the file."""
        text = self._at(path).text()
        return {} if text is None else text.hashes()

    def defines(self, path: str, line: int, name: str, qualname: str) -> bool:
        """Return whether a file has such a function (`SourceFile.defines`)."""
        text = self._at(path).text()
        return text is not None and text.defines(line, name, qualname)

    def let_go(self) -> None:
        """Keep the results and drop the text, which is read again for any other function."""
        for file in self._files.values():
            file.let_go()

    def save(self) -> None:
        """Save new results; raises nothing. If two processes save at once, the last wins."""
        if self._cache is None or not any(file.new for file in self._files.values()):
            return
        lines = dict(self._kept)
        for path, file in self._files.items():
            key = _text(path)
            before = lines.pop(key, None)
            line = file.line() if file.new else before
            if line is not None:
                lines[key] = line  # now last: the least recently used is first
        with contextlib.suppress(OSError, ValueError):
            _write(self._cache, lines)

    def _at(self, path: str) -> _File:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._file(path)
        return file

    def _file(self, path: str) -> _File:
        try:
            about = os.stat(path)
        except (OSError, ValueError):  # a name may hold anything
            return _File(path, None, None)
        # The inode's time of change cannot be set; some tools give all files one time of modification.
        stamp = about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino
        return _File(path, stamp, self._kept.get(_text(path)))

    @functools.cached_property
    def _kept(self) -> dict[bytes, bytes]:
        if self._cache is not None:
            with contextlib.suppress(OSError, ValueError):
                return _read(self._cache)
        return {}


class _File:
    def __init__(self, path: str, stamp: _Stamp | None, kept: bytes | None) -> None:
        self.new = False
        self._path = path
        self._stamp = stamp
        self._text: SourceFile | None = None
        self._read = stamp is None  # no file, nothing to read
        self._settled = stamp is not None and max(stamp[1:3]) <= time.time_ns() - _SETTLED_S * 1e9
        self._functions: dict[tuple[int, str], tuple[str | None, str]] = {}
        if stamp is not None and kept is not None:
            with contextlib.suppress(ValueError, TypeError):
                self._functions = _functions(kept, stamp)

    def function(self, line: int, name: str, *, named: bool) -> tuple[str, str]:
        """Return the qualified name, if `named`, and the hash."""
        qualname, digest = self._functions.get((line, name), (None, None))
        if digest is None or (named and qualname is None):
            text = self.text()
            if text is None:
                return "", ""
            self.new = True
            qualname = text.qualname(line, name) if named else None
            digest = text.hash(line, name)
            self._functions[line, name] = qualname, digest
        return qualname or "", digest

    def text(self) -> SourceFile | None:
        """Return the file, read if necessary; ``None`` if it is no source."""
        if not self._read:
            from profkit.capture.source import read_source

            self._text, self._read = read_source(self._path), True
        return self._text

    def let_go(self) -> None:
        if self._text is not None:
            self._text, self._read = None, False

    def line(self) -> bytes | None:
        """Return its cache line, ``None`` if it may have changed unnoticed since it was read."""
        if self._stamp is None or not self._settled:
            return None
        values: list[object] = list(self._stamp)
        for (line, name), (qualname, digest) in self._functions.items():
            values += line, name, qualname, digest
        return json.dumps(values, separators=(",", ":")).encode("ascii")


def _functions(kept: bytes, stamp: _Stamp) -> dict[tuple[int, str], tuple[str | None, str]]:
    """Return the functions in a cache line, none if it has another stamp."""
    values = json.loads(kept)
    if tuple(values[:_STAMP]) != stamp:
        return {}
    fields = [values[first::_FIELDS] for first in range(_STAMP, _STAMP + _FIELDS)]
    return {(line, name): (qualname, digest) for line, name, qualname, digest in zip(*fields, strict=True)}


def _text(path: str) -> bytes:
    return json.dumps(path).encode("ascii")  # no tab, no end of line


def _head(body: bytes) -> bytes:
    """Return the first line, which identifies the code that made the hashes: versions may differ."""
    made_by = zlib.crc32(Path(__file__).with_name("source.py").read_bytes())
    return f"profkit sources 1 {made_by:08x} {zlib.crc32(body):08x}\n".encode("ascii")


def _read(cache: Path) -> dict[bytes, bytes]:
    """Return the cache lines by path; none unless the file is complete and only the user may write it."""
    if not _is_own(cache.parent) or not _is_own(cache):
        return {}
    head, end, body = read_regular(cache, _MOST_BYTES).partition(b"\n")
    if head + end != _head(body):
        return {}
    return {key: line for key, _, line in (row.partition(b"\t") for row in body.splitlines())}


def _write(cache: Path, lines: dict[bytes, bytes]) -> None:
    size, kept = 256, []  # with the first line
    for key, line in reversed(lines.items()):
        size += len(key) + len(line) + 2
        if size > _MOST_BYTES:
            break
        kept.append(b"%b\t%b\n" % (key, line))
    missing = [parent for parent in cache.parents if not parent.exists()]
    if len(missing) > _MOST_MADE:
        return
    above = cache.parents[len(missing)].stat()
    if missing and os.geteuid() == 0 != above.st_uid:
        return  # under sudo: the user could not use it
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(cache.parent):
        return
    body = b"".join(reversed(kept))
    with replacing(cache, durable=False, private=True) as file:
        file.write(_head(body))
        file.write(body)


def _is_own(path: Path) -> bool:
    """Return whether a path is the user's, and nobody else may write to it."""
    about = path.stat()
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
