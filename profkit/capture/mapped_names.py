"""The functions that are named in the file of a tracer's tables, of an ended process or as it grows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profkit.capture import mapped_layout as layout
from profkit.capture.thread_tables import Codes
from profkit.formats.codec import MemberError
from profkit.formats.regular_file import open_regular
from profkit.model.arrays import Bools

#: In labels of the tracer's own methods, and before those of its functions, which the agent calls while it traces.
_OWN_METHOD = " of 'profkit_tracer."
_OWN_FUNCTION = "<built-in method _tracer.", "<built-in method _tracer_abi3."
#: The agent's functions through which the target imports modules: their callees are the target's.
_PASSING_FILE, _PASSING = "<frozen profkit.import_hook>", ("find_spec", "create_module", "exec_module")


@dataclass(frozen=True, slots=True, eq=False)
class FileFunctions:
    """The functions of all threads: `own` are the agent's; the rest index `codes`.

    Calls of those that are `uncounted` are estimated where the process was sampled. Callees of `passing` are
    the target's. `code_of`: by number of the name in the file.
    """

    codes: Codes
    own: Bools
    uncounted: Bools
    passing: set[int]
    code_of: dict[int, int]

    @staticmethod
    def read(contents: Iterable[bytes], *, counted: bool, growing: bool) -> FileFunctions:
        """Read the blocks of names; `counted` as in `Bursts`."""
        files: dict[int, int] = {}
        texts: list[str] = []
        own_files: list[bool] = []
        functions: list[tuple[int, int, int, bool, str, str]] = []
        for data in contents:
            for kind, number, file, line, flags, text in _names(data):
                if kind == layout.NAME_FILE:
                    files[number] = len(texts)
                    texts.append(text_of(text))
                    own_files.append(bool(flags & layout.IS_OWN))
                else:
                    uncounted = not counted or bool(flags & layout.IS_UNCOUNTED)
                    functions.append(
                        (number, file, min(line, layout.LAST_LINE), uncounted, *_name_and_qualname(text))
                    )
        if growing:
            functions = [function for function in functions if function[1] in files]
        numbers, file_numbers, lines, uncounted_codes, names, qualnames = (
            zip(*functions, strict=True) if functions else [()] * 6
        )
        if any(file not in files for file in set(file_numbers)):
            raise MemberError("damaged: a function's file is not there")
        places = np.array([files[file] for file in file_numbers], np.int64)
        codes = Codes(tuple(texts), places, np.array(lines, np.int64), names, qualnames)
        own = np.array(own_files, bool)[places]
        own |= np.array([_OWN_METHOD in name or name.startswith(_OWN_FUNCTION) for name in names], bool)
        passing = (i for i in np.flatnonzero(own).tolist() if names[i] in _PASSING)
        return FileFunctions(
            codes,
            own,
            np.array(uncounted_codes, bool),
            {i for i in passing if texts[places[i]] == _PASSING_FILE},
            dict(zip(numbers, range(len(numbers)), strict=True)),
        )


class GrowingNames:
    """New functions of a running process: hints only. A look reads only where blocks are, and new names."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}  # by offset of a block: bytes of it that were read
        self._files: dict[int, str] = {}

    def look(self, path: Path) -> list[tuple[str, int, str, str]]:
        """Return file, line, name and qualified name of new functions; errors as in `mapped_tables.read_tables`."""
        with open_regular(path, buffering=0) as file:

            def read(at: int, count: int) -> bytes:
                file.seek(at)
                return file.read(count)

            layout.read_header(read(0, layout.HEADER_BYTES))
            found: list[tuple[str, int, str, str]] = []
            for block in layout.blocks(read, os.fstat(file.fileno()).st_size, []):
                if block.kind == layout.BLOCK_NAMES:
                    found += self._new(read, block)
            return found

    def _new(self, read: layout.ReadBytes, block: layout.Block) -> Iterator[tuple[str, int, str, str]]:
        done = self._read.get(block.at, 0)
        if block.size > layout.MOST_NAMES:
            raise MemberError("damaged: it has more names in one place than a tracer writes")
        for kind, number, file, line, flags, text in _names(read(block.at + done, block.size - done)):
            done += _name_bytes(text)
            if kind == layout.NAME_FILE:
                self._files[number] = "" if flags & layout.IS_OWN else text_of(text)
            elif self._files.get(file):
                yield (self._files[file], min(line, layout.LAST_LINE), *_name_and_qualname(text))
        self._read[block.at] = done


def _names(data: bytes) -> Iterator[tuple[int, int, int, int, int, bytes]]:
    """Yield kind, number, file, line, flags and text of the names in a block's content, or its end."""
    at, last, unpack, kinds = 0, len(data) - layout.NAME.size, layout.NAME.unpack_from, layout.NAME_KINDS
    while at <= last:
        kind, size, number, file, line, flags = unpack(data, at)
        if kind == 0:
            return
        if size > last - at:
            raise MemberError("damaged: it has a name of an impossible size")
        if kind not in kinds:
            raise MemberError("damaged: it has a name of unknown kind")
        text = data[at + layout.NAME.size : at + layout.NAME.size + size]
        yield kind, number, file, line, flags, text
        at += _name_bytes(text)


def _name_bytes(text: bytes) -> int:
    return (layout.NAME.size + len(text) + 7) // 8 * 8


def _name_and_qualname(text: bytes) -> tuple[str, str]:
    name, _, qualname = text.partition(b"\0")
    return text_of(name), text_of(qualname)


def text_of(text: bytes) -> str:
    """Decode a text as the agent's Python had it, with invalid bytes replaced."""
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace")
