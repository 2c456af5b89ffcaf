"""What kept a thread or others from running, by function.

The tracer's sampler tells waits apart by the thread's current system call (``native/tracer/waits.h``).
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
    "write",
]

#: In the order of their numbers in the tracer's tables, which start at 1.
PAUSE_KINDS: tuple[PauseKind, ...] = get_args(PauseKind)
#: Others waited for the interpreter's lock, which the function held.
HELD: PauseKind = "gil-held"
#: The whole process was stopped by a signal, with its container, or with the machine.
STOPPED: PauseKind = "stopped"
#: Garbage collections, by generation.
COLLECTIONS: tuple[PauseKind, ...] = ("gc-0", "gc-1", "gc-2")
#: What an off-CPU thread waits for.
WAITS = tuple(kind for kind in PAUSE_KINDS if kind not in (HELD, *COLLECTIONS))
#: Those that threads and processes of one program end for each other.
FOR_EACH_OTHER = ("lock", "child", "pipe", "poll")


@dataclass(frozen=True, slots=True)
class Pause:
    """Pauses of one kind in one function of a thread.

    Attributes
    ----------
    function
        Row in the thread's profile.
    what
        One of `WAITS`: seconds by samples, a division of the function's time off the CPU. `HELD`: seconds
        that other threads waited. One of `COLLECTIONS`: measured seconds.
    seconds
    count
        Number of samples or collections.
    """

    function: Count
    what: PauseKind
    seconds: Seconds
    count: Count
