"""Writer of Chrome traces, for ui.perfetto.dev, chrome://tracing and others.

It writes the JSON object form of Chromium's "Trace Event Format". Pushed ranges are complete events on a
track per thread and domain, where they nest. Started ranges are nestable async events, marks instant events,
samples counters. Functions are left out: they are sums without a place in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.errors import FormatError
from profkit.formats.export.timeline import (
    CHUNK_ROWS,
    Export,
    Track,
    as_json,
    microseconds,
    process_label,
    thread_names,
    to_unix_ns,
    tracks,
)
from profkit.model import Process, Ranges, Run, Series, ThreadSamples
from profkit.model.arrays import Floats, Ints
from profkit.model.bounds import EXACT
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED

#: Linux's PID_MAX_LIMIT. Numbers from here on are for tracks without a thread, and for processes whose pid is
#: taken (on another host, or before an exec).
OWN_NUMBERS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class _Lane:
    """A process in the trace: its number there, and the shift from its clock to the trace's."""

    process: Process
    pid: int
    shift_ns: int
    tracks: tuple[Track, ...]
    tids: tuple[int, ...]


def chrome_trace(run: Run) -> Export:
    """Lay out a run on one time axis of microseconds; raise `FormatError` if nothing has a time.

    ``baseTimeNanoseconds`` is the Unix time of ``ts`` 0, absent if no clock gives it.
    """
    offsets, machine = to_unix_ns(run)
    pairs = zip(run.processes, offsets, strict=True)
    begins = [begin + offset for process, offset in pairs if (begin := _begin(process)) is not None]
    if run.series is not None and len(run.series.time_ns):
        begins.append(int(run.series.time_ns.min()) + machine)
    if not begins:
        raise FormatError(
            run.path,
            "holds nothing with time stamps: no NVTX ranges and no samples",
            "its functions are sums, which --to speedscope writes",
        )
    base = min(begins)
    left_out = []
    if any(map(len, run.profiles)):
        left_out.append("function times are sums without a place in time (see them with --to speedscope)")
    return Export(_chunks(run, _lanes(run, offsets, base), machine - base, base), tuple(left_out))


def _begin(process: Process) -> int | None:
    """Return the first time of a process, ``None`` if nothing of it has one."""
    times = [process.ranges.begin_ns] if process.ranges is not None else []
    times += [process.samples.time_ns] if process.samples is not None else []
    return min((int(time.min()) for time in times if len(time)), default=None)


def _lanes(run: Run, offsets: list[int], base: int) -> list[_Lane]:
    """Number the tracks and every process that has times."""
    taken: set[int] = set()
    next_tid = OWN_NUMBERS
    lanes = []
    for process, offset in zip(run.processes, offsets, strict=True):
        pid = process.pid or OWN_NUMBERS
        while pid in taken:
            pid += OWN_NUMBERS
        taken.add(pid)
        if _begin(process) is None:
            continue
        found = tuple(tracks(process.ranges)) if process.ranges is not None else ()
        tids = []
        for track in found:
            tids.append(next_tid if track.domain else track.thread)
            next_tid += bool(track.domain)
        lanes.append(_Lane(process, pid, offset - base, found, tuple(tids)))
    return lanes


def _chunks(run: Run, lanes: list[_Lane], machine_shift_ns: int, base: int) -> Iterator[bytes]:
    facts: dict[str, object] = {"writer": "profkit", "file": run.path}
    if run.manifest is not None:
        facts |= {
            "profkit": run.manifest.profkit,
            "command": " ".join(run.manifest.command),
            "host": run.manifest.host.name,
            "started": run.manifest.started,
        }
    head = '{"displayTimeUnit":"ms",'
    if machine_shift_ns + base or any(lane.shift_ns + base for lane in lanes):
        head += f'"baseTimeNanoseconds":{base},'
    yield f'{head}"otherData":{as_json(facts)},"traceEvents":['.encode()
    first = True
    for chunk in _all_events(run, lanes, machine_shift_ns):
        # Every event starts with its comma.
        yield chunk[1:] if first and chunk else chunk
        first = first and not chunk
    yield b"\n]}\n"


def _all_events(run: Run, lanes: list[_Lane], machine_shift_ns: int) -> Iterator[bytes]:
    if run.series is not None:
        yield (",\n" + _metadata("process_name", 0, 0, {"name": "machine"})).encode()
        yield from _of_series(run.series, machine_shift_ns)
    for place, lane in enumerate(lanes, start=1):
        yield "".join(f",\n{event}" for event in _names(lane, place)).encode()
        ranges = lane.process.ranges
        for track, tid in zip(lane.tracks, lane.tids, strict=True):
            assert ranges is not None
            for start in range(0, len(track.rows), CHUNK_ROWS):
                yield _events(ranges, track.rows[start : start + CHUNK_ROWS], lane, track, tid)
        if lane.process.samples is not None:
            names = thread_names(lane.process)
            yield from _of_threads(lane.process.samples, names, lane.pid, lane.shift_ns)


def _metadata(kind: str, pid: int, tid: int, args: dict[str, object]) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"args":{as_json(args)}}}'


def _names(lane: _Lane, place: int) -> Iterator[str]:
    """Yield metadata events: names of the process and its tracks, and their order."""
    process = lane.process
    yield _metadata("process_name", lane.pid, 0, {"name": process_label(process)})
    yield _metadata("process_sort_index", lane.pid, 0, {"sort_index": place})
    if lane.pid != process.pid:
        yield _metadata("process_labels", lane.pid, 0, {"labels": f"process {process.pid}"})
    if process.host is not None and process.host.name:
        yield _metadata("process_labels", lane.pid, 0, {"labels": process.host.name})
    names = thread_names(process)
    listed = {tid: at for at, tid in enumerate(names)}
    order = sorted(range(len(lane.tracks)), key=lambda i: (listed.get(lane.tracks[i].thread, len(listed)), i))
    for at, i in enumerate(order):
        track, tid = lane.tracks[i], lane.tids[i]
        yield _metadata("thread_name", lane.pid, tid, {"name": track.label(names)})
        yield _metadata("thread_sort_index", lane.pid, tid, {"sort_index": at})


def _events(ranges: Ranges, rows: Ints, lane: _Lane, track: Track, tid: int) -> bytes:
    """Write some rows of a track in order; of two that begin together, the outer one is first."""
    texts, ends = list[str](), list[str]()
    # The text that all events of one name share.
    common: dict[tuple[int, ...], tuple[str, str, str]] = {}
    columns = (ranges.name, ranges.category, ranges.color, ranges.payload_type, ranges.kind)
    alike = zip(*(column[rows].tolist() for column in columns), strict=True)
    times = zip(ranges.begin_ns[rows].tolist(), ranges.end_ns[rows].tolist(), strict=True)
    payloads = _payloads(ranges, rows).tolist()
    for row, same, (begin, end), payload in zip(rows.tolist(), alike, times, payloads, strict=True):
        key = (*same, end == OPEN)
        if key not in common:
            common[key] = _common(ranges, row, lane.pid, tid, track.domain)
        head, tail, finish = common[key]
        middle = ""
        if same[-1] == PUSHED and end != OPEN:
            middle = f',"dur":{microseconds(end - begin)}'
        elif same[-1] == STARTED:  # an id is unique within the process: the row
            middle = f',"id2":{{"local":"0x{row:x}"}}'
            if end != OPEN:
                ends.append(f"{finish}{microseconds(end + lane.shift_ns)}{middle}}}")
        texts.append(f"{head}{microseconds(begin + lane.shift_ns)}{middle}{tail}{payload}")
    return "".join(texts + ends).encode()


def _common(ranges: Ranges, row: int, pid: int, tid: int, domain: str) -> tuple[str, str, str]:
    """Return the text before a row's time, after its own fields, and before a started range's end time."""
    kind = int(ranges.kind[row])
    args: dict[str, object] = {}
    if domain and kind == STARTED:  # viewers do not show these on the thread's track
        args["domain"] = domain
    if ranges.category[row]:
        args["category"] = ranges.strings[int(ranges.category[row])]
    if ranges.color[row]:
        args["color"] = f"#{int(ranges.color[row]) & 0xFFFFFF:06x}"
    if kind == MARK:
        phase, scope = "i", ',"s":"t"'
    elif kind == STARTED:
        phase, scope = "b", ""
    else:
        phase, scope = "B" if ranges.end_ns[row] == OPEN else "X", ""
    same = (
        f'"pid":{pid},"tid":{tid},"cat":"nvtx","name":{as_json(ranges.strings[int(ranges.name[row])])},"ts":'
    )
    fields = as_json(args)
    if ranges.payload_type[row]:  # followed by its value and two braces
        tail = f',"args":{fields[:-1]}{"," if args else ""}"payload":'
    else:
        tail = f',"args":{fields}}}' if args else "}"
    return f',\n{{"ph":"{phase}"{scope},{same}', tail, f',\n{{"ph":"e",{same}'


def _payloads(ranges: Ranges, rows: Ints) -> npt.NDArray[np.object_]:
    """Return payloads with the text that closes their events; empty for rows without payload."""
    result = np.full(len(rows), "", object)
    for at, values in ranges.payloads(rows):
        if values.dtype.kind == "f":
            plain = np.isfinite(values)
            texts = [repr(value) for value in values.tolist()]
        else:
            plain = np.abs(values.astype(np.float64)) <= EXACT
            texts = [str(value) for value in values.tolist()]
        result[at] = [f"{text}}}}}" if ok else f'"{text}"}}}}' for text, ok in zip(texts, plain, strict=True)]
    return result


#: Cumulative columns: the counter's name, and the unit of its rate.
_RATES = {
    "busy_s": ("CPUs in use", "cores"),
    "steal_s": ("CPUs stolen", "cores"),
    "psi_some_s": ("some task queued for a CPU (PSI some)", "share of the time"),
    "cgroup_psi_some_s": ("some task of the cgroup queued for a CPU (PSI some)", "share of the time"),
    "psi_io_some_s": ("some task waited for I/O (PSI some)", "share of the time"),
    "throttled_s": ("throttled by the CPU quota", "cores"),
    "throttled_periods": ("throttled periods", "per second"),
    "periods": ("periods of the CPU quota", "per second"),
    "refaulted_bytes": ("dropped from memory and needed again", "bytes per second"),
}
#: Momentary columns: the counter's name and unit.
_LEVELS = {
    "runnable": ("runnable threads of the machine", "threads"),
    "processes": ("processes of the run", "processes"),
    "threads": ("threads of the run", "threads"),
    "load": ("load average", "tasks"),
    "gpu_utilisation": ("GPU utilisation", "share of the time"),
    "gpu_memory_bytes": ("GPU memory", "bytes"),
    "gpu_processes": ("processes of the run on GPUs", "processes"),
    "gpu_others": ("GPU utilisation by other programs", "share of the time"),
}


def _of_series(series: Series, shift_ns: int) -> Iterator[bytes]:
    """Yield the machine's counters as process 0; failed readings (NaN) are left out."""
    for column in series.columns:
        time, numbers = series.known(column)
        if column in _RATES:
            name, unit = _RATES[column]
            time, numbers = _rates(time, numbers)
        else:
            name, unit = _LEVELS.get(column, (column, "value"))
        yield from _counters(name, 0, time + shift_ns, {unit: numbers})


def _of_threads(samples: ThreadSamples, names: Mapping[int, str], pid: int, shift_ns: int) -> Iterator[bytes]:
    """Yield the shares of time that each active thread ran and queued; `names` are by thread id."""
    for own in samples.by_thread():
        run, wait = own.run_ns / 1e9, own.wait_ns / 1e9
        if len(own) < 2 or run[-1] + wait[-1] <= run[0] + wait[0]:
            continue
        tid = int(own.tid[0])
        time, running = _rates(own.time_ns + shift_ns, run)
        _, queued = _rates(own.time_ns + shift_ns, wait)
        name = f"{names.get(tid) or 'thread'} {tid} on a CPU"
        yield from _counters(name, pid, time, {"running": running, "queued": queued})


def _rates(time: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Convert cumulative values to rates per second from each reading on, never negative."""
    apart = np.concatenate([[True], np.diff(time) > 0]) if len(time) else np.zeros(0, np.bool_)
    time, values = time[apart], values[apart]
    if len(time) < 2:
        return time[:0], values[:0]
    rate = np.maximum(np.diff(values) / (np.diff(time) / 1e9), 0.0)
    return time, np.append(rate, rate[-1])


def _counters(name: str, pid: int, time: Ints, values: Mapping[str, Floats]) -> Iterator[bytes]:
    head = f',\n{{"ph":"C","pid":{pid},"tid":0,"name":{as_json(name)},"ts":'
    tail = ',"args":{' + ",".join(f"{as_json(unit)}:%.6g" for unit in values) + "}}"
    rows = zip(time.tolist(), *(column.tolist() for column in values.values()), strict=True)
    yield "".join([head + microseconds(at) + tail % tuple(numbers) for at, *numbers in rows]).encode()
