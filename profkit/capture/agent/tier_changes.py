"""The tier of one process: all calls are traced, or its stacks are sampled. The native tracer decides (``tiers.h``).

It does so in a thread of its own, which calls back here to change. `os.fork` warns of threads from Python 3.12 on:
the thread ends before a fork and begins again after it.
"""

from __future__ import annotations

import os
from time import perf_counter

from . import native
from .tracer import FREE_THREADED

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, List, Set

    from .tracer import Tracer

_os_symlink = os.symlink

#: Seconds in which a process starts: it imports what it is made of.
_START = 1.0

#: Whether the thread is stopped for forks: what is called at a fork makes it slower.
_stopped_for_forks: List[bool] = []


class Tiers:
    """Follows the native tracer in what it wants of one process, whose main thread has the ident `main`.
    `module` is what `native.load` has returned, with mapped tables; `tracer` traces all calls, and `may_change` says
    whether that may begin or end now. `mark` is where to leave a link if the process is sampled as it starts, empty
    for nowhere: a file would take a descriptor.
    """

    def __init__(
        self, module: Any, tracer: Tracer, main: int, may_change: Callable[[], bool], mark: str = ""
    ) -> None:
        self._module = module
        self._tracer = tracer
        self._main = main
        self._may_change = may_change
        self._mark, self._begun = mark, perf_counter()
        self._seen: List[int] = []
        self.watching = False
        self.sampled = FREE_THREADED
        self.failed = ""

    def watch(self, sampled: bool) -> bool:
        """Begin to change as the tracer wants, to samples at once if `sampled`; return whether stacks can be read."""
        self.watching = bool(self._module.watch(self._change))
        if self.watching:
            if not _stopped_for_forks and hasattr(os, "register_at_fork"):
                _stopped_for_forks.append(True)
                os.register_at_fork(
                    before=self._module.pause_watching, after_in_parent=self._module.watch_again
                )
            if sampled:
                self._module.want_samples(True)
        return self.watching

    def _change(self) -> None:
        """Trace all calls from now on, or none; called by the tracer's thread."""
        if not self._may_change():
            return
        try:
            if self._module.wants_samples():
                self._tracer.close()
                self.sampled = bool(self._module.sample(True))
                self._leave_mark()
            else:
                self.sampled = not self._module.sample(False)
            if not self.sampled:
                self._tracer.open(native.threads_to_trace(self._main), False, False)
        except Exception as error:
            self.failed = repr(error)

    def _leave_mark(self) -> None:
        mark, self._mark = self._mark, ""
        if mark and perf_counter() - self._begun < _START:
            try:
                _os_symlink("sampled", mark)
            except OSError:
                pass  # another process was faster, or the spool is out of reach

    def threads(self) -> Set[int]:
        """Return the numbers that the tracer's threads have had."""
        numbers = self._module.watching_threads() if self.watching else ()
        self._seen.extend(number for number in numbers if number and number not in self._seen)
        return set(self._seen)

    def stop(self) -> None:
        """Put what was sampled into the tables, and change no more."""
        if self.watching:
            self.threads()
            self._module.stop_watching()
            self.watching = False
