"""Reader of collapsed stacks of py-spy (``--format raw``), perf, Tachyon (``--collapsed``) and Austin."""

from __future__ import annotations

import re

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import Frame, Samples, ThreadKey, frame_of
from profkit.formats.limits import Budget
from profkit.model import Notice, Run

#: py-spy writes samples without a frame.
_LINE = re.compile(r"(\S.*|) (\d{1,15})")
_LOOKED_AT = 20
#: Frames for processes and threads: of py-spy and Austin, and of Tachyon.
_PROCESS = re.compile(r"process (\d{1,15}):.*|P(\d{1,15})")
_THREAD = re.compile(
    r'thread \((\d{1,15}|0x[0-9A-Fa-f]+)\)(?:: )?"?(.*?)"?|T(?:\d+:)?(\d{1,15})|tid:(\d{1,15})'
)
#: perf's names of the interpreter's own frames, between those of Python functions.
_INTERPRETER = re.compile(r"\[(?:unknown|(?:lib)?python\d[^\]]*)\]")
#: Default samples per second: of Tachyon, and of py-spy and others.
_TACHYON_HZ, _USUAL_HZ = 1000.0, 100.0


def is_collapsed(head: str) -> bool:
    """Return whether the first lines of a file are collapsed stacks; the last one may be cut off."""
    lines = [line for line in head.split("\n")[:_LOOKED_AT] if line.strip() and not line.startswith("#")]
    return bool(lines) and all(_LINE.fullmatch(line.rstrip("\r")) for line in lines[:1] + lines[1:-1])


def read_collapsed(path: object, text: str, budget: Budget) -> Run:
    """Read collapsed stacks; raise `FormatError` or `LimitError`."""
    said = dict(re.findall(r"^# (austin|mode|interval): (.*)$", text[:4096], re.MULTILINE))
    if said.get("mode", "").strip() == "memory":
        raise FormatError(path, "holds memory sizes, not times", "record time: austin without -m")
    tachyon = text.startswith("tid:")
    hertz = 1e6 if "austin" in said else _TACHYON_HZ if tachyon else _USUAL_HZ
    samples, frames = Samples(budget), dict[str, Frame]()
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        found = _LINE.fullmatch(line)
        if not line.strip() or line.startswith("#") or (found and not found[1]):
            continue
        if found is None:
            raise FormatError(
                path, f"line {number} is not a stack with a number", "it was cut short: copy it again"
            )
        thread, parts = _thread_of(found[1].split(";"))
        count = int(found[2])
        stack = tuple(frames.get(part) or frames.setdefault(part, frame_of(part)) for part in parts)
        # Austin's number is microseconds, not samples.
        samples.add(thread, stack, count / hertz, 1 if "austin" in said else count)
    notice = (
        Notice("foreign-samples", "Austin")
        if "austin" in said
        else Notice("foreign-samples", "Tachyon" if tachyon else "collapsed", {"assumed": hertz})
    )
    return samples.run(path, notice, executed_lines=True)


def _thread_of(parts: list[str]) -> tuple[ThreadKey, list[str]]:
    """Split the frames for processes and thread off a stack."""
    pid = tid = None
    name = ""
    while parts and (process := _PROCESS.fullmatch(parts[0])):
        pid, parts = int(process[1] or process[2]), parts[1:]
    if parts and (thread := _THREAD.fullmatch(parts[0])):
        number = thread[1] or thread[3] or thread[4]
        tid, name, parts = int(number, 16 if number.startswith("0x") else 10), thread[2] or "", parts[1:]
    if any(part.startswith("py::") for part in parts):
        # perf's stacks begin with the program's name; the interpreter's time is that of the function it runs.
        name, parts = parts[0], [part for part in parts[1:] if not _INTERPRETER.fullmatch(part)]
    return (pid, tid, name), parts
