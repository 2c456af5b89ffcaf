"""What threads without Python functions (autograd, BLAS, Polars) did while functions waited for them."""

from __future__ import annotations

import numpy as np

from profkit.measure import pause_seconds
from profkit.measure.waits_by_name import is_wait
from profkit.model import STDLIB, Process, Thread
from profkit.model.arrays import Floats, known_sum
from profkit.model.pauses import WAITS

#: Kinds of waiting that such a thread can end.
_FOR_THREADS = [WAITS.index(kind) for kind in ("lock", "poll", "other")]


def awaited_seconds(process: Process, thread: Thread) -> Floats | None:
    """Return for how long functions waited while threads of their process without functions were active.

    Which thread one waits for is not known: all their active time counts, spread over the functions that do not wait
    by design, and at most as long as these waited. Shape (n,); ``None`` where that is nothing.
    """
    active = native_active(process)
    if thread.profile.blocked is None or not thread.pauses or not active:
        return None
    profile = thread.profile
    waited: Floats = pause_seconds.waited(thread)[_FOR_THREADS].sum(axis=0)
    for row in np.flatnonzero(waited).tolist():
        if is_wait(profile.strings[int(profile.name[row])], STDLIB):
            waited[row] = 0.0
    whole = float(waited.sum())
    return waited * min(1.0, active / whole) if whole > 0 else None


def native_active(process: Process) -> float:
    """Return how long threads without functions ran and queued together, seconds."""
    threads = [thread for thread in process.threads if not len(thread.profile)]
    return sum(
        known_sum([getattr(t, name) for t in threads]) or 0.0 for name in ("run_s", "run_queue_wait_s")
    )
