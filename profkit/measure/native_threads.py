"""What threads without Python functions (autograd, BLAS, Polars) did while functions waited for them."""

from __future__ import annotations

import numpy as np

from profkit.measure import pause_seconds
from profkit.measure.inventory import active_seconds
from profkit.measure.waits_by_name import is_wait
from profkit.model import STDLIB, Process, Thread
from profkit.model.arrays import Floats
from profkit.model.pauses import WAITS

#: Kinds of waiting that such threads of the same process cannot end.
NOT_FOR_THREADS = [
    WAITS.index(kind) for kind in ("child", "pipe", "socket", "file", "disk", "sleep", "stopped")
]
#: Kinds that they can end; they do not take the interpreter's lock.
_FOR_THREADS = [at for at in range(len(WAITS)) if at not in (*NOT_FOR_THREADS, pause_seconds.GIL)]


def awaited_seconds(process: Process, thread: Thread) -> Floats | None:
    """Return for how long functions waited while threads of their process without functions were active.

    Which thread one waits for is not known: all their active time counts, spread over the functions that do not wait
    by design, and at most as long as these waited. Shape (n,); ``None`` where that is nothing.
    """
    _, active = active_seconds(process)
    if thread.profile.blocked is None or not thread.pauses or not active:
        return None
    profile = thread.profile
    waited: Floats = pause_seconds.waited(thread)[_FOR_THREADS].sum(axis=0)
    for row in np.flatnonzero(waited).tolist():
        if is_wait(profile.strings[int(profile.name[row])], STDLIB):
            waited[row] = 0.0
    whole = float(waited.sum())
    return waited * min(1.0, active / whole) if whole > 0 else None
