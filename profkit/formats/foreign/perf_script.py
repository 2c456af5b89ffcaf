"""Reader of ``perf script`` output: samples with stacks, innermost frame first.

With ``-X perf``, Python from 3.12 names its functions ``py::name:file``. The interpreter's frames between
them are dropped: their time is that of the Python function.
"""

from __future__ import annotations

import re
from statistics import median

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import NATIVE, Frame, Samples, ThreadKey, frame_of
from profkit.formats.limits import Budget
from profkit.model import Notice, Run

#: ``comm pid/tid [cpu] seconds: period event:``.
_HEAD = re.compile(
    r"(\S.*?)\s+(?:(\d{1,12})/)?(\d{1,12})\s+(?:\[\d+\]\s+)?(\d{1,12}\.\d{1,9}):\s+(?:(\d{1,15})\s+)?(\S+?):\s*"
)
#: ``address symbol+offset (library)``.
_FRAME = re.compile(r"\s+[0-9a-f]{1,16} (.+?)(?:\+0x[0-9a-f]+)? \(([^()]*(?:\([^()]*\))?)\)\s*")
_INTERPRETER = re.compile(r"(?:.*/)?(?:lib)?python\d[^/]*")
#: Events with a period in nanoseconds.
_CLOCKS = ("cpu-clock", "task-clock")


def is_perf_script(head: str) -> bool:
    """Return whether the first lines of a file are ``perf script`` output."""
    first = next((line for line in head.split("\n") if line.strip() and not line.startswith("#")), "")
    return _HEAD.fullmatch(first) is not None


def read_perf_script(path: object, text: str, budget: Budget) -> Run:
    """Read samples of perf; raise `FormatError` or `LimitError`."""
    frames: dict[str, tuple[Frame, bool]] = {}
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
            key = f"{found[1]} {found[2]}"
            stack.append(frames.get(key) or frames.setdefault(key, _frame(found[1], found[2])))
        elif head := _HEAD.fullmatch(line.strip()):
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
    return (NATIVE, 0, native), _INTERPRETER.fullmatch(library) is not None


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
