"""Readers of stacks as text: collapsed ones of several tools, and ``perf script`` output.

Collapsed are those of py-spy (``--format raw``), perf, Tachyon (``--collapsed``) and Austin. With ``-X perf``,
Python from 3.12 names its functions ``py::name:file``. The interpreter's frames between them are dropped: their
time is that of the Python function.
"""

from __future__ import annotations

import re
from functools import cache
from statistics import median

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import NATIVE, Frame, Samples, ThreadKey, frame_of
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
    austin, tachyon = "austin" in said, text.startswith("tid:")
    hertz = 1e6 if austin else _TACHYON_HZ if tachyon else _USUAL_HZ
    samples, frame = Samples(budget), cache(frame_of)
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
        # Austin's number is microseconds, not samples.
        samples.add(thread, tuple(map(frame, parts)), count / hertz, 1 if austin else count)
    tool = "Austin" if austin else "Tachyon" if tachyon else "collapsed"
    notice = Notice("foreign-samples", tool, {} if austin else {"assumed": hertz})
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


#: ``comm pid/tid [cpu] seconds: period event:``.
_SAMPLE = re.compile(
    r"(\S.*?)\s+(?:(\d{1,12})/)?(\d{1,12})\s+(?:\[\d+\]\s+)?(\d{1,12}\.\d{1,9}):\s+(?:(\d{1,15})\s+)?(\S+?):\s*"
)
#: ``address symbol+offset (library)``.
_FRAME = re.compile(r"\s+[0-9a-f]{1,16} (.+?)(?:\+0x[0-9a-f]+)? \(([^()]*(?:\([^()]*\))?)\)\s*")
_LIBRARY = re.compile(r"(?:.*/)?(?:lib)?python\d[^/]*")
#: Events with a period in nanoseconds.
_CLOCKS = ("cpu-clock", "task-clock")


def is_perf_script(head: str) -> bool:
    """Return whether the first lines of a file are ``perf script`` output."""
    first = next((line for line in head.split("\n") if line.strip() and not line.startswith("#")), "")
    return _SAMPLE.fullmatch(first) is not None


def read_perf_script(path: object, text: str, budget: Budget) -> Run:
    """Read samples of perf; raise `FormatError` or `LimitError`."""
    frame = cache(_frame)
    # Thread, period in nanoseconds (0: not known), time in seconds, and stack of each sample.
    taken: list[tuple[ThreadKey, int, float, tuple[Frame, ...]]] = []
    thread: ThreadKey | None = None
    period, at, stack = 0, 0.0, list[tuple[Frame, bool]]()

    def finish() -> None:
        if thread is not None:
            budget.spend("samples of threads", 1 + len(stack) // 16)
            taken.append((thread, period, at, _python(stack[::-1])))

    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t" and (found := _FRAME.fullmatch(line)):
            stack.append(frame(found[1], found[2]))
        elif head := _SAMPLE.fullmatch(line.strip()):
            finish()
            tid = int(head[3])
            thread, at, stack = (int(head[2] or tid), tid, head[1]), float(head[4]), []
            period = int(head[5] or 0) if head[6].startswith(_CLOCKS) else 0
        elif thread is None or line[0] not in " \t":
            raise FormatError(path, f"line {number} is not a perf sample", "print it with: perf script")
    finish()
    rate, samples = _usual_gap(taken), Samples(budget)
    for of, clock_ns, _, found_stack in taken:
        samples.add(of, found_stack, clock_ns / 1e9 if clock_ns else rate)
    return samples.run(path, Notice("foreign-samples", "perf"))


def _frame(symbol: str, library: str) -> tuple[Frame, bool]:
    """Return a frame, and whether it is the interpreter's own."""
    if symbol.startswith("py::"):
        return frame_of(symbol), False
    native = f"[{library.rpartition('/')[2]}]" if symbol == "[unknown]" else symbol
    return (NATIVE, 0, native), _LIBRARY.fullmatch(library) is not None


def _python(stack: list[tuple[Frame, bool]]) -> tuple[Frame, ...]:
    """Drop the interpreter's frames if the stack has Python frames."""
    has = any(frame[0] != NATIVE for frame, _ in stack)
    return tuple(frame for frame, interpreter in stack if not (has and interpreter))


def _usual_gap(taken: list[tuple[ThreadKey, int, float, tuple[Frame, ...]]]) -> float:
    """Return the median time between samples of a thread: the weight of a sample whose event is no clock."""
    last: dict[ThreadKey, float] = {}
    gaps = []
    for thread, _, at, _ in taken:
        if thread in last and at > last[thread]:
            gaps.append(at - last[thread])
        last[thread] = at
    return median(gaps) if gaps else 0.0
