"""The windows of a run, and its counters and ranges cut to them; agents trace nothing outside windows."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.capture.agent import settings
from profkit.capture.machines import greatest
from profkit.capture.meters import RISING
from profkit.capture.record_types import Launch, Record
from profkit.formats.regular_file import read_regular
from profkit.model import Machine, Notice, Process, Ranges, Series, Thread, ThreadSamples, Window
from profkit.model.arrays import Bools, Ints, known_sum
from profkit.model.columns import column_dtypes
from profkit.model.notices import Number
from profkit.model.ranges import OPEN

_MAGIC = b"PFKWINDW"
_HEADER = struct.Struct("<8s8I8x")
_HEADER_BYTES = 128
_ENTRY = struct.Struct("<qqII104s")
_MOST_BYTES = 1 << 20
_CAPTURED, _NAMED = 1, 2
_OF_MACHINE = {field.name for field in fields(Machine)}
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """What was captured: `spans` by kernel (sorted ns of ``CLOCK_MONOTONIC``), and the windows to show."""

    spans: Mapping[str, Spans]
    shown: tuple[Window, ...]
    chosen: bool

    @property
    def opened(self) -> bool:
        return any(self.spans.values())

    @property
    def captured_s(self) -> float:
        """Return the captured seconds; of several machines, the most."""
        return max((_length(spans) for spans in self.spans.values()), default=0) / 1e9

    def process(self, process: Process, kernel: str, life_ns: tuple[int, int] | None) -> Process | None:
        """Return a process cut to the windows, or ``None``; `life_ns` is its begin and end, if known."""
        spans, samples = self.spans.get(kernel, ()), process.samples
        if life_ns is None:
            if samples is None or not len(samples):
                return None
            life_ns = int(samples.time_ns.min()), int(samples.time_ns.max())
        alive = _within(spans, *life_ns)
        if not alive and not any(len(thread.profile) for thread in process.threads):
            return None
        threads = tuple(_thread(thread, samples, spans, life_ns[1]) for thread in process.threads)
        return replace(
            process,
            wall_s=_length(alive) / 1e9,
            cpu_s=known_sum(thread.run_s for thread in threads),
            run_queue_wait_s=known_sum(thread.run_queue_wait_s for thread in threads),
            voluntary_switches=None,
            involuntary_switches=None,
            page_faults=None,
            read_bytes=None,
            storage_bytes=None,
            threads=threads,
            samples=None if samples is None else samples.at(_rows(samples.time_ns, spans)),
            ranges=None if process.ranges is None else _ranges(process.ranges, spans),
        )

    def machine(self, machine: Machine | None, series: Series | None, kernel: str) -> Machine | None:
        spans = self.spans.get(kernel, ())
        if machine is None or series is None or not spans:
            return None
        sums: dict[str, Any] = {name: _in_spans(series, name, spans) for name in RISING & _OF_MACHINE}
        sums |= {name: _whole(sums[name]) for name in ("throttled_periods", "periods", "refaulted_bytes")}
        return replace(
            machine,
            wall_s=_length(spans) / 1e9,
            **sums,
            peak_runnable=_whole(greatest(_cut(series, spans), "runnable")),
            tree_cpu_s=None,
        )

    def series(self, series: Series | None, kernel: str) -> Series | None:
        return None if series is None else _cut(series, self.spans.get(kernel, ()))

    def notices(self, whole_s: float) -> list[Notice]:
        """Return the notice that a run of `whole_s` seconds was captured in windows."""
        captured = [window for window in self.shown if window.captured]
        numbers = {"windows": max(1, len(captured)), "captured_s": self.captured_s, "whole_s": whole_s}
        return [Notice("windows-captured", "", numbers)]


def read_windows(spool: Path, launch: Launch, records: Sequence[Record], end_ns: int) -> Windows:
    """Return the windows of a run; those not closed end at `end_ns`, the end of the run or now."""
    begin_ns = launch.begin_ns or 0
    here = "" if launch.launcher is None else launch.launcher.kernel
    spans: dict[str, Spans] = {}
    shown: list[Window] = []
    for path in sorted(spool.glob("*" + settings.WINDOWS_SUFFIX)):
        kernel = path.name[: -len(settings.WINDOWS_SUFFIX)]
        found = _read(path)
        spans[kernel] = _joined(
            (begin, end or max(begin, end_ns)) for begin, end, kind, _ in found if kind == _CAPTURED
        )
        if kernel == here:
            shown = [
                Window(
                    name,
                    max(0.0, (begin - begin_ns) / 1e9),
                    max(0.0, ((end or end_ns) - begin_ns) / 1e9),
                    kind == _CAPTURED,
                )
                for begin, end, kind, name in found
            ]
    if launch.window == "time" and launch.begin_ns is not None:
        opens = int(launch.window_delay_s * 1e9)
        closes = None if launch.window_duration_s is None else opens + int(launch.window_duration_s * 1e9)
        for kernel, zero_ns in _zeros(launch, records).items():
            last = end_ns if kernel == here else zero_ns + end_ns - begin_ns
            until = last if closes is None else min(last, zero_ns + closes)
            spans[kernel] = ((zero_ns + opens, until),) if until > zero_ns + opens else ()
        if spans.get(here):
            ((first, last),) = spans[here]
            shown.append(Window("", (first - begin_ns) / 1e9, (last - begin_ns) / 1e9, True))
    return Windows(spans if launch.window else {}, tuple(shown), bool(launch.window))


def _zeros(launch: Launch, records: Sequence[Record]) -> dict[str, int]:
    """Return when the target started, by the clock of each machine, ns."""
    assert launch.begin_ns is not None
    found = {} if launch.launcher is None else {launch.launcher.kernel: launch.begin_ns}
    clocks = launch.clocks
    if "time" in clocks and "monotonic" in clocks:
        begin_s = clocks["time"] - clocks["monotonic"] + launch.begin_ns / 1e9
        for record in records:
            found.setdefault(record.kernel, int((begin_s - record.begin_time + record.begin_perf) * 1e9))
    return found


def never_opened(launch: Launch, whole_s: float) -> Notice:
    """Return the notice that no window opened, and what the run waited for."""
    if launch.window == "time":
        return Notice("window-not-reached", "", {"delay_s": launch.window_delay_s, "whole_s": whole_s})
    if launch.window == "code":
        return Notice("window-not-started")
    name, domain = settings.range_asked(launch.window_range)
    of_domain: dict[str, Number] = {} if domain is None else {"domain": domain}
    if launch.window == "steps":
        return Notice("window-steps-missing", name, {"steps": launch.window_steps, **of_domain})
    return Notice("window-range-missing", name, of_domain)


def _read(path: Path) -> list[tuple[int, int, int, str]]:
    """Return begin, end (0 while open), kind and name of each window; nothing if the file is damaged."""
    try:
        data = read_regular(path, _MOST_BYTES)
    except (OSError, ValueError):
        return []
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC):
        return []
    _, version, header_bytes, _, _, _, entries, _, _ = _HEADER.unpack_from(data)
    if version != 1 or header_bytes != _HEADER_BYTES:
        return []
    found = []
    for number in range(min(entries, (len(data) - _HEADER_BYTES) // _ENTRY.size)):
        begin, end, _, kind, name = _ENTRY.unpack_from(data, _HEADER_BYTES + number * _ENTRY.size)
        if begin > 0 and (end == 0 or end >= begin) and kind in (_CAPTURED, _NAMED):
            found.append((begin, end, kind, name.partition(b"\0")[0].decode("utf-8", "ignore")))
    return sorted(found)


def _joined(spans: Iterable[tuple[int, int]]) -> Spans:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif end > begin:
            found.append((begin, end))
    return tuple(found)


def _within(spans: Spans, begin: int, end: int) -> Spans:
    return tuple((max(a, begin), min(b, end)) for a, b in spans if max(a, begin) < min(b, end))


def _length(spans: Spans) -> int:
    return sum(end - begin for begin, end in spans)


def _rows(times: Ints, spans: Spans) -> Bools:
    inside = np.zeros(len(times), np.bool_)
    for begin, end in spans:
        inside |= (times >= begin) & (times <= end)
    return inside


def _rise(times: Ints, values: npt.NDArray[np.floating], spans: Spans, before: float | None) -> float:
    """Return the rise of a counter in some spans, interpolated; `before` is its value before all readings."""
    edges = np.array(spans, np.float64)
    at = np.interp(edges, times.astype(np.float64), values.astype(np.float64), left=before)
    return float(np.maximum(at[:, 1] - at[:, 0], 0.0).sum())


def _thread(thread: Thread, samples: ThreadSamples | None, spans: Spans, end_ns: int) -> Thread:
    run_s, wait_s = thread.run_s, thread.run_queue_wait_s
    if samples is None or not spans or thread.tid is None or run_s is None or wait_s is None:
        run_s = wait_s = None
    else:
        rows = samples.tid == thread.tid
        times, run, wait = samples.time_ns[rows], samples.run_ns[rows], samples.wait_ns[rows]
        # The last record may be newer than the sampler's last reading.
        if not len(times) or end_ns > times[-1]:
            times = np.append(times, end_ns)
            run = np.append(run, max(int(run_s * 1e9), int(run.max(initial=0))))
            wait = np.append(wait, max(int(wait_s * 1e9), int(wait.max(initial=0))))
        # The kernel counts queueing when it ends, so part of it may have been before the window.
        longest = _length(spans) / 1e9
        run_s = min(longest, _rise(times, run, spans, 0.0) / 1e9)
        wait_s = min(longest - run_s, _rise(times, wait, spans, 0.0) / 1e9)
    return replace(
        thread,
        run_s=run_s,
        run_queue_wait_s=wait_s,
        timeslices=None,
        user_s=None,
        system_s=None,
        voluntary_switches=None,
        involuntary_switches=None,
    )


def _ranges(ranges: Ranges, spans: Spans) -> Ranges | None:
    """Return the ranges that lie completely in one window."""
    kept = np.zeros(len(ranges), np.bool_)
    for begin, end in spans:
        ended = np.where(ranges.end_ns == OPEN, ranges.begin_ns, ranges.end_ns)
        kept |= (ranges.begin_ns >= begin) & (ended <= end)
    if not kept.any():
        return None
    # The ranges around one that is not kept are not kept either.
    places = np.cumsum(kept) - 1
    parent = ranges.parent
    inside = (parent >= 0) & kept[np.maximum(parent, 0)]
    moved = np.where(inside, places[np.maximum(parent, 0)], -1).astype(np.int32)
    whole = replace(ranges, parent=moved)
    return replace(whole, **{name: getattr(whole, name)[kept] for name in column_dtypes(Ranges)})


def _in_spans(series: Series, name: str, spans: Spans) -> float | None:
    times, values = series.known(name)
    return _rise(times, values, spans, None) if len(values) >= 2 else None


def _cut(series: Series, spans: Spans) -> Series:
    rows = _rows(series.time_ns, spans)
    return Series(series.time_ns[rows], {name: column[rows] for name, column in series.columns.items()})


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
