"""Booking of lost time: each second of the difference between two walls in one bucket of the account.

The identity, along the critical path (`measure.critical_path`), with terms that ``docs/architecture.md`` defines:

    ΔT = Δstartup + Δwork + Δcode + Δspeed + Δqueue + Δblocked + Δloading + Δimbalance + rest + Δgpu + Δcapture

The account of one run divides its own wall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from profkit.compare.origins import Origins
from profkit.compare.process_calls import feeds_processes, limited_by_number, starts_processes
from profkit.compare.signals import Signals
from profkit.identity.lookup_columns import Keys, rows_where
from profkit.measure.composition import Composition
from profkit.measure.waits_by_name import reads_files
from profkit.model.arrays import Bools, Floats, median
from profkit.model.pauses import WAITS
from profkit.verdict.account import BUCKETS, CAPTURE, GPU, PAUSES, Account, Bucket, Waited
from profkit.verdict.bucket_parts import PARTS, holders, largest, queued_ranges, waited_kinds, with_what
from profkit.verdict.thresholds import value

#: Resamples of the repeats for an interval (Efron and Tibshirani 1993), and the seed of the draw.
RESAMPLES = 200
SEED = 11
#: Percentiles that bound a 95 % interval.
INTERVAL = (2.5, 97.5)


#: Rows of waits for files in arrays by kind.
_DISK = WAITS.index("disk")
_OF_FILES = [WAITS.index("file"), _DISK]

#: Seconds of each bucket, and of the functions in it.
_Booked = dict[str, tuple[float, "Floats | None"]]


def account(signals: Signals, *, unknown_code: int = -1, spun_s: float = 0.0) -> Account:
    """Return the account of the difference of two sides.

    `unknown_code` is the row of the only function that got slower, with unknown source (−1: none). `spun_s`
    bounds the seconds for which the path's thread only spun while it waited for queued threads.
    """
    table, origins, walls = signals.table, signals.origins, signals.walls
    baseline: Sequence[Composition] = walls.baseline.parts
    candidate: Sequence[Composition] = walls.candidate.parts
    paused = all(c.gil is not None for c in (*baseline, *candidate))
    if not paused:
        baseline, candidate = ([c.without_pauses() for c in side] for side in (baseline, candidate))
    on_gpu = all(c.on_gpu is not None for c in (*baseline, *candidate))
    if not on_gpu:
        baseline, candidate = ([c.without_gpu() for c in side] for side in (baseline, candidate))
    names = BUCKETS + (PAUSES if paused else ()) + ((GPU,) if on_gpu else ())
    names += (CAPTURE,) if walls.captured else ()
    wall_a = float(median([c.wall_s for c in baseline]))
    wall_b = float(median([c.wall_s for c in candidate]))
    whole_a, whole_b = _typical(baseline, wall_a), _typical(candidate, wall_b)
    booked = _book(whole_a, whole_b, origins, unknown_code, spun_s)
    if min(len(baseline), len(candidate)) >= value("repeats.least"):
        basis = "repeats"
        intervals = _resampled(baseline, candidate, origins, unknown_code, spun_s, booked)
    else:
        basis = "other-programs"
        intervals = _as_other_programs(booked, wall_a, whole_a)
    errors = _errors(whole_a, whole_b, origins)
    added = wall_b - wall_a
    buckets = []
    for name in names:
        seconds, rows = booked[name]
        share = seconds / added if added else math.nan
        parts = largest(table.name, rows, seconds)
        if name == "queue":
            parts += tuple(queued_ranges(signals.ranges)[:PARTS])
        waited: tuple[Waited, ...] = ()
        if name == "blocked":
            waited = waited_kinds(table.name, whole_a.off_by, whole_b.off_by)
            parts = with_what(parts, whole_a.off_by, whole_b.off_by)
        if name == "gil":
            others = None if whole_b.held is None else whole_b.held - _held_by_code(whole_a, whole_b, origins)
            parts += holders(table.name, whole_a.held, others)
            waited = waited_kinds(table.name, whole_a.gil, whole_b.gil)
        (low, high), error = intervals[name], errors.get(name, 0.0)
        buckets.append(Bucket(name, seconds, low - error, high + error, share, parts, waited))
    merged = () if whole_a.counters and whole_b.counters else ("speed", "queue")
    # Threads for which the path's own thread spins count as helpers too.
    queued_alone = booked["queue"][0] - _own_queue(whole_a, whole_b)
    queued = whole_a.helpers_queue_s, whole_b.helpers_queue_s
    helpers = max(_beyond_cpu_time(*queued, _cpu_seconds(whole_a), _cpu_seconds(whole_b)), queued_alone)
    unknown = max(_calls_unknown(whole, origins) for whole in (whole_a, whole_b))
    with_queue = _with_queue(whole_a, whole_b)
    imports = _helpers_imports(whole_b) - _helpers_imports(whole_a)
    own_imports = (with_queue * whole_a.own_imports_s, with_queue * whole_b.own_imports_s)
    read = _reading_s(whole_a, whole_b, rows_where(table.name, reads_files))
    started = _more_started_s(whole_a, whole_b, signals, booked["startup"][1])
    waited = waited_kinds(table.name, whole_a.helpers_off_by, whole_b.helpers_off_by)
    collected = (_collected_s(whole_a), _collected_s(whole_b))
    return Account(
        *(wall_a, wall_b, tuple(buckets), merged, basis, helpers, unknown),
        *(imports, own_imports, read, started, waited, collected),
    )


def account_of_run(composition: Composition, keys: Keys) -> Account:
    """Return how the wall of one run is made up."""
    c = composition
    names, starts = keys.name, starts_processes(keys)
    wall = c.wall_s
    booked = {
        "startup": (c.startup_s + float(c.imports.sum()), c.imports),
        "running": (_running(c), c.run + c.waits),
        "queue": (c.queue_s, c.queued),
        "loading": (c.loading_s, c.delivering),
        "blocked": (_blocked_seconds(c), c.blocked),
        "imbalance": (c.imbalance_s, c.waiting_for_ranks),
    }
    if c.gil is not None and c.collected is not None:
        booked |= {"gil": (float(c.gil.sum()), c.gil), "gc": (float(c.collected.sum()), c.collected)}
    if c.on_gpu is not None:
        booked[GPU] = (float(c.on_gpu.sum()), c.on_gpu)
    buckets = tuple(
        Bucket(
            name,
            seconds,
            share=seconds / wall if wall > 0 else math.nan,
            parts=with_what(largest(names, rows, seconds), None, c.off_by if name == "blocked" else None)
            + (holders(names, None, c.held) if name == "gil" else ()),
            waited=waited_kinds(names, None, {"blocked": c.off_by, "gil": c.gil}.get(name)),
        )
        for name, (seconds, rows) in booked.items()
    )
    merged = () if c.counters else ("running", "queue")
    imports = _helpers_imports(c)
    reads = rows_where(names, reads_files)
    return Account(
        0.0,
        wall,
        buckets,
        merged,
        helpers_queue_s=c.helpers_queue_s,
        imports_s=imports,
        # Without what was waited for, the names are those of reading from a socket too.
        reading_s=(0.0, 0.0 if c.off_by is None else _reading_s(c, c, reads)[1]),
        starts_s=_started_s(c, starts),
        helpers_waited=waited_kinds(names, None, c.helpers_off_by),
        collected_s=(0.0, _collected_s(c)),
    )


def _reading_s(a: Composition, b: Composition, reads: Bools) -> tuple[float, float]:
    """Return how long files were read on both sides, on a CPU or off it; `reads` do so by name.

    A function that a disk kept waiting reads what is mapped to memory: the kernel copies that while it runs.
    """
    if a.off_by is None or b.off_by is None:
        before, after = (float(c.run[reads].sum() + c.blocked[reads].sum()) for c in (a, b))
        return before, after
    disk = np.maximum(a.off_by[_DISK], b.off_by[_DISK])
    reads = reads | (disk > value("reading.by-disk") * np.maximum(a.run, b.run))
    waited_a, waited_b = (float(off_by[_OF_FILES].sum()) for off_by in (a.off_by, b.off_by))
    return float(a.run[reads].sum()) + waited_a, float(b.run[reads].sum()) + waited_b


def _started_s(c: Composition, starts: Bools) -> float:
    """Return the time of the path in functions that start processes, and of processes outside their functions."""
    return _queueing(c) * (c.starts_s + float(c.run[starts].sum())) + float(c.blocked[starts].sum())


def _more_started_s(a: Composition, b: Composition, signals: Signals, with_each: Floats | None) -> float:
    """Return what starting and feeding more processes added; `with_each` is booked as calls that come with each."""
    keys = signals.table.keys
    starts = starts_processes(keys)
    feeds = feeds_processes(keys) & ~starts
    fed = [np.array(_queueing(side) * side.run[feeds].sum()) for side in (a, b)]
    numbers = signals.baseline.processes, signals.candidate.processes
    added = _started_s(b, starts) - _started_s(a, starts)
    added += float(limited_by_number(fed[1] - fed[0], np.minimum(*fed), numbers))
    if with_each is not None:
        added += float((with_each - (b.imports - a.imports))[~(starts | feeds)].sum())
        # Other processes import because they were started; what the main one imports queues for itself.
        added -= (_with_queue(a, b) - 1.0) * (b.own_imports_s - a.own_imports_s)
    return added


def _queueing(c: Composition) -> float:
    """Return the seconds, queueing included, of a second of CPU time on the path."""
    cpu = _cpu_seconds(c)
    return 1.0 + c.queue_s / cpu if cpu > 0 else 1.0


def _helpers_imports(c: Composition) -> float:
    return float(c.imports.sum()) - c.own_imports_s


def _collected_s(c: Composition) -> float:
    return 0.0 if c.collected is None else float(c.collected.sum())


def _calls_unknown(whole: Composition, origins: Origins) -> float:
    """Return the share of the path's CPU time in functions whose calls are not known well enough."""
    run = float(whole.run.sum())
    return float(whole.run[~origins.ratios.weighed].sum()) / run if run > 0 else 0.0


def _own_queue(a: Composition, b: Composition) -> float:
    """Return queueing of the path's own thread beyond what grew with the CPU time."""
    queued = a.queue_s - a.helpers_queue_s, b.queue_s - b.helpers_queue_s
    return _beyond_cpu_time(*queued, float(a.run.sum()), float(b.run.sum()))


def _beyond_cpu_time(queue_a: float, queue_b: float, cpu_a: float, cpu_b: float) -> float:
    """Return queueing beyond what grew with the CPU time."""
    return queue_b - queue_a - _queued_per_second(queue_a, queue_b, cpu_a, cpu_b) * (cpu_b - cpu_a)


def _running(c: Composition) -> float:
    """Return CPU time of functions on the path, polling included."""
    return float(c.run.sum() + c.waits.sum()) + c.untraced_run_s


def _cpu_seconds(c: Composition) -> float:
    """Return CPU time on the path, since all of it may queue: functions, garbage collection, and start and end."""
    return _running(c) + float(c.imports.sum()) + _collected_s(c) + max(c.startup_s, c.starts_s)


def _blocked_seconds(c: Composition) -> float:
    return float(c.blocked.sum()) + c.untraced_blocked_s


def _queued_per_second(queue_a: float, queue_b: float, cpu_a: float, cpu_b: float) -> float:
    """Return the queueing per second of CPU time that both sides have: it grows with the CPU time.

    It is the smaller one, so that the sides can be exchanged, and what follows the CPU time is never more
    than a side queued.
    """
    return min(queue_a / cpu_a, queue_b / cpu_b) if cpu_a > 0 and cpu_b > 0 else 0.0


def _with_queue(a: Composition, b: Composition) -> float:
    """Return the seconds of the path for a second of CPU time, with the queueing that both sides have."""
    return 1.0 + _queued_per_second(a.queue_s, b.queue_s, _cpu_seconds(a), _cpu_seconds(b))


def _typical(runs: Sequence[Composition], wall_s: float) -> Composition:
    """Return the mean of a side's runs, each scaled to the side's wall; runs of zero length are left out."""
    return Composition.mean([c.scaled(wall_s / c.wall_s) for c in runs if c.wall_s > 0] or runs)


def _book(
    a: Composition,
    b: Composition,
    origins: Origins,
    unknown_code: int,
    spun_s: float,
) -> _Booked:
    """Book the difference of two compositions; the buckets add up to the difference of their walls."""
    sites = origins.sites
    seconds = sites.seconds(a.run, b.run)  # explained by changed calls
    per_call = b.run - a.run - sites.by_row(seconds)
    process_rows = sites.by_row(seconds * sites.of_processes)
    code_rows = sites.by_row(seconds * sites.from_code)
    work_rows = sites.by_row(seconds) - code_rows - process_rows
    shared = per_call * (1.0 - origins.cost_from_code)
    code_rows = code_rows + per_call * origins.cost_from_code
    if unknown_code >= 0:
        code_rows = code_rows.copy()
        shared = shared.copy()
        code_rows[unknown_code] += shared[unknown_code]
        shared[unknown_code] = 0.0
    cpu_a, cpu_b = _cpu_seconds(a), _cpu_seconds(b)
    # Queueing that only grew with the CPU time is booked with the cause of that growth.
    with_queue = _with_queue(a, b)
    queue = _beyond_cpu_time(a.queue_s, b.queue_s, cpu_a, cpu_b)
    spinning = max(0.0, min(spun_s, float(shared.sum()), b.own_run_s - a.own_run_s))
    speed = float(shared.sum()) - spinning + b.untraced_run_s - a.untraced_run_s
    polled = with_queue * (b.waits - a.waits)
    imports = with_queue * (b.imports - a.imports)
    held = _held_by_code(a, b, origins)
    parts: _Booked = {
        "startup": (
            b.startup_s
            - a.startup_s
            + (with_queue - 1.0) * (max(b.startup_s, b.starts_s) - max(a.startup_s, a.starts_s))
            + float(imports.sum())
            + with_queue * float(process_rows.sum()),
            imports + with_queue * process_rows,
        ),
        "work": (with_queue * float(work_rows.sum()), with_queue * work_rows),
        "code": (with_queue * float(code_rows.sum()) + float(held.sum()), with_queue * code_rows + held),
        "speed": (with_queue * speed, with_queue * shared),
        "queue": (queue + with_queue * spinning, b.queued - a.queued),
        "blocked": (_blocked_seconds(b) - _blocked_seconds(a), b.blocked - a.blocked),
        "loading": (b.loading_s - a.loading_s, b.delivering - a.delivering),
        "imbalance": (b.imbalance_s - a.imbalance_s, b.waiting_for_ranks - a.waiting_for_ranks),
    }
    # CPU time of polling follows the time waited: it is neither work nor a cause.
    parts["rest"] = (float(polled.sum()), polled)
    for name, before, after in (("gil", a.gil, b.gil), ("gc", a.collected, b.collected)):
        rows = np.zeros(0) if before is None or after is None else after - before
        if name == "gil" and held.any():
            rows = rows * (1.0 - held.sum() / rows.sum())  # which of them waited for changed code is unknown
        if name == "gc":
            rows = with_queue * rows
        parts[name] = (float(rows.sum()), rows)
    on_gpu = np.zeros(0) if a.on_gpu is None or b.on_gpu is None else b.on_gpu - a.on_gpu
    parts[GPU] = (float(on_gpu.sum()), on_gpu)
    parts[CAPTURE] = (b.capture_s - a.capture_s, None)
    return parts


def _held_by_code(a: Composition, b: Composition, origins: Origins) -> Floats:
    """Return the change of waiting for the interpreter's lock while changed code held it; shape (n,).

    It has the sign of the change of all that waiting, and is no greater.
    """
    none = np.zeros(len(b.run))
    if a.gil is None or b.gil is None or a.held is None or b.held is None:
        return none
    waited = float(b.gil.sum() - a.gil.sum())
    sign = math.copysign(1.0, waited)
    held = sign * np.maximum(sign * (b.held - a.held), 0.0) * origins.below
    whole = float(held.sum())
    return held * min(1.0, waited / whole) if whole and waited else none


def _errors(a: Composition, b: Composition, origins: Origins) -> dict[str, float]:
    """Return half-widths of 95 % intervals, from estimated calls and the estimated cost of capture."""
    sites = origins.sites
    error = _with_queue(a, b) * sites.errors(a.run, b.run)
    captured = math.hypot(a.capture_error_s, b.capture_error_s)
    cost = origins.cost_from_code[sites.row]
    return {
        "startup": float((error * sites.of_processes).sum()),
        "work": float((error * (1.0 - sites.from_code - sites.of_processes)).sum()),
        "code": float((error * np.abs(sites.from_code - cost)).sum()),
        "speed": float((error * (1.0 - cost)).sum()) + captured,
        CAPTURE: captured,
    }


def _resampled(
    baseline: Sequence[Composition],
    candidate: Sequence[Composition],
    origins: Origins,
    unknown_code: int,
    spun_s: float,
    booked: _Booked,
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each bucket, from resampled repeats."""
    draw = np.random.default_rng(SEED)
    kept = _heavy(baseline, candidate)
    few_a, few_b = ([c.taken(kept) for c in side] for side in (baseline, candidate))
    n, m = len(baseline), len(candidate)
    part_origins = origins.taken(kept)
    at_code = np.flatnonzero(kept == unknown_code)
    code = int(at_code[0]) if len(at_code) else -1
    drawn: dict[str, list[float]] = {name: [] for name in booked}
    for _ in range(RESAMPLES):
        some_a = Composition.mean([few_a[run] for run in draw.integers(0, n, n)])
        some_b = Composition.mean([few_b[run] for run in draw.integers(0, m, m)])
        for name, (seconds, _) in _book(some_a, some_b, part_origins, code, spun_s).items():
            drawn[name].append(seconds)
    intervals = {}
    for name, values in drawn.items():
        low, high = np.percentile(values, INTERVAL)
        # The omitted rows shift all resamples equally.
        shift = booked[name][0] - float(np.mean(values))
        intervals[name] = float(low) + shift, float(high) + shift
    return intervals


def _as_other_programs(
    booked: _Booked, wall_a: float, whole_a: Composition
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each bucket, from repeats of other programs; capture has none."""
    noise = {name: value(f"noise.{name}") * wall_a for name in (*BUCKETS, *PAUSES, GPU)} | {CAPTURE: 0.0}
    # Beside a busy neighbour, queueing differs from repeat to repeat, and startup queues as well.
    noise["queue"] += value("noise.queue-again") * whole_a.queue_s
    noise["startup"] += value("noise.queue-again") * max(0.0, whole_a.startup_s)
    # Files that are read may be in memory, or not.
    noise["startup"] += value("noise.imports") * whole_a.own_imports_s
    return {name: (seconds - noise[name], seconds + noise[name]) for name, (seconds, _) in booked.items()}


def _heavy(baseline: Sequence[Composition], candidate: Sequence[Composition]) -> npt.NDArray[np.intp]:
    """Return the rows that hold all but a thousandth of the path's time."""
    whole = sum(np.abs(c.run) + np.abs(c.blocked) + np.abs(c.waits) for c in (*baseline, *candidate))
    assert not isinstance(whole, int)
    order = np.argsort(-whole, kind="stable")
    held = np.cumsum(whole[order])
    if not len(held) or held[-1] <= 0:
        return order[:0]
    return order[: int(np.searchsorted(held, 0.999 * held[-1])) + 1]
