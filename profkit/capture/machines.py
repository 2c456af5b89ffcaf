"""Counters of a run's machines, from the launcher, the sampler and agents on other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from profkit.capture.agent import process_facts
from profkit.capture.host import Reading
from profkit.capture.record_types import Launch, Record, Sampled
from profkit.model import Host, Machine, Series
from profkit.model.arrays import known


def of_run(launch: Launch, sampled: Sampled | None, host: Host) -> Machine | None:
    """Return the machine's counters over the run, from the launcher's readings and the sampler's series."""
    series = sampled.series if sampled is not None else None
    if len(launch.readings) == 2:
        found = _between(launch.readings[0], launch.readings[1], host)
    elif series is not None and len(series.time_ns) > 1:  # the launcher was killed
        found = Machine(
            cpus=host.cpus,
            quota_cpus=host.quota_cpus,
            wall_s=float(series.time_ns[-1] - series.time_ns[0]) / 1e9,
            busy_s=_last(series, "busy_s"),
            steal_s=_last(series, "steal_s"),
            psi_some_s=_last(series, "psi_some_s"),
            load=_last(series, "load"),
        )
    else:
        return None
    found = replace(
        found,
        tree_cpu_s=launch.tree_cpu_s,
        neighbours=sampled.neighbours if sampled is not None else None,
    )
    if sampled is None or sampled.machine is None or series is None:
        return found
    peaks = known([found.peak_runnable, greatest(series, "runnable")])
    periods = _last(series, "periods")
    if periods is not None and periods >= (found.periods or 0):
        # Of the target's own cgroup, which may not be the launcher's.
        found = replace(
            found,
            throttled_s=_last(series, "throttled_s"),
            throttled_periods=int(_last(series, "throttled_periods") or 0),
            periods=int(periods),
        )
    refaulted = _last(series, "refaulted_bytes")
    return replace(
        found,
        memory_limit_bytes=sampled.machine.memory_limit_bytes,
        refaulted_bytes=None if refaulted is None else int(refaulted),
        peak_runnable=int(max(peaks)) if peaks else None,
        quota_cpus=min(known([found.quota_cpus, sampled.machine.quota_cpus]), default=None),
    )


def _last(series: Series, name: str) -> float | None:
    _, values = series.known(name)
    return float(values[-1]) if len(values) else None


def greatest(series: Series, name: str) -> float | None:
    """Return the greatest reading of a column, ``None`` without any."""
    _, values = series.known(name)
    return float(values.max()) if len(values) else None


def _between(start: Reading, end: Reading, host: Host) -> Machine:
    """Return the rise of the counters from `start` to `end`."""
    risen: dict[str, Any] = {}
    for name in ("time_s", "busy_s", "steal_s", "psi_some_s", "throttled_s", "throttled_periods", "periods"):
        first, last = getattr(start, name), getattr(end, name)
        risen[name] = None if first is None or last is None else max(type(last)(0), last - first)
    return Machine(
        cpus=host.cpus,
        quota_cpus=host.quota_cpus,
        wall_s=risen.pop("time_s"),
        **risen,
        load=end.load,
        peak_runnable=max(known((start.runnable, end.runnable)), default=None),
    )


def by_host(machine: Machine | None, host: Host, records: Sequence[Record]) -> dict[str, Machine]:
    """Return each host's machine by name, empty without other hosts; `host` is the launcher's."""
    longest: dict[str, tuple[float, Record, Reading, Reading]] = {}
    here = process_facts.boot_id()
    for record in records:
        if record.machine is None or record.kernel == here:
            continue
        begin, end = record.machine
        span = end.time_s - begin.time_s
        # Cgroups may differ between processes: both readings are of one process, that of the longest span.
        if record.host not in longest or span > longest[record.host][0]:
            longest[record.host] = span, record, begin, end
    if not longest:
        return {}
    found = {host.name: machine} if machine is not None else {}
    for name, (_, record, begin, end) in longest.items():
        there = Host(name=name, cpus=record.cpus, quota_cpus=record.quota_cpus)
        found[name] = _between(begin, end, there)
    return found
