"""The critical path of one run: its wall time by what it was spent on, and by function.

The path is the main thread of the main process or of one rank. While that thread is off the CPU, running or
queueing helpers count as the path, scaled to fill that time; the rest is waiting or blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from profkit.identity.lookup_columns import Looked
from profkit.measure import pause_seconds
from profkit.measure.imports import import_seconds
from profkit.measure.inventory import queued_s, ran_s
from profkit.measure.selected_processes import Selected
from profkit.measure.side_facts import delivery_seconds, first_thread, main_processes
from profkit.measure.waits_by_name import waits_for_ranks
from profkit.model import Effect, Process, Profile, Run, Thread
from profkit.model.arrays import Bools, Floats, Rows, known_sum
from profkit.model.pauses import WAITS

#: Kinds of waiting that threads and processes of one program end for each other.
_FOR_OTHERS = [WAITS.index(kind) for kind in ("lock", "child", "pipe", "poll")]


@dataclass(frozen=True, slots=True, eq=False)
class PathReading:
    """What was read of one run: seconds, and arrays over the n rows of its selected profile.

    `wall_s` is self time of the path's thread where the command's wall is unknown. `life_s`, `run_s` and
    `queue_s` are ``None`` without kernel counters; `own_wait` (queued) and `own_blocked` (off the CPU
    otherwise) are ``None`` where not traced. `helpers` is active time of the program's other threads and
    processes; `helpers_wait` and `helpers_blocked` are 0 where not measured. `native_run_s` and
    `native_queue_s` are the parts of the helpers' sums in the path's process that run no Python.

    `own_waits` and `helpers_waits`, shape (len(WAITS), n), are blocked time by cause (`model.pauses`).
    `collected` is the garbage collector's time in the path's thread; `held` is how long threads waited while
    a function held the interpreter's lock; `helpers_imports` is the part of `helpers` that imported modules
    in other processes.
    """

    wall_s: float
    life_s: float | None
    run_s: float | None
    queue_s: float | None
    own: Floats
    own_wait: Floats | None
    own_blocked: Floats | None
    helpers: Floats
    helpers_blocked: Floats
    helpers_wait: Floats
    helpers_run_s: float
    helpers_queue_s: float
    delivery_s: float
    own_waits: Floats | None = None
    helpers_waits: Floats | None = None
    collected: Floats | None = None
    held: Floats | None = None
    helpers_imports: Floats | None = None
    native_run_s: float = 0.0
    native_queue_s: float = 0.0

    @property
    def counters(self) -> tuple[float, float, float] | None:
        """Life, running and queueing of the path's thread by the kernel's counters, if these are known."""
        if self.life_s is None or self.run_s is None or self.queue_s is None:
            return None
        return self.life_s, self.run_s, self.queue_s

    def placed(self, rows: Rows, n: int) -> PathReading:
        """Return the same over `n` other rows; `rows` says where each row goes, −1 to drop it."""
        kept = rows >= 0

        def moved(values: Any) -> Any:
            if not isinstance(values, np.ndarray):
                return values
            if values.ndim == 2:
                return np.array([moved(row) for row in values])
            return np.bincount(rows[kept], values[kept], n).astype(np.float64)

        return PathReading(*(moved(getattr(self, field.name)) for field in fields(self)))


def _no_functions() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """How the wall of one run, or of a side's repeats, is made up: seconds, and arrays over n functions.

    `startup_s` is outside all functions. `own_run_s` is the part of `run` in the path's thread,
    `helpers_queue_s` the helpers' part of `queue_s`, `queued` its measured part by function. Without
    `counters`, queueing is in `run` and `queue_s` is 0. `delivering` and `waiting_for_ranks` are `loading_s`
    and `imbalance_s` by function; `waits` is CPU time of functions that poll; `imports` is CPU time of other
    processes that import on the path; `off_by`, shape (len(WAITS), n), is the part of `blocked` with a known
    cause (`model.pauses`).

    `gil` (waiting for the interpreter's lock) and `collected` (CPU time of garbage collection) are in
    `blocked` and `run` where ``None``. `held`, not a part of the wall, is how long threads waited while a
    function held the lock. `untraced_run_s` and `untraced_blocked_s` are the path of a run without captured
    functions, else 0. `capture_s` and `capture_error_s` (half the 95 % interval) are 0 unless `less_capture`
    set them.
    """

    counters: bool
    startup_s: float
    own_run_s: float
    queue_s: float = 0.0
    helpers_queue_s: float = 0.0
    loading_s: float = 0.0
    imbalance_s: float = 0.0
    run: Floats = field(default_factory=_no_functions)
    blocked: Floats = field(default_factory=_no_functions)
    waits: Floats = field(default_factory=_no_functions)
    queued: Floats = field(default_factory=_no_functions)
    delivering: Floats = field(default_factory=_no_functions)
    waiting_for_ranks: Floats = field(default_factory=_no_functions)
    imports: Floats = field(default_factory=_no_functions)
    untraced_run_s: float = 0.0
    untraced_blocked_s: float = 0.0
    capture_s: float = 0.0
    capture_error_s: float = 0.0
    gil: Floats | None = None
    collected: Floats | None = None
    held: Floats | None = None
    off_by: Floats | None = None

    @property
    def wall_s(self) -> float:
        """Sum of all parts."""
        arrays = float(self.run.sum() + self.blocked.sum() + self.waits.sum() + self.imports.sum())
        arrays += sum(float(part.sum()) for part in (self.gil, self.collected) if part is not None)
        untraced = self.untraced_run_s + self.untraced_blocked_s
        known = self.startup_s + self.queue_s + self.loading_s + self.imbalance_s + arrays + untraced
        return known + self.capture_s

    def without_pauses(self) -> Composition:
        """Return the same with `gil` counted in `blocked` and `collected` in `run`."""
        if self.gil is None or self.collected is None:
            return self
        return replace(
            self,
            blocked=self.blocked + self.gil,
            run=self.run + self.collected,
            gil=None,
            collected=None,
            held=None,
            off_by=None,
        )

    def less_capture(self, effect: Effect) -> Composition:
        """Return the same with what capture added taken out of the other parts.

        CPU time comes first, since the tracer ran in what it traced, then the waiting for it off the CPU.
        """
        whole = max(0.0, effect.seconds)
        cpu = float(self.run.sum() + self.waits.sum()) + self.untraced_run_s
        off = float(self.blocked.sum()) + self.untraced_blocked_s
        of_cpu = min(whole, max(0.0, cpu))
        of_off = min(whole - of_cpu, max(0.0, off))
        ran = 1.0 - of_cpu / cpu if of_cpu > 0 else 1.0
        stood = 1.0 - of_off / off if of_off > 0 else 1.0
        return replace(
            self,
            startup_s=self.startup_s - (whole - of_cpu - of_off),
            run=self.run * ran,
            own_run_s=self.own_run_s * ran,
            waits=self.waits * ran,
            untraced_run_s=self.untraced_run_s * ran,
            blocked=self.blocked * stood,
            untraced_blocked_s=self.untraced_blocked_s * stood,
            capture_s=whole,
            capture_error_s=max(effect.high_s - effect.seconds, effect.seconds - effect.low_s, 0.0),
        )

    def scaled(self, factor: float) -> Composition:
        """Return the same with every part multiplied by a factor."""
        return self._each(lambda value: value * factor)

    def taken(self, rows: Rows) -> Composition:
        """Return the same for some functions only."""
        return self._each(lambda value: value[..., rows] if isinstance(value, np.ndarray) else value)

    def _each(self, change: Callable[[Any], Any]) -> Composition:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {
            name: value if value is None or isinstance(value, bool) else change(value)
            for name, value in values.items()
        }
        return replace(self, **changed)

    @staticmethod
    def mean(parts: Sequence[Composition]) -> Composition:
        """Return the mean of each part over runs; errors of one tracer may be alike and do not cancel."""
        return Repeats(parts).mean(np.arange(len(parts)))


class Repeats:
    """The compositions of several runs, as arrays from which the mean of any draw is taken."""

    def __init__(self, runs: Sequence[Composition]) -> None:
        self._values = {
            field.name: [getattr(run, field.name) for run in runs] for field in fields(Composition)
        }
        self._stacks = {
            name: np.array(values)
            for name, values in self._values.items()
            if isinstance(values[0], np.ndarray) and not any(value is None for value in values)
        }
        # Most parts are 0 in all runs, and so are their means.
        self._zero = {name: not stack.any() for name, stack in self._stacks.items()}

    def mean(self, drawn: Rows) -> Composition:
        """Return the mean of the drawn runs, with repetition; see `Composition.mean`."""
        runs = drawn.tolist()

        def mean_of(name: str) -> Any:
            if name in self._stacks:
                stack = self._stacks[name]
                return np.zeros(stack.shape[1:]) if self._zero[name] else stack[drawn].mean(axis=0)
            values = [self._values[name][run] for run in runs]
            if isinstance(values[0], bool):
                return all(values)
            if any(value is None for value in values):
                return None
            return np.mean(values, axis=0) if isinstance(values[0], np.ndarray) else sum(values) / len(values)

        return Composition(**{name: mean_of(name) for name in self._values})


def path_rank(baseline: Sequence[Process], candidate: Sequence[Process]) -> int | None:
    """Return the rank whose active time grew most, or that has most if one object is passed twice."""
    before, after = ({p.rank: p for p in main_processes(side)} for side in (baseline, candidate))
    common = [rank for rank in after if rank is not None and rank in before]
    if len(common) < 2:
        return None
    alone = baseline is candidate

    def grown(rank: int) -> float:
        now, earlier = _useful(after[rank]), _useful(before[rank])
        return now if alone else now - earlier

    return max(common, key=grown)


def _useful(process: Process) -> float:
    """Return the seconds that the first thread ran or queued, less CPU time in calls that wait for ranks."""
    thread = first_thread(process)
    if thread is None:
        return 0.0
    profile = thread.profile
    of = Looked(profile.name, profile.strings).where(waits_for_ranks)
    blocked = 0.0 if profile.blocked is None else float(profile.blocked[of].sum())
    spun = float(profile.tottime[of].sum()) - blocked
    return max(0.0, (thread.run_s or 0.0) + (thread.run_queue_wait_s or 0.0) - spun)


def read_path(run: Run, selected: Selected, rank: int | None) -> PathReading:
    """Read the critical path of the selected part of a run, through the rank that `path_rank` chose."""
    n = len(selected.profile)
    chosen = _path_process(selected, rank)
    thread = first_thread(chosen) if chosen is not None else None
    own, wait, blocked = _of_threads(selected, lambda t: t is thread, n)
    wall = run.wall_s
    none = np.zeros(n)
    if chosen is None or thread is None:
        return PathReading(wall or 0.0, None, None, None, own, wait, blocked, none, none, none, 0.0, 0.0, 0.0)
    wall = wall or chosen.wall_s or float(own.sum())
    run_all = known_sum(map(ran_s, run.processes)) or 0.0
    queue_all = known_sum(map(queued_s, run.processes)) or 0.0
    helpers, helpers_wait, off = _of_threads(selected, lambda t: t is not thread, n)
    helpers_blocked, helpers_queued = none, none
    if helpers_wait is not None and off is not None:
        helpers = np.maximum(helpers - helpers_wait - off, 0.0)
        helpers_blocked, helpers_queued = off, helpers_wait
        helpers += _of_native_threads(selected, chosen, n)
    imports = None
    if any(process is not chosen for process in selected.processes):
        imports = _added(selected, lambda p, _: p is not chosen, import_seconds, (n,))
    pauses: dict[str, Floats] = {}
    if thread.pauses is not None:
        kinds, rows = (len(WAITS), n), (n,)
        pauses = {
            "own_waits": _added(selected, lambda _, t: t is thread, pause_seconds.waited, kinds),
            "helpers_waits": _added(
                selected, lambda _, t: t is not thread and bool(t.pauses), pause_seconds.waited, kinds
            ),
            "collected": _added(selected, lambda _, t: t is thread, pause_seconds.collected, rows),
            "held": _added(selected, lambda p, _: p is chosen, pause_seconds.held, rows),
        }
    return PathReading(
        wall_s=wall,
        life_s=chosen.wall_s if chosen.wall_s is not None else wall,
        run_s=thread.run_s,
        queue_s=thread.run_queue_wait_s,
        own=own,
        own_wait=wait,
        own_blocked=blocked,
        helpers=helpers,
        helpers_blocked=helpers_blocked,
        helpers_wait=helpers_queued,
        helpers_run_s=max(0.0, run_all - (thread.run_s or 0.0)),
        helpers_queue_s=max(0.0, queue_all - (thread.run_queue_wait_s or 0.0)),
        delivery_s=delivery_seconds(chosen) or 0.0,
        helpers_imports=imports,
        native_run_s=_native_s(chosen, "run_s"),
        native_queue_s=_native_s(chosen, "run_queue_wait_s"),
        **pauses,
    )


def _path_process(selected: Selected, rank: int | None) -> Process | None:
    mains = main_processes(selected.processes)
    return next((p for p in mains if rank is not None and p.rank == rank), mains[0] if mains else None)


def path_effect(selected: Selected, rank: int | None) -> Effect | None:
    """Return what capture added to the path's wall: 0 without functions, ``None`` if unknown."""
    process = _path_process(selected, rank)
    if process is None or process.effect is not None:
        return None if process is None else process.effect
    traced = any(len(thread.profile) for thread in process.threads)
    return None if traced else Effect(0.0, 0.0, 0.0)


def _of_threads(
    selected: Selected, wanted: Callable[[Thread], bool], n: int
) -> tuple[Floats, Floats | None, Floats | None]:
    """Return self, queueing and blocked time of threads by row; the last two ``None`` if not measured."""
    total, wait, blocked = np.zeros(n), np.zeros(n), np.zeros(n)
    measured = True
    for _, thread, rows in selected.threads:
        profile = thread.profile
        if not len(profile) or not wanted(thread):
            continue
        total += np.bincount(rows, profile.tottime + _tracing(thread), n)
        if profile.wait is None or profile.blocked is None:
            measured = False
            continue
        wait += np.bincount(rows, profile.wait, n)
        blocked += np.bincount(rows, profile.blocked, n)
    return total, wait if measured else None, blocked if measured else None


def _added(
    selected: Selected,
    wanted: Callable[[Process, Thread], bool],
    seconds: Callable[[Thread], Floats],
    shape: tuple[int, ...],
) -> Floats:
    """Sum `seconds` of each wanted thread by row of the result (its last axis)."""
    result = np.zeros(shape)
    for process, thread, rows in selected.threads:
        if wanted(process, thread):
            np.add.at(result.T, rows, seconds(thread).T)
    return result


def _of_native_threads(selected: Selected, chosen: Process, n: int) -> Floats:
    """Return CPU time of threads without functions (BLAS, OpenMP) in helper processes, by their functions."""
    result = np.zeros(n)
    for process in selected.processes:
        native_s = _native_s(process, "run_s")
        if process is chosen or not native_s:
            continue
        ran = np.zeros(n)
        for owner, thread, rows in selected.threads:
            if owner is process and len(thread.profile):
                ran += np.bincount(rows, _ran(thread.profile), n)
        result += _spread(native_s, ran)
    return result


def _native_s(process: Process, counter: str) -> float:
    """Return the sum of a counter over the threads without functions."""
    native = (getattr(thread, counter) for thread in process.threads if not len(thread.profile))
    return known_sum(native) or 0.0


def _ran(profile: Profile) -> Floats:
    """Return CPU time by function, as far as its waiting was measured."""
    ran = profile.tottime
    for off in (profile.wait, profile.blocked):
        if off is not None:
            ran = np.maximum(ran - off, 0.0)
    return ran


def _tracing(thread: Thread) -> Floats:
    """Return the tracing time, which no function includes, spread over functions by CPU time."""
    return _spread(thread.tracer_s or 0.0, _ran(thread.profile))


def compose(reading: PathReading, waits: Bools, ranks: Bools, reads: Bools) -> Composition:
    """Return how the wall of one run is made up; the masks are waits by design, for ranks, and by reading."""
    if reading.counters is None:
        return _composed_plainly(reading, waits, ranks)
    life_s, run_s, queue_s = reading.counters
    off_s = max(0.0, life_s - run_s - queue_s)
    if not len(reading.own):
        return _composed_of_counters(reading, life_s, run_s, off_s)
    busy, off = _busy_and_off(reading, waits, run_s, queue_s, off_s)
    # The profiler's clock and the kernel's differ slightly; neither time may exceed the kernel's count.
    busy = _at_most(busy, run_s)
    off = _at_most(off, off_s)
    of_ranks = np.where(ranks, busy + off, 0.0)
    imbalance = float(of_ranks.sum())
    busy, off = np.where(ranks, 0.0, busy), np.where(ranks, 0.0, off)
    off_by = _known_waits(reading.own_waits, off)
    # The holder of the interpreter's lock may run meanwhile, but not for this thread.
    gil = off_by[pause_seconds.GIL].copy()
    off_by[pause_seconds.GIL] = 0.0
    off = off - gil
    collected = np.zeros(len(busy)) if reading.collected is None else np.minimum(reading.collected, busy)
    busy = busy - collected
    own_run = float(busy.sum())
    waiting = float(off.sum())
    # Helpers that were stopped or read a file kept the path's thread waiting; helpers that wait by design did
    # not.
    stood = np.where(waits | ranks, 0.0, reading.helpers_blocked)
    stood_by = _known_waits(reading.helpers_waits, stood)
    # A helper that waits for another helper is covered by that helper's time.
    stood = stood - stood_by[_FOR_OTHERS].sum(axis=0)
    stood_by[_FOR_OTHERS] = 0.0
    active = reading.helpers_run_s + reading.helpers_queue_s + float(stood.sum())
    part = _part(waiting, active)
    spun = part - _native_part(reading, part, waiting - float(off_by[pause_seconds.NOT_FOR_THREADS].sum()))
    covered = part * active - spun * (reading.native_run_s + reading.native_queue_s)
    helping = _helpers(reading, off, part, ranks, spun * reading.native_run_s)
    imports = np.zeros(len(helping))
    if reading.helpers_imports is not None:
        imports = np.minimum(part * reading.helpers_imports, helping)
    run = busy + helping - imports
    left = _spread(waiting - covered, off)
    remaining = float(left.sum())
    loading = min(remaining, max(0.0, reading.delivery_s - covered))
    delivering = _spread(loading, left)
    kept = (waiting - covered - loading) / waiting if waiting > 0 else 0.0
    off_by = kept * off_by + part * stood_by
    gil += off_by[pause_seconds.GIL]
    off_by[pause_seconds.GIL] = 0.0
    left = left - delivering + part * (stood - stood_by[pause_seconds.GIL])
    # Reading a file also computes (decoding, copying), so only polling is not work.
    polls = waits & ~reads
    polling = np.where(polls, run, 0.0)
    run = np.where(polls, 0.0, run)
    helpers_queue = part * reading.helpers_queue_s - spun * reading.native_queue_s
    # All time in functions; the rest of the wall is `startup_s`.
    known = (
        own_run
        + float(collected.sum())
        + imbalance
        + waiting
        + float(gil.sum() - part * stood_by[pause_seconds.GIL].sum())
    )
    startup = reading.wall_s - queue_s - known
    own_wait = reading.own_wait if reading.own_wait is not None else np.zeros(len(run))
    return _within_wall(
        reading.wall_s,
        startup_s=startup,
        imports=imports,
        run=run,
        own_run_s=own_run,
        queue_s=queue_s + helpers_queue,
        helpers_queue_s=helpers_queue,
        loading_s=loading,
        imbalance_s=imbalance,
        blocked=left,
        waits=polling,
        queued=_at_most(own_wait, queue_s) + part * _at_most(reading.helpers_wait, reading.helpers_queue_s),
        delivering=delivering,
        waiting_for_ranks=of_ranks,
        counters=True,
        **(
            {"gil": gil, "collected": collected, "held": reading.held, "off_by": off_by}
            if reading.own_waits is not None
            else {}
        ),
    )


def _known_waits(by_kind: Floats | None, off: Floats) -> Floats:
    """Limit the known waiting of each function, by kind, to its time off the CPU."""
    if by_kind is None:
        return np.zeros((len(WAITS), len(off)))
    seen = by_kind.sum(axis=0)
    part = np.divide(np.minimum(off, seen), seen, out=np.zeros(len(off)), where=seen > 0)
    result: Floats = by_kind * part
    return result


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
    # A plain profile with counters: time off the CPU goes to functions that wait by design; the rest of those
    # spins.
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


def _spread(seconds: float, over: Floats) -> Floats:
    """Divide seconds among functions in proportion to their times, if any of these is known."""
    whole = float(over.sum())
    return over * (seconds / whole) if whole > 0 else np.zeros(len(over))


def _at_most(values: Floats, whole: float) -> Floats:
    total = float(values.sum())
    return values * (whole / total) if total > whole else values


def _helpers(reading: PathReading, off: Floats, part: float, ranks: Bools, spun_s: float) -> Floats:
    """Return CPU time of helpers on the path, by function.

    Their CPU time outside known functions (a library's threads) goes to the functions that waited for it.
    """
    known = _at_most(np.where(ranks, 0.0, reading.helpers), reading.helpers_run_s)
    rest = max(0.0, reading.helpers_run_s - float(known.sum()))
    return part * known + _spread(max(0.0, part * rest - spun_s), off)


def _composed_plainly(reading: PathReading, waits: Bools, ranks: Bools) -> Composition:
    """Compose without counters: self times of one thread, waiting only in functions that wait by design."""
    of_ranks = np.where(ranks, reading.own, 0.0)
    imbalance = float(of_ranks.sum())
    own = np.where(ranks, 0.0, reading.own)
    run, off = np.where(waits, 0.0, own), np.where(waits, own, 0.0)
    waiting = float(off.sum())
    loading = min(waiting, reading.delivery_s)
    delivering = _spread(loading, off)
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
