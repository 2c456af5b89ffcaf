"""Writer of uncompressed pprof profiles (`proto/profile.proto` of github.com/google/pprof).

A sample is a calling context of one thread. Times are nanoseconds; counts that are not exact are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import Contexts, contexts_of, exact_calls, not_held, place_of
from profkit.formats.export.timeline import Export, process_label
from profkit.formats.protobuf import integer, message, packed
from profkit.model import Process, Run, Thread
from profkit.model.arrays import Ints
from profkit.model.surrogates import spelled_out

#: Value types in order: counts first, as in pprof.
_CALLS, _SAMPLES, _TIME, _QUEUED, _OFF_CPU = "calls", "samples", "time", "queued", "off_cpu"


@dataclass(slots=True)
class _Tables:
    """Strings, and functions (also used as locations), which samples refer to."""

    strings: dict[str, int] = field(default_factory=lambda: {"": 0})
    functions: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def text(self, text: str) -> int:
        return self.strings.setdefault(spelled_out(text), len(self.strings))

    def function(self, place: tuple[str, str, int]) -> int:
        return self.functions.setdefault(place, len(self.functions) + 1)

    def written(self) -> Iterator[bytes]:
        for (name, file, line), number in self.functions.items():
            line_of = message(4, integer(1, number) + integer(2, line))
            yield message(4, integer(1, number) + line_of)
            texts = integer(2, self.text(name)) + integer(3, self.text(name)) + integer(4, self.text(file))
            yield message(5, integer(1, number) + texts + integer(5, line))
        for text in self.strings:
            yield message(6, text.encode())


def pprof_profile(run: Run) -> Export:
    """Lay out the functions of all threads; raise `FormatError` if none has a self time."""
    threads = [(p, t) for p, t in run.threads if (t.profile.tottime > 0).any()]
    if not threads:
        raise FormatError(run.path, "holds no functions to write")
    profiles = [thread.profile for _, thread in threads]
    types = []
    if any(exact_calls(profile).any() for profile in profiles):
        types.append(_CALLS)
    # Samples are known by function; by calling context they would have to be divided.
    if any(t.profile.samples is not None and t.paths is None for _, t in threads):
        types.append(_SAMPLES)
    types.append(_TIME)
    if any(profile.wait is not None for profile in profiles):
        types += [_QUEUED, _OFF_CPU]
    return Export(_chunks(run, threads, types), tuple(not_held(run, calls=True, stacks=True, waiting=True)))


def _chunks(run: Run, threads: list[tuple[Process, Thread]], types: list[str]) -> Iterator[bytes]:
    tables = _Tables()
    for kind in types:
        unit = "count" if kind in (_CALLS, _SAMPLES) else "nanoseconds"
        yield message(1, integer(1, tables.text(kind)) + integer(2, tables.text(unit)))
    for process, thread in threads:
        labels = _label(tables, "process", process_label(process)) + _label(tables, "thread", thread.name)
        labels += _label(tables, "pid", process.pid) + _label(tables, "tid", thread.tid)
        yield b"".join(_samples(thread, types, labels, tables))
    manifest = run.manifest
    comments = ["written by profkit"]
    if manifest is not None:
        yield integer(9, round(manifest.clocks.get("time", 0.0) * 1e9))
        yield integer(10, round(manifest.wall_s * 1e9))
        comments.append(" ".join(manifest.command))
    yield packed(13, map(tables.text, comments)) + integer(14, tables.text(_TIME))
    yield from tables.written()


def _label(tables: _Tables, key: str, value: str | int | None) -> bytes:
    if not value:
        return b""
    said = integer(2, tables.text(value)) if isinstance(value, str) else integer(3, value)
    return message(3, integer(1, tables.text(key)) + said)


def _samples(thread: Thread, types: list[str], labels: bytes, tables: _Tables) -> Iterator[bytes]:
    profile, contexts = thread.profile, contexts_of(thread)
    values = _values(thread, contexts, types)
    numbers = {row: tables.function(place_of(profile, row)) for row in (*range(len(profile)), -1)}
    for stack, value in zip(contexts.stacks(), values.tolist(), strict=True):
        if any(value):
            innermost_first = [numbers[row] for row in reversed(stack)]
            yield message(2, packed(1, innermost_first) + packed(2, value) + labels)


def _values(thread: Thread, contexts: Contexts, types: list[str]) -> Ints:
    samples = thread.profile.samples if thread.paths is None else None
    columns = {
        _CALLS: np.nan_to_num(contexts.calls),
        _SAMPLES: np.zeros(len(contexts)) if samples is None else samples,
        _TIME: contexts.tottime * 1e9,
        _QUEUED: contexts.queued * 1e9,
        _OFF_CPU: contexts.off_cpu * 1e9,
    }
    return np.stack([np.rint(columns[kind]) for kind in types], axis=1).astype(np.int64)
