"""Counter events of a Chrome trace: the machine's series, and each thread's share of a CPU.

A counter holds until the next event, so cumulative values are written as rates from one reading to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from profkit.formats.export.timeline import as_json, microseconds
from profkit.model import Series, ThreadSamples
from profkit.model.arrays import Floats, Ints

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


def of_series(series: Series, shift_ns: int) -> Iterator[bytes]:
    """Yield the machine's counters as process 0; failed readings (NaN) are left out."""
    for column, values in series.columns.items():
        there = np.isfinite(values)
        time, numbers = series.time_ns[there] + shift_ns, values[there]
        if column in _RATES:
            name, unit = _RATES[column]
            time, numbers = _rates(time, numbers)
        else:
            name, unit = _LEVELS.get(column, (column, "value"))
        yield from _counters(name, 0, time, {unit: numbers})


def of_threads(samples: ThreadSamples, names: Mapping[int, str], pid: int, shift_ns: int) -> Iterator[bytes]:
    """Yield the shares of time that each active thread ran and queued; `names` are by thread id."""
    if not len(samples):
        return
    change = np.flatnonzero(np.diff(samples.tid)) + 1
    for rows in np.split(np.arange(len(samples)), change):
        run, wait = samples.run_ns[rows] / 1e9, samples.wait_ns[rows] / 1e9
        if len(rows) < 2 or run[-1] + wait[-1] <= run[0] + wait[0]:
            continue
        tid = int(samples.tid[rows[0]])
        time, running = _rates(samples.time_ns[rows] + shift_ns, run)
        _, queued = _rates(samples.time_ns[rows] + shift_ns, wait)
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
