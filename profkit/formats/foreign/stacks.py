"""Profiles from weighted stacks: calls are unknown, self times have intervals by number of samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from profkit.errors import FormatError
from profkit.formats.limits import Budget
from profkit.model import Edges, Notice, Process, Profile, ProfileError, Ranges, Run, Thread
from profkit.model.bounds import EXACT, MOST_S
from profkit.model.estimates import FEW_SAMPLES, NONE_SEEN, NORMAL
from profkit.model.merge import Strings
from profkit.model.versions import python_of_paths

#: File, first line of the function (0: not known), and qualified name.
Frame: TypeAlias = tuple[str, int, str]
#: Frames, outermost first.
Stack: TypeAlias = tuple[Frame, ...]
#: A stack, its seconds, and its number of samples.
Weighted: TypeAlias = tuple[Stack, float, int]

#: Process and thread id, ``None`` where not known, and the thread's name.
ThreadKey: TypeAlias = tuple[int | None, int | None, str]

#: File of native functions, as for cProfile's built-in ones.
NATIVE = "~"

#: Most frames of a stack in formats that list its changes: each change copies the stack.
DEEPEST = 2000


class Samples:
    """Samples of a file's threads, summed by stack while reading; `Budget` limits their memory."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        #: Seconds and samples, by thread and stack.
        self._threads: dict[ThreadKey, dict[Stack, list[float]]] = {}

    def add(self, thread: ThreadKey, stack: Stack, seconds: float, samples: int = 1) -> None:
        """Add one stack; raise `LimitError` if there are more than the file's size allows."""
        stacks = self._threads.setdefault(thread, {})
        sums = stacks.get(stack)
        if sums is None:
            # A frame is a pointer to an object that all stacks share.
            self._budget.spend("calling contexts", 1 + len(stack) // 16)
            sums = stacks[stack] = [0.0, 0]
        sums[0] += seconds
        sums[1] += samples

    def run(
        self,
        path: object,
        notice: Notice,
        *,
        executed_lines: bool = False,
        python: str = "",
        ranges: Mapping[int | None, Ranges] = MappingProxyType({}),
    ) -> Run:
        """Return the samples as a run with the file's processes, main threads first."""
        processes: dict[int | None, list[Thread]] = {}
        for (pid, tid, name), stacks in self._threads.items():
            weighted = ((stack, seconds, int(count)) for stack, (seconds, count) in stacks.items())
            profile = profile_from_stacks(weighted, executed_lines=executed_lines)
            processes.setdefault(pid, []).append(Thread(profile, tid, name))
        return run_of_threads(path, processes, (notice,), ranges, python)


def run_of_threads(
    path: object,
    processes: Mapping[int | None, list[Thread]],
    warnings: tuple[Notice, ...],
    ranges: Mapping[int | None, Ranges],
    python: str = "",
) -> Run:
    """Return a file's threads and ranges as a run, main threads first; raise `FormatError` if empty."""
    made: list[Process] = []
    for pid in dict.fromkeys([*processes, *ranges]):
        threads = [thread for thread in processes.get(pid, ()) if len(thread.profile)]
        threads.sort(key=lambda t: t.name != "MainThread" and (pid is None or t.tid != pid))
        if threads or pid in ranges:
            files = {
                thread.profile.strings[i] for thread in threads for i in set(thread.profile.file.tolist())
            }
            found = python_of_paths(tuple(sorted(files)))
            version = python or (".".join(map(str, found)) if found else "")
            role = "child" if made else "main"
            made.append(
                Process(pid=pid, role=role, python=version, threads=tuple(threads), ranges=ranges.get(pid))
            )
    if not made:
        raise FormatError(path, "holds no functions", "was it recorded while the program ran?")
    return Run(str(path), tuple(made), warnings=warnings)


def profile_from_stacks(stacks: Iterable[Weighted], *, executed_lines: bool = False) -> Profile:
    """Sum weighted stacks by function, and by caller and callee; recursion counts once.

    With `executed_lines`, lines are executed ones, and a function gets the lowest. Empty stacks are skipped.
    The caller limits the number and depth of stacks. Raise `ProfileError` for impossible numbers.
    """
    whole = _summed(weighted for weighted in stacks if weighted[0])
    if executed_lines:
        whole = _summed(_by_function(whole))
    rows: dict[Frame, list[float]] = {}  # self time, cumulative time, samples
    pairs: dict[tuple[int, int], list[float]] = {}  # the callee's self and cumulative time
    numbers: dict[Frame, int] = {}
    for stack, (seconds, count) in whole.items():
        places = [numbers.setdefault(frame, len(numbers)) for frame in stack]
        for frame in dict.fromkeys(stack):
            rows.setdefault(frame, [0.0, 0.0, 0])[1] += seconds
        links = list(pairwise(places))
        for link in dict.fromkeys(links):
            pairs.setdefault(link, [0.0, 0.0])[1] += seconds
        leaf = rows[stack[-1]]
        leaf[0] += seconds
        leaf[2] += count
        if links:
            pairs[links[-1]][0] += seconds
    own, cumulative, taken = np.array(list(rows.values()), np.float64).reshape(-1, 3).T.copy()
    if not ((taken >= 0) & (taken <= EXACT)).all() or not (np.abs(own) <= MOST_S).all():
        raise ProfileError("holds an invalid sample count or time")
    all_taken = taken.sum()
    interval = own.sum() / all_taken if all_taken else 0.0
    weight = np.divide(own, taken, out=np.full(len(own), interval), where=taken > 0)
    error = np.where(taken > 0, NORMAL * np.sqrt(taken + FEW_SAMPLES), NONE_SEEN) * weight
    unknown = np.full(len(rows), np.nan)
    none = np.zeros(len(rows), np.int64)
    between = np.array(list(pairs), np.int32).reshape(-1, 2).T.copy()
    times = np.array(list(pairs.values()), np.float64).reshape(-1, 2).T.copy()
    no_calls = np.zeros(len(pairs), np.int64)
    return profile_of(
        list(numbers),
        (none, none, own, cumulative),
        Edges(between[0], between[1], no_calls, no_calls, times[0], times[1]),
        calls_low=unknown,
        calls_high=unknown,
        samples=taken.astype(np.int64),
        tottime_error=error,
    )


def profile_of(frames: Sequence[Frame], sums: Sequence[Any], edges: Edges, **estimates: Any) -> Profile:
    """Return the profile of these functions; `sums` are calls, primitive calls, self and cumulative times."""
    try:
        lines = np.array([line for _, line, _ in frames], np.int32)
    except OverflowError:
        raise ProfileError("holds a number that no profile has") from None
    strings = Strings()
    qualnames = tuple(qualname for _, _, qualname in frames)
    texts = tuple(file for file, _, _ in frames), qualnames, tuple(map(_last_part, qualnames))
    file, qualname, name = strings.join(texts)
    none = np.zeros(len(frames), np.int32)
    named = tuple(strings.texts), file, lines, name, qualname, none, none
    ncalls, primitive, tottime, cumtime = sums
    return Profile(*named, ncalls, primitive, tottime, cumtime, edges=edges, **estimates).validate()


def _summed(stacks: Iterable[Weighted]) -> dict[Stack, tuple[float, int]]:
    found: dict[Stack, tuple[float, int]] = {}
    for stack, seconds, samples in stacks:
        before = found.get(stack, (0.0, 0))
        found[stack] = before[0] + seconds, before[1] + samples
    return found


def _by_function(stacks: Mapping[Stack, tuple[float, int]]) -> Iterator[Weighted]:
    """Give each function the lowest known line; anonymous ones stay separate by line."""
    first: dict[Frame, int] = {}
    for stack in stacks:
        for frame in stack:
            key = _apart(frame)
            first[key] = min(first.get(key) or frame[1], frame[1] or first.get(key, 0))
    for stack, sums in stacks.items():
        yield tuple((f[0], first[_apart(f)], f[2]) for f in stack), *sums


def _apart(frame: Frame) -> Frame:
    file, line, name = frame
    last = _last_part(name)
    return file, line if last.startswith("<") and last != "<module>" else 0, name


def _last_part(qualname: str) -> str:
    """Return the name of a Python function; C++ names stay whole."""
    last = qualname.rpartition(".")[2]
    return last if last.isidentifier() or last.startswith("<") else qualname


#: ``name (file:line)`` of py-spy and VizTracer; native frames of py-spy have a library and no line. The end is
#: looked at first: without it, each of many parentheses would be tried.
_NAME_FILE_LINE = re.compile(r"(?=.*:\d{1,9}\)\Z)(.+) \((.+):(\d{1,9})\)")
#: ``name (file)`` of py-spy's Python functions without lines (``--nolineno``).
_NAME_FILE = re.compile(r"([^()]+) \((.+\.py[wx]?|<[^()]+>)\)")
#: ``file:name:line`` of Tachyon and Austin; the colon after the file is not one of a C++ name (``::``).
_FILE_NAME_LINE = re.compile(r"(.*[^:]):([^:]+):(\d{1,9})")
#: ``file(line): name`` of Kineto.
_FILE_LINE_NAME = re.compile(r"(.+)\((\d{1,9})\): (.+)")
#: ``py::name:file`` of CPython's perf trampolines; ``perf script`` appends an offset.
_TRAMPOLINE = re.compile(r"py::(.+?):((?:/|[A-Za-z]:|<|\.).*?)(?:\+0x[0-9a-f]+)?")


def frame_of(text: str) -> Frame:
    """Return file, line and name of a frame's text; a frame without a file is native."""
    if "\n" in text:
        return NATIVE, 0, text
    if found := _TRAMPOLINE.fullmatch(text):
        return found[2], 0, found[1]
    if found := _NAME_FILE_LINE.fullmatch(text):
        return found[2], int(found[3]), found[1]
    if found := _NAME_FILE.fullmatch(text):
        return found[2], 0, found[1]
    if found := _FILE_LINE_NAME.fullmatch(text):
        return found[1], int(found[2]), found[3]
    if found := _FILE_NAME_LINE.fullmatch(text):
        return found[1], int(found[3]), found[2]
    return NATIVE, 0, text
