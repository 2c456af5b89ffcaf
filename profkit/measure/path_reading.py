"""What is read of a run's critical path: the times of its thread, and of the helpers, by function.

The path is the main thread of the main process or of one rank; helpers are all other threads and processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from profkit.identity.lookup_columns import Looked
from profkit.measure import pause_seconds
from profkit.measure.imports import import_seconds
from profkit.measure.inventory import queued_s, ran_s
from profkit.measure.own_locks import lock_waits
from profkit.measure.selected_processes import Selected
from profkit.measure.side_facts import (
    child_programs,
    delivery_seconds,
    earlier_images,
    first_thread,
    last_images,
    lifetime,
    main_processes,
    uses_gpu,
)
from profkit.measure.waits_by_name import waits_for_ranks
from profkit.model import Effect, Process, Profile, Run, Thread
from profkit.model.arrays import Floats, Index, Rows, known_sum, spread
from profkit.model.pauses import COLLECTIONS, HELD, WAITS

#: Threads with their processes and their rows in the result.
_Threads: TypeAlias = Sequence[tuple[Process, Thread, Index]]
#: The effect of capture that traces nothing.
NO_EFFECT = Effect(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PathReading:
    """What was read of one run: seconds, and arrays over the n rows of its selected profile.

    `wall_s` is self time of the path's thread where the command's wall is unknown. `life_s`, `run_s` and
    `queue_s` are ``None`` without kernel counters; `own_wait` (queued) and `own_blocked` (off the CPU
    otherwise) are ``None`` where not traced. `helpers` is active time of the program's other threads and
    processes; `helpers_wait` and `helpers_blocked` are 0 where not measured. `native_run_s` and
    `native_queue_s` are the parts of the helpers' sums in the path's process that run no Python.
    `helpers_starts_s` is CPU time of other processes before and after their functions, as far as all calls were
    traced; `children_run_s` is that of programs which the path's process started and which were not profiled.
    `helpers_number` counts helpers. `uses_gpu`: a GPU worked during the run.

    `own_waits` and `helpers_waits`, shape (len(WAITS), n), are blocked time by cause (`model.pauses`);
    `helpers_locked` is the part of the latter in locks for which helpers that do the same work wait in turn.
    `collected` is the garbage collector's time in the path's thread; `held` is how long threads waited while
    a function held the interpreter's lock; `helpers_imports` is the part of `helpers` that imported modules
    in other processes, `own_imports` that of the path's thread, the project's own code left out.
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
    helpers_locked: Floats | None = None
    collected: Floats | None = None
    held: Floats | None = None
    helpers_imports: Floats | None = None
    own_imports: Floats | None = None
    native_run_s: float = 0.0
    native_queue_s: float = 0.0
    helpers_starts_s: float = 0.0
    children_run_s: float = 0.0
    helpers_number: int = 0
    uses_gpu: bool = False

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


def path_rank(baseline: Sequence[Process], candidate: Sequence[Process]) -> int | None:
    """Return the rank whose active time grew most, or that has most if one object is passed twice."""
    before, after = map(_useful_by_rank, (baseline, candidate))
    common = [rank for rank in after if rank is not None and rank in before]
    if len(common) < 2:
        return None
    alone = baseline is candidate

    return max(common, key=lambda rank: after[rank] - (0.0 if alone else before[rank]))


def _useful_by_rank(side: Sequence[Process]) -> dict[int | None, float]:
    """Return `_useful` of each rank, of all programs that it executed."""
    found: dict[int | None, float] = {}
    for process in main_processes(side):
        found[process.rank] = found.get(process.rank, 0.0) + _useful(process)
    return found


def _useful(process: Process) -> float:
    """Return the seconds that the first thread ran or queued, less CPU time in calls that wait for ranks."""
    thread = first_thread(process)
    if thread is None:
        return 0.0
    profile = thread.profile
    of = Looked(profile.name, profile.strings).where(waits_for_ranks)
    blocked = 0.0 if profile.blocked is None else float(profile.blocked[of].sum())
    spun = float(profile.tottime[of].sum()) - blocked
    return max(0.0, thread.active_s - spun)


def read_path(run: Run, selected: Selected, rank: int | None) -> PathReading:
    """Read the critical path of the selected part of a run, through the rank that `path_rank` chose."""
    n = len(selected.profile)
    chosen = _path_process(selected, rank)
    thread = first_thread(chosen) if chosen is not None else None
    mine = [one for one in selected.threads if one[1] is thread]
    earlier = set(map(id, earlier_images(run.processes, chosen)))  # what they did, this one did not wait for
    others = [one for one in selected.threads if one[1] is not thread and id(one[0]) not in earlier]
    own, wait, blocked = _of_threads(mine, n)
    wall = run.wall_s
    none = np.zeros(n)
    if chosen is None or thread is None:
        return PathReading(wall or 0.0, None, None, None, own, wait, blocked, none, none, none, 0.0, 0.0, 0.0)
    wall = wall or chosen.wall_s or float(own.sum())
    meanwhile = [process for process in run.processes if id(process) not in earlier]
    run_all = known_sum(map(ran_s, meanwhile)) or 0.0
    queue_all = known_sum(map(queued_s, meanwhile)) or 0.0
    helpers, helpers_wait, off = _of_threads(others, n)
    helpers_blocked, helpers_queued = none, none
    if helpers_wait is not None and off is not None:
        helpers = np.maximum(helpers - helpers_wait - off, 0.0)
        helpers_blocked, helpers_queued = off, helpers_wait
        helpers += _of_native_threads(selected, chosen, n)
    imports = None
    if any(process is not chosen for process in selected.processes):
        elsewhere = [one for one in others if one[0] is not chosen]
        imports = _added(elsewhere, import_seconds, (n,))
    own_imports = _added(mine, lambda t: import_seconds(t, chosen.roots), (n,))
    pauses: dict[str, Floats] = {}
    if thread.pauses is not None:
        kinds, rows = (len(WAITS), n), (n,)
        here = [one for one in selected.threads if one[0] is chosen]
        pauses = {
            "own_waits": _added(mine, pause_seconds.waited, kinds),
            "helpers_waits": _added([one for one in others if one[1].pauses], pause_seconds.waited, kinds),
            "helpers_locked": _locked(others, n),
            "collected": _added(mine, lambda t: pause_seconds.paused(t, *COLLECTIONS), rows),
            "held": _added(here, lambda t: pause_seconds.paused(t, HELD), rows),
        }
    return PathReading(
        wall_s=wall,
        life_s=lifetime(chosen, wall),
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
        own_imports=own_imports,
        native_run_s=_native_s(chosen, "run_s"),
        native_queue_s=_native_s(chosen, "run_queue_wait_s"),
        helpers_starts_s=sum(_outside_functions_s(process) for process in meanwhile if process is not chosen),
        children_run_s=_children_run_s(run, chosen),
        helpers_number=sum(max(1, len(process.threads)) for process in meanwhile) - 1,
        uses_gpu=uses_gpu(run),
        **pauses,
    )


def _path_process(selected: Selected, rank: int | None) -> Process | None:
    mains = last_images(main_processes(selected.processes))
    if rank is None and mains:
        rank = mains[0].rank
    # A rank may be a script of several programs.
    chosen = [p for p in mains if rank is not None and p.rank == rank] or mains[:1]
    return max(chosen, key=lambda p: p.wall_s or 0.0, default=None)


def _children_run_s(run: Run, chosen: Process) -> float:
    """Return the CPU time of programs that were not profiled and that a process, or one of them, started."""
    children, known, found = child_programs(run), {chosen.pid}, 0.0
    while started := [p for p in children if p.parent in known and p.pid not in known]:
        known |= {p.pid for p in started}
        found += known_sum(map(ran_s, started)) or 0.0
    return found


def capture_effects(run: Run, selected: Selected, rank: int | None) -> tuple[Effect, Effect] | None:
    """Return what capture added to the path's process, and in sum to the others; ``None`` if not known of the first.

    It is 0 without functions. Of the others, those count of which it is known.
    """
    process = _path_process(selected, rank)
    if process is None:
        return None
    own = process.effect
    if own is None:
        if any(len(thread.profile) for thread in process.threads):
            return None
        own = NO_EFFECT
    others = NO_EFFECT
    earlier = set(map(id, earlier_images(run.processes, process)))
    for other in run.processes:
        if other is not process and other.effect is not None and id(other) not in earlier:
            others = others.plus(other.effect)
    return own, others


def _of_threads(threads: _Threads, n: int) -> tuple[Floats, Floats | None, Floats | None]:
    """Return self, queueing and blocked time of threads by row; the last two ``None`` if not measured."""
    total, wait, blocked = np.zeros(n), np.zeros(n), np.zeros(n)
    measured = True
    for _, thread, rows in threads:
        profile = thread.profile
        if not len(profile):
            continue
        # No function includes the time of tracing.
        traced = spread(thread.tracer_s or 0.0, _ran(profile))
        total += np.bincount(rows, profile.tottime + traced, n)
        if profile.wait is None or profile.blocked is None:
            measured = False
            continue
        wait += np.bincount(rows, profile.wait, n)
        blocked += np.bincount(rows, profile.blocked, n)
    return total, wait if measured else None, blocked if measured else None


def _added(threads: _Threads, seconds: Callable[[Thread], Floats], shape: tuple[int, ...]) -> Floats:
    """Sum `seconds` of each thread by row of the result (its last axis)."""
    result = np.zeros(shape)
    for _, thread, rows in threads:
        np.add.at(result.T, rows, seconds(thread).T)
    return result


def _locked(helpers: _Threads, n: int) -> Floats:
    """Return helpers' waiting for locks of the project, each in the part that it did of what the busiest did.

    One that does nothing else waits beside the others, not in turn with them.
    """
    result = np.zeros(n)
    most = max((thread.active_s for _, thread, _ in helpers), default=0.0)
    for process, thread, rows in helpers:
        for row, _, seconds in lock_waits(process, thread) if thread.active_s > 0 else ():
            result[rows[row]] += seconds * thread.active_s / most
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
        result += spread(native_s, ran)
    return result


def _native_s(process: Process, counter: str) -> float:
    """Return the sum of a counter over the threads without functions."""
    native = (getattr(thread, counter) for thread in process.threads if not len(thread.profile))
    return known_sum(native) or 0.0


def _outside_functions_s(process: Process) -> float:
    """Return CPU time of threads outside their functions; 0 where stacks were sampled, which misses functions."""
    if not process.tiers or any(tier.kind != "exact" for tier in process.tiers):
        return 0.0
    threads = (thread for thread in process.threads if len(thread.profile) and thread.run_s is not None)
    return sum(
        max(0.0, (t.run_s or 0.0) - (t.tracer_s or 0.0) - float(_ran(t.profile).sum())) for t in threads
    )


def _ran(profile: Profile) -> Floats:
    """Return CPU time by function, as far as its waiting was measured."""
    ran = profile.tottime
    for off in (profile.wait, profile.blocked):
        if off is not None:
            ran = np.maximum(ran - off, 0.0)
    return ran
