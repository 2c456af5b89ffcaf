"""What functions waited for off the CPU, and garbage collection time in them, as arrays over rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from profkit.measure.inventory import active_seconds
from profkit.measure.waits_by_name import is_wait
from profkit.model import STDLIB, Process, Thread
from profkit.model.arrays import Floats
from profkit.model.pauses import WAITS, PauseKind

#: Fewest looks at a function whose kinds are then taken for all of its waiting.
ENOUGH_LOOKS = 10
#: Part of the seen waiting of a function from which all of it is of one kind.
ONE_KIND = 0.9
#: Row of the interpreter's lock in the result of `waited`.
GIL = WAITS.index("gil")
#: Row of locks.
LOCK = WAITS.index("lock")
#: Kinds of waiting that threads without Python functions (autograd, BLAS) of the same process cannot end.
NOT_FOR_THREADS = [
    WAITS.index(kind) for kind in ("child", "pipe", "socket", "file", "disk", "write", "sleep", "stopped")
]
#: Kinds of waiting for child processes, or for what they write.
FOR_CHILDREN = [WAITS.index(kind) for kind in ("child", "pipe", "poll")]
#: Kinds that they can end; they do not take the interpreter's lock.
_FOR_THREADS = [at for at in range(len(WAITS)) if at not in (*NOT_FOR_THREADS, GIL)]


def waited(thread: Thread) -> Floats:
    """Return off-CPU seconds of functions by kind as sampled, at most as traced; shape (len(WAITS), n).

    A function that waits by design, or for one kind only, and was seen waiting often enough, waited for the same
    all the time.
    """
    profile = thread.profile
    found = np.zeros((len(WAITS), len(profile)))
    looks = np.zeros(len(profile), np.int64)
    for pause in thread.pauses or ():
        if pause.what in WAITS:
            found[WAITS.index(pause.what), pause.function] += pause.seconds
            looks[pause.function] += pause.count
    if profile.blocked is None:
        return found * 0.0
    seen = found.sum(axis=0)
    blocked = np.maximum(profile.blocked, 0.0)
    # Most short waits end before they are seen. In a function that only waits, or that waits for one thing only, the
    # others were for the same.
    often = looks >= ENOUGH_LOOKS
    often[often] = [is_wait(profile.strings[name], STDLIB) for name in profile.name[often].tolist()]
    often |= (looks >= ENOUGH_LOOKS) & (found.max(axis=0) >= ONE_KIND * seen)
    scale = np.divide(blocked, seen, out=np.ones(len(profile)), where=(seen > blocked) | often & (seen > 0))
    result: Floats = found * scale
    return result


def awaited_seconds(process: Process, thread: Thread) -> Floats | None:
    """Return for how long functions waited while threads of their process without functions were active.

    Which thread one waits for is not known: all their active time counts, spread over the functions that do not wait
    by design, and at most as long as these waited. Shape (n,); ``None`` where that is nothing.
    """
    _, active = active_seconds(process)
    if thread.profile.blocked is None or not thread.pauses or not active:
        return None
    profile = thread.profile
    found: Floats = waited(thread)[_FOR_THREADS].sum(axis=0)
    for row in np.flatnonzero(found).tolist():
        if is_wait(profile.strings[int(profile.name[row])], STDLIB):
            found[row] = 0.0
    whole = float(found.sum())
    return found * min(1.0, active / whole) if whole > 0 else None


def awaited_of(kinds: Sequence[int], threads: Sequence[Thread]) -> float | None:
    """Return for how long threads waited for something of these kinds; ``None`` if no tracer looked."""
    if any(thread.pauses is None for thread in threads):
        return None
    return sum(float(waited(thread)[kinds].sum()) for thread in threads)


def times_seen(kind: PauseKind, processes: Iterable[Process]) -> int:
    """Return how often a thread of these processes was seen in a pause of this kind."""
    return sum(
        pause.count for p in processes for t in p.threads for pause in t.pauses or () if pause.what == kind
    )


def paused(thread: Thread, *kinds: str) -> Floats:
    """Return the seconds of pauses of these kinds by function, as seen; shape (n,)."""
    found = np.zeros(len(thread.profile))
    for pause in thread.pauses or ():
        if pause.what in kinds:
            found[pause.function] += pause.seconds
    return found
