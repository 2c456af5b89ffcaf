"""What functions waited for off the CPU, and garbage collection time in them, as arrays over rows."""

from __future__ import annotations

import numpy as np

from profkit.model import Thread
from profkit.model.arrays import Floats
from profkit.model.pauses import COLLECTIONS, HELD, WAITS

#: Row of the interpreter's lock in the result of `waited`.
GIL = WAITS.index("gil")


def waited(thread: Thread) -> Floats:
    """Return off-CPU seconds of functions by kind as sampled, at most as traced; shape (len(WAITS), n)."""
    profile = thread.profile
    found = np.zeros((len(WAITS), len(profile)))
    for pause in thread.pauses or ():
        if pause.what in WAITS:
            found[WAITS.index(pause.what), pause.function] += pause.seconds
    if profile.blocked is None:
        return found * 0.0
    seen = found.sum(axis=0)
    blocked = np.maximum(profile.blocked, 0.0)
    scale = np.divide(blocked, seen, out=np.ones(len(profile)), where=seen > blocked)
    result: Floats = found * scale
    return result


def collected(thread: Thread) -> Floats:
    """Return the seconds of garbage collection by function; shape (n,)."""
    return _seconds(thread, COLLECTIONS)


def held(thread: Thread) -> Floats:
    """Return the seconds that other threads waited for the lock while each function held it; shape (n,)."""
    return _seconds(thread, (HELD,))


def _seconds(thread: Thread, kinds: tuple[str, ...]) -> Floats:
    found = np.zeros(len(thread.profile))
    for pause in thread.pauses or ():
        if pause.what in kinds:
            found[pause.function] += pause.seconds
    return found
