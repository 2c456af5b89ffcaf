"""What kept a thread, or others, from going on, by function: what it waited for, and garbage collections.

The tracer's sampler sees what a thread waits for by the system call that it is in (``native/tracer/waits.h``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from profkit.model.bounds import Count, Seconds

PauseKind: TypeAlias = Literal[
    "gil",
    "lock",
    "child",
    "pipe",
    "socket",
    "file",
    "disk",
    "sleep",
    "poll",
    "device",
    "other",
    "gil-held",
    "gc-0",
    "gc-1",
    "gc-2",
    "stopped",
]

#: In the order of their numbers in the tracer's tables, from 1 on.
PAUSE_KINDS: tuple[PauseKind, ...] = get_args(PauseKind)
#: While others waited for the interpreter's lock, which the function had.
HELD: PauseKind = "gil-held"
#: The whole process was stopped: by a signal, with its container, or with the machine.
STOPPED: PauseKind = "stopped"
#: Collections of the garbage collector, by generation.
COLLECTIONS: tuple[PauseKind, ...] = ("gc-0", "gc-1", "gc-2")
#: What a thread that is off the CPU waits for.
WAITS = tuple(kind for kind in PAUSE_KINDS if kind not in (HELD, *COLLECTIONS))


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds of one kind in one function of a thread.

    Attributes
    ----------
    function
        Row in the thread's profile.
    what
        Of `WAITS`: the seconds were seen by samples, and say how the function's time off the CPU is divided. `HELD`:
        seconds that other threads waited. Of `COLLECTIONS`: measured.
    seconds
        Seconds.
    count
        Of samples, or of collections.
    """

    function: Count
    what: PauseKind
    seconds: Seconds
    count: Count
