"""`Run` → `TimelineSide`; counters are cumulative, so bins interpolate linearly between readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.measure.side_facts import first_thread
from profkit.model import Process, Ranges, Run, Series, ThreadSamples
from profkit.model.arrays import Floats
from profkit.model.paths import depths
from profkit.model.ranges import MARK, OPEN, PUSHED
from profkit.report.figures import ProcessStates, TimelineSide, Track
from profkit.report.text import clean
from profkit.report.waits import label_of
from profkit.report.wording.functions import display_name

#: Bins of the timeline: one for every few pixels.
BINS = 240
#: Most ranges drawn of one side; the longest are kept.
MOST_RANGES = 2000
#: Most threads with ranges drawn of one side.
MOST_TRACKS = 4
#: Most processes drawn of one side: those that ran and queued most. The page begins with a few.
MOST_PROCESSES = 64


def timeline(sides: Sequence[tuple[str, Run]]) -> tuple[TimelineSide, ...]:
    """Return each side's run, if anything in it has a time."""
    laid = (timeline_side(label, run) for label, run in sides)
    return tuple(side for side in laid if side is not None)


def timeline_side(label: str, run: Run) -> TimelineSide | None:
    """Return one run; ``None`` if nothing in it has a time."""
    span = _span(run)
    if span is None:
        return None
    begin, end = span
    edges = np.linspace(begin, end, BINS + 1)
    wanted = [
        (process, ranges, tid)
        for process in run.processes
        if (ranges := process.ranges) is not None
        for tid in dict.fromkeys(ranges.thread[ranges.kind != MARK].tolist())
    ]
    shown = wanted[:MOST_TRACKS]
    shortest = _shortest(list({id(ranges): ranges for _, ranges, _ in shown}.values()))
    tracks = tuple(_track(process, ranges, tid, begin, edges, shortest) for process, ranges, tid in shown)
    sampled = [(p, p.samples) for p in run.processes if p.samples is not None and len(p.samples) > 1]
    busiest = sorted(range(len(sampled)), key=lambda at: -_active_ns(sampled[at][1]))[:MOST_PROCESSES]
    drawn = [sampled[at] for at in sorted(busiest)]
    series = run.series
    machine = run.machine
    return TimelineSide(
        label,
        (end - begin) / 1e9,
        tracks,
        tuple(_states(process, samples, edges) for process, samples in drawn),
        None if machine is None or machine.cpus is None else float(machine.cpus),
        _mean(series, "runnable", edges),
        _mean(series, "gpu_utilisation", edges),
        len(sampled) - len(drawn),
        len(wanted) - len(shown),
    )


def _span(run: Run) -> tuple[int, int] | None:
    times = [] if run.series is None else [run.series.time_ns]
    for process in run.processes:
        if process.ranges is not None:
            times += [process.ranges.begin_ns, np.maximum(process.ranges.begin_ns, process.ranges.end_ns)]
        if process.samples is not None:
            times.append(process.samples.time_ns)
    limits = [(int(part.min()), int(part.max())) for part in times if len(part)]
    begin, end = min((low for low, _ in limits), default=0), max((high for _, high in limits), default=0)
    return (begin, end) if begin < end else None


def _active_ns(samples: ThreadSamples) -> int:
    """Return the nanoseconds that a process's threads ran and queued, from the last row of each."""
    return sum(int(own.run_ns[-1]) + int(own.wait_ns[-1]) for own in samples.by_thread())


def _states(process: Process, samples: ThreadSamples, edges: Floats) -> ProcessStates:
    running, queued = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for own in samples.by_thread():
        times = own.time_ns.astype(np.float64)
        for total, column in ((running, own.run_ns), (queued, own.wait_ns)):
            total += np.diff(np.interp(edges, times, column.astype(np.float64))) / np.diff(edges)
    absent = (edges[1:] <= samples.time_ns.min()) | (edges[:-1] >= samples.time_ns.max())
    running[absent] = queued[absent] = np.nan
    return ProcessStates(label_of(process), running, queued, _functions(process, edges))


def _functions(process: Process, edges: Floats) -> Track | None:
    """Return the function with most of the first thread's time, by slice; adjacent equal ones are merged."""
    thread = first_thread(process)
    slices = (
        [s for s in thread.slices or () if s.end_ns > edges[0] and s.begin_ns < edges[-1]] if thread else []
    )
    if thread is None or not slices:
        return None
    function = np.array([s.function for s in slices])
    end = np.array([s.end_ns for s in slices], np.float64)
    # A wait longer than its slice began before it.
    begin = np.array([min(s.begin_ns, s.end_ns - s.seconds * 1e9) for s in slices])
    begin[1:] = np.maximum(begin[1:], end[:-1])
    begin, end = np.clip(begin, edges[0], edges[-1]), np.clip(end, edges[0], edges[-1])
    # Functions unseen for longer than a slice leave a gap.
    apart = (np.diff(function) != 0) | (begin[1:] - end[:-1] > (end - begin)[1:])
    first = np.flatnonzero(np.append(True, apart))
    last = np.append(first[1:], len(slices)) - 1
    rows, name = np.unique(function[first], return_inverse=True)
    return Track(
        "",
        tuple(display_name(thread.profile.function(row)[0]) for row in rows.tolist()),
        name.reshape(-1).astype(np.int32),
        np.zeros(len(first), np.int32),
        (begin[first] - edges[0]) / 1e9,
        (end[last] - begin[first]) / 1e9,
    )


def _shortest(every: Sequence[Ranges]) -> float:
    """Return the shortest duration in seconds that keeps a side within `MOST_RANGES`."""
    durations = np.concatenate([np.zeros(0), *(ranges.duration_s[ranges.kind != MARK] for ranges in every)])
    durations = np.where(np.isnan(durations), np.inf, durations)
    if len(durations) <= MOST_RANGES:
        return 0.0
    return float(np.partition(durations, len(durations) - MOST_RANGES)[len(durations) - MOST_RANGES])


def _track(process: Process, ranges: Ranges, tid: int, begin: int, edges: Floats, shortest: float) -> Track:
    named = next((thread.name for thread in process.threads if thread.tid == tid), "")
    label = f"{label_of(process)} · {clean(named) or tid}"
    of_thread = np.flatnonzero((ranges.thread == tid) & (ranges.kind != MARK))
    durations = ranges.duration_s[of_thread]
    kept = of_thread[np.isnan(durations) | (durations >= shortest)]
    used, name = np.unique(ranges.name[kept], return_inverse=True)
    # Started and ended ranges have no stack, and deeper nesting cannot be drawn.
    depth = np.where(ranges.kind == PUSHED, np.minimum(depths(ranges.parent), 64), 0)
    # Ranges that never ended are drawn to the end.
    ends = np.where(ranges.end_ns[kept] == OPEN, edges[-1], ranges.end_ns[kept])
    return Track(
        label,
        tuple(clean(ranges.strings[i]) or "(no name)" for i in used.tolist()),
        name.reshape(-1).astype(np.int32),
        depth[kept].astype(np.int32),
        (ranges.begin_ns[kept] - begin) / 1e9,
        (ends - ranges.begin_ns[kept]) / 1e9,
        len(of_thread) - len(kept),
    )


def _mean(series: Series | None, column: str, edges: Floats) -> Floats | None:
    """Return the mean of the readings in each bin, interpolated in bins without one."""
    if series is None:
        return None
    times, values = series.known(column)
    if not len(values):
        return None
    at = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(at, minlength=len(edges) - 1)
    sums = np.bincount(at, values, len(edges) - 1)
    middles = (edges[1:] + edges[:-1]) / 2
    between = np.interp(middles, times, values, left=np.nan, right=np.nan)
    return np.where(counts > 0, sums / np.maximum(counts, 1), between)
