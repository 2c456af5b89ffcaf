"""What functions were off the CPU for, and how long the garbage collector ran in them, as arrays over rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.model import Thread
from profkit.model.pauses import COLLECTIONS, HELD, WAITS

Floats: TypeAlias = npt.NDArray[np.float64]

#: Row of the interpreter's lock in what `waited` returns.
GIL = WAITS.index("gil")


def waited(thread: Thread) -> Floats:
    """Return what functions were off the CPU for by kind, shape (len(WAITS), n), seconds.

    The sum is what samples have seen, at most what the tracer measured off the CPU.
    """
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
    """Return the seconds of the garbage collector by function; shape (n,)."""
    return _seconds(thread, COLLECTIONS)


def held(thread: Thread) -> Floats:
    """Return the seconds that other threads waited for the interpreter's lock while a function had it; shape (n,)."""
    return _seconds(thread, (HELD,))


def _seconds(thread: Thread, kinds: tuple[str, ...]) -> Floats:
    found = np.zeros(len(thread.profile))
    for pause in thread.pauses or ():
        if pause.what in kinds:
            found[pause.function] += pause.seconds
    return found
