"""Define the interface of tracers; `native` implements it."""

from __future__ import annotations

import _lsprof
import sys

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict

#: Prefix of the agent's file names (see `loader`): its functions are not the target's.
HERE = sys._getframe().f_code.co_filename.rpartition("tracer")[0]

#: Whether each thread has its own collector.
PER_THREAD = sys.version_info < (3, 12)

#: Whether this Python has no GIL: stacks are sampled and no calls traced.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")

#: cProfile's collector type, before ours replaces it for the target.
Collector: Any = _lsprof.Profiler


class Tracer:
    """A tracer of one process that sees nothing."""

    #: The tracer's name in records.
    kind = "none"

    def start(self) -> None:
        """Begin with the calling thread."""

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        """Have new threads of `threading` begin with our hook, up to Python 3.11; `again` replaces one.

        The target must have imported `threading`: importing it in every process would cost short ones half of
        what a capture adds.
        """

    def pause(self) -> None:
        """Make room for the target's own profiler in this thread."""

    def resume(self) -> None:
        """Continue after the target's own profiler."""

    def finish(self) -> None:
        """Close this thread's open calls with exact times, and stop following it."""

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0, most: int = -1) -> None:
        """Begin to trace threads (native id by ident) in the middle of their calls.

        What was traced since `warm` is discarded with `fresh`. `behind` counts the frames outside the agent's
        own that are not the target's. If `most` is given, this thread's other frames are left out, and calls of
        those stay open at the end.
        """

    def close(self) -> None:
        """Close open calls and stop tracing all threads until `open`, from any thread."""

    def sees(self) -> bool:
        """Whether a call of this thread would be noticed at once."""
        return False

    def displaced(self) -> bool:
        """Whether this tracer no longer receives the events."""
        return False
