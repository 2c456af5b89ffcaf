"""What the rest of the agent knows of a tracer.

`Tracer` itself sees nothing: it is that of a process of which no functions are recorded. `native` has those that do.
"""

from __future__ import annotations

import _lsprof
import sys

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

#: What the names of the agent's files begin with (see `loader`): its own functions are not the target's.
HERE = sys._getframe().f_code.co_filename.rpartition("tracer")[0]

#: Whether every thread needs, and gets, its own collector.
PER_THREAD = sys.version_info < (3, 12)

#: Whether this is a build without the GIL, of which stacks are sampled and no calls traced.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")

#: The type of cProfile's collector, before the target can see ours.
Collector: Any = _lsprof.Profiler


class Tracer:
    """What traces one process; this one sees nothing."""

    #: What a record says of how it was made.
    kind = "none"

    def start(self) -> None:
        """Begin with the calling thread."""

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        """Have the threads that `threading` starts begin with our hook, up to Python 3.11; `again` replaces one.
        Called when the target has imported it, before it can start a thread: to import it for every process would
        cost those of milliseconds half of what a capture adds, and the main thread is the one that imports it.
        """

    def pause(self) -> None:
        """The target starts a profiler of its own in this thread: make room."""

    def resume(self) -> None:
        """The target's own profiler is off."""

    def finish(self) -> None:
        """Close the open calls of the calling thread, with exact times, and stop following it."""

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0) -> None:
        """Begin to trace threads, the kernel's number of each by its ident, in the middle of what they do.
        What is traced from `warm` on is forgotten when it is opened with `fresh`. `behind` are the frames of the
        calling thread behind the agent's own that are not the target's.
        """

    def close(self) -> None:
        """Stop tracing all threads, from any of them, until `open`; open calls are closed."""

    def leave(self) -> None:
        """Stop following threads that continue after what was to be traced, from any thread; `finish` comes first."""

    def sees(self) -> bool:
        """Whether a call of this thread would be noticed at once."""
        return False

    def displaced(self) -> bool:
        """Whether something else now receives events, or nothing."""
        return False

    def stats(self) -> List[Tuple[str, Tuple[Any, ...]]]:
        """Return the name of each thread, and what the collector says of it where no file has its table."""
        return []


def thread_name(ident: int) -> str:
    """Name that `threading` has for a thread, without creating anything; empty where it has none."""
    module = sys.modules.get("threading")
    thread: Any = getattr(module, "_active", {}).get(ident)
    try:
        # Not by `getattr`: it would be what calls the property, and only what the agent itself calls is left out.
        return str(thread.name)
    except AttributeError:
        return ""
