"""Parser of the texts by which tools write a frame, into file, line and name."""

from __future__ import annotations

import re

from profkit.formats.foreign.stacks import NATIVE, Frame

#: ``name (file:line)`` of py-spy and VizTracer; native frames of py-spy have a library and no line.
_NAME_FILE_LINE = re.compile(r"(.+) \((.+):(\d{1,9})\)")
#: ``file:name:line`` of Tachyon and Austin; the colon after the file is not one of a C++ name (``::``).
_FILE_NAME_LINE = re.compile(r"(.*[^:]):([^:]+):(\d{1,9})")
#: ``file(line): name`` of Kineto.
_FILE_LINE_NAME = re.compile(r"(.+)\((\d{1,9})\): (.+)")
#: ``py::name:file`` of CPython's perf trampolines; ``perf script`` appends an offset.
_TRAMPOLINE = re.compile(r"py::(.+?):((?:/|[A-Za-z]:|<|\.).*?)(?:\+0x[0-9a-f]+)?")


def frame_of(text: str) -> Frame:
    """Return file, line and name of a frame's text; a frame without a file is native."""
    if found := _TRAMPOLINE.fullmatch(text):
        return found[2], 0, found[1]
    if found := _NAME_FILE_LINE.fullmatch(text):
        return found[2], int(found[3]), found[1]
    if found := _FILE_LINE_NAME.fullmatch(text):
        return found[1], int(found[2]), found[3]
    if found := _FILE_NAME_LINE.fullmatch(text):
        return found[1], int(found[3]), found[2]
    return NATIVE, 0, text
