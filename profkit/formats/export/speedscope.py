"""Writer for speedscope (`file-format-schema.json` of its package).

A thread's pushed ranges of one domain are an evented profile; its functions are a sampled one, weighted by
self time. Marks, and ranges that may end in another thread, have no place in a stack and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import contexts_of, place_of
from profkit.formats.export.timeline import (
    CHUNK_ROWS,
    Export,
    Track,
    as_json,
    process_label,
    thread_names,
    tracks,
)
from profkit.model import Process, Ranges, Run, Thread
from profkit.model.arrays import Ints
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
#: Suffix of the name of a range that never ended; it is drawn to the end of its track.
_UNENDED = " (never ended)"


#: Numbers of frames (name, file, line), shared by all profiles of a file; it grows while profiles are written.
_Frames: TypeAlias = dict[tuple[str, str, int], int]


def _number(frames: _Frames, name: str, file: str = "", line: int = 0) -> int:
    return frames.setdefault((name, file, line), len(frames))


def speedscope_file(run: Run) -> Export:
    """Lay out a run as one file; raise `FormatError` without nesting ranges and functions.

    Times are nanoseconds since a track's first range, and seconds of self time.
    """
    nested = [
        (process, track, process.ranges)
        for process in run.processes
        if process.ranges is not None
        for track in _nested(process.ranges)
    ]
    flat = [(p, t) for p, t in run.threads if (t.profile.tottime > 0).any()]
    if not nested and not flat:
        raise FormatError(run.path, "holds no functions or ranges to write")
    return Export(_chunks(run, nested, flat), tuple(_left_out(run)))


def _left_out(run: Run) -> Iterator[str]:
    kinds = [process.ranges.kind for process in run.processes if process.ranges is not None]
    started, marks = (sum(int((kind == wanted).sum()) for kind in kinds) for wanted in (STARTED, MARK))
    if started:
        yield f"{started:,} start/end ranges: they may overlap, and stacks cannot (see --to chrome)"
    if marks:
        yield f"{marks:,} marks have no duration (see --to chrome)"


def _nested(ranges: Ranges) -> list[Track]:
    """Return the tracks that have pushed ranges, with these only."""
    found = []
    for track in tracks(ranges):
        rows = track.rows[ranges.kind[track.rows] == PUSHED]
        if len(rows):
            found.append(Track(track.thread, track.domain, rows))
    return found


def _chunks(
    run: Run, nested: list[tuple[Process, Track, Ranges]], flat: list[tuple[Process, Thread]]
) -> Iterator[bytes]:
    frames: _Frames = {}
    head = {"$schema": _SCHEMA, "exporter": "profkit", "name": run.path}
    yield f'{as_json(head)[:-1]},"activeProfileIndex":0,"profiles":['.encode()
    comma = b""
    for process, track, ranges in nested:
        yield comma
        comma = b",\n"
        name = track.label(thread_names(process))
        yield from _ranges(f"{process_label(process)} | {name} | NVTX ranges", ranges, track.rows, frames)
    for process, thread in flat:
        yield comma
        comma = b",\n"
        what = "self time of functions" if thread.paths is None else "functions by their callers"
        title = f"{process_label(process)} | {thread.name or 'thread'} | {what}, not in time order"
        yield _functions(title, thread, frames)
    yield b'],\n"shared":{"frames":['
    for number, (name, file, line) in enumerate(frames):
        where: dict[str, object] = {"file": file, "line": line} if file else {}
        yield (",\n" * bool(number) + as_json({"name": name, **where})).encode()
    yield b"]}}\n"


def evented(begin: Sequence[int], end: Sequence[int]) -> Iterator[tuple[int, bool, int]]:
    """Yield the openings and closings of ranges in time order: range, whether it opens, and time.

    `begin` and `end` are sorted by begin, the outer range first on ties. A range that outlasts the outer one
    is cut.
    """
    around: list[tuple[int, bool, int]] = []  # closing events of the open ranges
    for row, (first, last) in enumerate(zip(begin, end, strict=True)):
        while around and around[-1][2] <= first:
            yield around.pop()
        yield row, True, first
        around.append((row, False, min(last, around[-1][2]) if around else last))
    yield from reversed(around)


def _ranges(title: str, ranges: Ranges, rows: Ints, frames: _Frames) -> Iterator[bytes]:
    begin, end = ranges.begin_ns[rows], ranges.end_ns[rows]
    unended = end == OPEN
    last = max(int(begin.max()), int(end.max()))
    first = int(begin[0])
    begin, end = begin - first, np.where(unended, last, end) - first
    kinds, kind = np.unique(ranges.name[rows].astype(np.int64) * 2 + unended, return_inverse=True)
    numbered = [_number(frames, ranges.strings[k >> 1] + _UNENDED * (k & 1)) for k in kinds.tolist()]
    numbers = np.array(numbered, np.int64)[kind.reshape(-1)].tolist()
    head = {
        "type": "evented",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": last - first,
    }
    yield f'{as_json(head)[:-1]},"events":['.encode()
    texts = (
        f'{{"type":"{"O" if opens else "C"}","frame":{numbers[row]},"at":{at}}}'
        for row, opens, at in evented(begin.tolist(), end.tolist())
    )
    comma = ""
    while part := ",\n".join(islice(texts, CHUNK_ROWS)):
        yield (comma + part).encode()
        comma = ",\n"
    yield b"]}"


def _functions(title: str, thread: Thread, frames: _Frames) -> bytes:
    """Return a thread's self times, greatest first; each is one stack, up to three with waiting."""
    contexts = contexts_of(thread)
    numbers = {row: _number(frames, *place_of(thread.profile, row)) for row in contexts.function.tolist()}
    stacks = [[numbers[row] for row in stack] for stack in contexts.stacks()]
    samples: list[list[int]] = []
    weights: list[float] = []
    for at in np.argsort(-contexts.tottime, kind="stable").tolist():
        for above, seconds in contexts.parts(at):
            samples.append([*stacks[at], _number(frames, above)] if above else stacks[at])
            weights.append(seconds)
    head: dict[str, object] = {"type": "sampled", "name": title, "unit": "seconds", "startValue": 0}
    head["endValue"] = float(sum(weights))
    written = ",".join(f"[{','.join(map(str, stack))}]" for stack in samples)
    return f'{as_json(head)[:-1]},"samples":[{written}],"weights":[{",".join(map(repr, weights))}]}}'.encode()
