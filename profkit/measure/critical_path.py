"""The critical path of one run: its wall time by what it was spent on, and by function.

While the path's thread is off the CPU, running or queueing helpers count as the path, scaled to fill that
time; the rest is waiting or blocked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.measure import pause_seconds
from profkit.measure.composition import Composition
from profkit.measure.path_reading import PathReading
from profkit.model.arrays import Bools, Floats, known, spread
from profkit.model.pauses import FOR_EACH_OTHER, WAITS

#: Rows of `FOR_EACH_OTHER` in arrays by kind.
_FOR_OTHERS = [WAITS.index(kind) for kind in FOR_EACH_OTHER]


@dataclass(frozen=True, slots=True)
class _OwnTime:
    """Seconds of the path's thread by function, shape (n,), each second in one of the fields.

    `off`, off the CPU without the interpreter's lock, is known by kind, shape (kinds, n), in `off_by`. `children_by`,
    of the same shape, is waiting for programs that are not profiled.
    """

    busy: Floats
    polled: Floats
    collected: Floats
    off: Floats
    off_by: Floats
    children_by: Floats
    gil: Floats
    of_ranks: Floats
    on_gpu: Floats | None

    @property
    def open_s(self) -> float:
        """Return the seconds in which it waited, or asked again and again."""
        return float(self.off.sum() + self.polled.sum())

    @property
    def total_s(self) -> float:
        off = (self.off, self.children_by, self.gil)
        parts = (self.busy, self.polled, self.collected, *off, self.of_ranks, self.on_gpu)
        return sum(float(part.sum()) for part in known(parts))


@dataclass(frozen=True, slots=True)
class _Helping:
    """What helpers did while the path's thread waited, by function; `part` of all that they did.

    `covered_s` of the waiting is theirs; `stood`, off the CPU, is known by kind in `stood_by`; `queue_s` waited
    for a CPU; `starts_s` of CPU time started and ended processes.
    """

    part: float
    covered_s: float
    run: Floats
    imports: Floats
    stood: Floats
    stood_by: Floats
    queue_s: float
    starts_s: float


def compose(
    reading: PathReading, waits: Bools, ranks: Bools, compute: Bools, gpu: Bools, *, beside: float = 0.0
) -> Composition:
    """Return how the wall of one run is made up.

    The masks are waits by design and for ranks, those that also compute, and waits for a GPU. Helpers are active for
    `beside` seconds per second that the path's thread runs, so not while it waits; it counts where nothing
    says what that thread waits for.
    """
    if reading.counters is None:
        return _composed_plainly(reading, waits, ranks)
    life_s, run_s, queue_s = reading.counters
    off_s = max(0.0, life_s - run_s - queue_s)
    if not len(reading.own):
        return _composed_of_counters(reading, life_s, run_s, off_s)
    # Reading a file also computes (decoding, copying), and so does writing it.
    polls = waits & ~compute
    own = _own_time(reading, (run_s, queue_s, off_s), waits, polls, ranks, gpu)
    helping = _helping(reading, own, waits, polls, ranks, beside)
    imports = (
        np.zeros(len(own.busy)) if reading.own_imports is None else np.minimum(reading.own_imports, own.busy)
    )
    run = own.busy - imports + helping.run - helping.imports
    waiting = float(own.off.sum())
    uncovered = 1.0 - helping.covered_s / own.open_s if own.open_s > 0 else 1.0
    left = uncovered * own.off
    remaining = float(left.sum())
    loading = min(remaining, max(0.0, reading.delivery_s - helping.covered_s))
    delivering = spread(loading, left)
    kept = (remaining - loading) / waiting if waiting > 0 else 0.0
    off_by = kept * own.off_by + own.children_by + helping.part * helping.stood_by
    gil = own.gil + off_by[pause_seconds.GIL]
    off_by[pause_seconds.GIL] = 0.0
    stood = helping.stood - helping.stood_by[pause_seconds.GIL]
    own_wait = reading.own_wait if reading.own_wait is not None else np.zeros(len(run))
    looked = reading.own_waits is not None
    helpers_off_by = None
    if looked and reading.helpers_waits is not None:
        helpers_off_by = reading.helpers_waits.copy()
        helpers_off_by[[*_FOR_OTHERS, pause_seconds.GIL]] = 0.0
    return _within_wall(
        reading.wall_s,
        startup_s=reading.wall_s - queue_s - own.total_s + helping.starts_s,
        starts_s=helping.starts_s,
        imports=imports + helping.imports,
        own_imports_s=float(imports.sum()),
        run=np.where(polls, 0.0, run),
        own_run_s=float(own.busy.sum() - imports.sum() + own.polled.sum()),
        queue_s=queue_s + helping.queue_s,
        helpers_queue_s=helping.queue_s,
        loading_s=loading,
        imbalance_s=float(own.of_ranks.sum()),
        blocked=left - delivering + own.children_by.sum(axis=0) + helping.part * stood,
        waits=uncovered * own.polled + np.where(polls, run, 0.0),
        queued=_at_most(own_wait, queue_s)
        + helping.part * _at_most(reading.helpers_wait, reading.helpers_queue_s),
        delivering=delivering,
        waiting_for_ranks=own.of_ranks,
        counters=True,
        on_gpu=own.on_gpu,
        helpers_part=helping.part,
        gil=gil if looked else None,
        collected=own.collected if looked else None,
        held=reading.held if looked else None,
        off_by=off_by if looked else None,
        helpers_off_by=helpers_off_by,
    )


def _own_time(
    reading: PathReading,
    counters: tuple[float, float, float],
    waits: Bools,
    polls: Bools,
    ranks: Bools,
    gpu: Bools,
) -> _OwnTime:
    """Divide the time of the path's thread; `counters` are its seconds on a CPU, queueing and off the CPU."""
    run_s, queue_s, off_s = counters
    busy, off = _busy_and_off(reading, waits, run_s, queue_s, off_s)
    # The profiler's clock and the kernel's differ slightly; neither time may exceed the kernel's count.
    busy = _at_most(busy, run_s)
    off = _at_most(off, off_s)
    of_ranks = np.where(ranks, busy + off, 0.0)
    busy, off = np.where(ranks, 0.0, busy), np.where(ranks, 0.0, off)
    on_gpu = None
    if reading.uses_gpu:
        # The driver polls, or sleeps: both end when the GPU has done what was started before.
        on_gpu = np.where(gpu, busy + off, 0.0)
        busy, off = np.where(gpu, 0.0, busy), np.where(gpu, 0.0, off)
    off_by = _known_waits(reading.own_waits, off)
    # The holder of the interpreter's lock may run meanwhile, but not for this thread.
    gil = off_by[pause_seconds.GIL].copy()
    off_by[pause_seconds.GIL] = 0.0
    children_by = _for_children(off_by, reading.children_run_s)
    off_by -= children_by
    collected = _collecting(reading, busy, queue_s / run_s if run_s > 0 else 0.0)
    busy = busy - collected
    # Who polls waits as well.
    polled = np.where(polls, busy, 0.0)
    off = off - gil - children_by.sum(axis=0)
    return _OwnTime(busy - polled, polled, collected, off, off_by, children_by, gil, of_ranks, on_gpu)


def _collecting(reading: PathReading, busy: Floats, queued: float) -> Floats:
    """Return CPU time of garbage collection, which is timed by the clock and queues like the function it strikes.

    `queued` is the queueing per second of CPU time where it is not known by function.
    """
    if reading.collected is None:
        return np.zeros(len(busy))
    wait = busy * queued if reading.own_wait is None else reading.own_wait
    active = busy + wait
    return np.minimum(
        reading.collected * np.divide(busy, active, out=np.ones(len(busy)), where=active > 0), busy
    )


def _for_children(off_by: Floats, run_s: float) -> Floats:
    """Return the waiting that CPU time of programs which are not profiled explains; the surest kind first."""
    result = np.zeros_like(off_by)
    for kind in pause_seconds.FOR_CHILDREN:
        result[kind] = _at_most(off_by[kind], max(0.0, run_s - float(result.sum())))
    return result


def _helping(
    reading: PathReading, own: _OwnTime, waits: Bools, polls: Bools, ranks: Bools, beside: float
) -> _Helping:
    """Let the helpers' activity fill the waiting of the path's thread."""
    # Helpers that were stopped or read a file kept the path's thread waiting; helpers that wait by design did not.
    stood = np.where(waits | ranks, 0.0, reading.helpers_blocked)
    stood_by = _known_waits(reading.helpers_waits, stood)
    # A helper that waits for another helper is covered by that helper's time, unless they take turns: the time of
    # several counts in proportion, and so does what each waits for the others.
    for_others = stood_by[_FOR_OTHERS].sum(axis=0)
    stood_by[_FOR_OTHERS] = 0.0
    stood = stood - for_others
    if reading.helpers_locked is not None:
        stood_by[pause_seconds.LOCK] = reading.helpers_locked
        stood = stood + reading.helpers_locked
    # Samples may find more in the functions than the kernel counted of the threads that have any.
    run_s = reading.helpers_run_s - float(own.children_by.sum())
    in_python_s = max(0.0, run_s - reading.native_run_s)
    helpers = _at_most(np.where(ranks, 0.0, reading.helpers), in_python_s)
    worked_s = run_s - float(helpers[polls].sum())
    helpers = np.where(polls, 0.0, helpers)
    active = worked_s + reading.helpers_queue_s + float(stood.sum())
    ended = own.open_s - _ended_by_no_helper(reading, waits, own.off)
    if reading.own_waits is None:
        own_run_s = float(own.busy.sum() + own.polled.sum())
        ended = min(ended, max(0.0, active - min(beside, reading.helpers_number) * own_run_s))
    part = _part(ended, active)
    # Native threads end no wait for a lock of Python's, unless its holder waits for them.
    elsewhere = float(own.off_by[pause_seconds.NOT_FOR_THREADS].sum())
    elsewhere += max(0.0, float(own.off_by[pause_seconds.LOCK][waits].sum()) - float(for_others.sum()))
    spun = part - _native_part(reading, part, ended - elsewhere)
    starts_s = min(reading.helpers_starts_s, max(0.0, worked_s - reading.native_run_s - float(helpers.sum())))
    # Threads of BLAS and OpenMP worked for the functions that waited for them. Other CPU time outside known
    # functions goes to the known ones, since samples miss some of it.
    waiting, working = own.off + own.polled, np.where(polls, 0.0, own.off)
    waited = next((times for times in (working, helpers) if times.any()), waiting)
    other = max(0.0, worked_s - starts_s - float(helpers.sum()) - reading.native_run_s)
    run = part * helpers + spread((part - spun) * reading.native_run_s, waited)
    run = run + spread(part * other, helpers if helpers.any() else waiting)
    imports = np.zeros(len(run))
    if reading.helpers_imports is not None:
        imports = np.minimum(part * reading.helpers_imports, run)
    return _Helping(
        part,
        part * active - spun * (reading.native_run_s + reading.native_queue_s),
        run,
        imports,
        stood,
        stood_by,
        part * reading.helpers_queue_s - spun * reading.native_queue_s,
        part * starts_s,
    )


def _known_waits(by_kind: Floats | None, off: Floats) -> Floats:
    """Limit the known waiting of each function, by kind, to its time off the CPU."""
    if by_kind is None:
        return np.zeros((len(WAITS), len(off)))
    seen = by_kind.sum(axis=0)
    part = np.divide(np.minimum(off, seen), seen, out=np.zeros(len(off)), where=seen > 0)
    result: Floats = by_kind * part
    return result


def least_beside(reading: PathReading) -> float:
    """Return the seconds for which helpers must have been active per second of the path's thread on a CPU.

    They cannot have been active longer beside its waiting than that took, each.
    """
    if reading.counters is None:
        return 0.0
    life_s, run_s, _ = reading.counters
    active = reading.helpers_run_s + reading.helpers_queue_s
    over = active - reading.helpers_number * max(0.0, life_s - run_s)
    return max(0.0, over) / run_s if run_s > 0 else 0.0


def _ended_by_no_helper(reading: PathReading, waits: Bools, off: Floats) -> float:
    """Return the time off the CPU in functions that wait for nothing, beyond the work of a library's threads.

    Only where a plain profile does not say where the thread was off the CPU; such a process was stopped.
    """
    if reading.own_blocked is not None:
        return 0.0
    return max(0.0, float(off[~waits].sum()) - reading.native_run_s - reading.native_queue_s)


def _native_part(reading: PathReading, part: float, waiting: float) -> float:
    """Return the part of native threads in the path's process that it waits for; idle BLAS threads spin."""
    active = reading.native_run_s + reading.native_queue_s
    return min(part, max(0.0, waiting) / active) if active > 0 else part


def _within_wall(wall_s: float, **parts: Any) -> Composition:
    """Compose these parts; if clocks differ and the functions exceed the wall, scale all to fit."""
    over = -min(0.0, parts["startup_s"])
    whole = Composition(**parts | {"startup_s": max(0.0, parts["startup_s"])})
    return whole.scaled(wall_s / (wall_s + over)) if over > 0 else whole


def _composed_of_counters(reading: PathReading, life_s: float, run_s: float, off_s: float) -> Composition:
    """Compose the wall of a run without functions from kernel counters."""
    # Counters are read one after the other; a later reading's excess is not part of the wall.
    life_s = min(life_s, reading.wall_s)
    run_s = min(run_s, life_s)
    off_s = min(off_s, life_s - run_s)
    active = reading.helpers_run_s + reading.helpers_queue_s
    part = _part(off_s, active)
    return Composition(
        counters=True,
        startup_s=reading.wall_s - life_s,
        own_run_s=run_s,
        queue_s=life_s - run_s - off_s + part * reading.helpers_queue_s,
        helpers_queue_s=part * reading.helpers_queue_s,
        untraced_run_s=run_s + part * reading.helpers_run_s,
        untraced_blocked_s=off_s - part * active,
    )


def _busy_and_off(
    reading: PathReading, waits: Bools, run_s: float, queue_s: float, off_s: float
) -> tuple[Floats, Floats]:
    """Return CPU time and time off the CPU of the path's thread, by function."""
    if reading.own_wait is not None and reading.own_blocked is not None:
        return np.maximum(reading.own - reading.own_wait - reading.own_blocked, 0.0), reading.own_blocked
    # A plain profile with counters: time off the CPU goes to functions that wait by design; the rest of those spins.
    off = _at_most(np.where(waits, reading.own, 0.0), off_s)
    working = reading.own - off
    active = run_s + queue_s
    busy = working * (run_s / active) if active > 0 else working
    missing = max(0.0, off_s - float(off.sum()))
    excess = max(0.0, float(working.sum()) - active)
    if missing > 0 and excess > 0:
        # Functions that were stopped or read a file were off the CPU too.
        off = off + working * (min(missing, excess) / float(working.sum()))
    return busy, off


def _part(waiting: float, active: float) -> float:
    """Return the part of the helpers' activity that fills the waiting of the path's thread."""
    return min(1.0, waiting / active) if active > 0 else 0.0


def _at_most(values: Floats, whole: float) -> Floats:
    total = float(values.sum())
    return values * (whole / total) if total > whole else values


def _composed_plainly(reading: PathReading, waits: Bools, ranks: Bools) -> Composition:
    """Compose without counters: self times of one thread, waiting only in functions that wait by design."""
    of_ranks = np.where(ranks, reading.own, 0.0)
    imbalance = float(of_ranks.sum())
    own = np.where(ranks, 0.0, reading.own)
    run, off = np.where(waits, 0.0, own), np.where(waits, own, 0.0)
    waiting = float(off.sum())
    loading = min(waiting, reading.delivery_s)
    delivering = spread(loading, off)
    none = np.zeros(len(own))
    return _within_wall(
        reading.wall_s,
        startup_s=reading.wall_s - float(own.sum()) - imbalance,
        run=run,
        own_run_s=float(run.sum()),
        loading_s=loading,
        imbalance_s=imbalance,
        blocked=off - delivering,
        waits=none,
        queued=none,
        delivering=delivering,
        waiting_for_ranks=of_ranks,
        imports=none,
        counters=False,
    )
