"""Change the tier of one process when the native tracer asks for it (``tiers.h``), from its own thread.

That thread, which also follows windows, ends before a fork and restarts after it, since `os.fork` warns of
threads from Python 3.12 on.
"""

from __future__ import annotations

import os
from time import perf_counter

from . import native, settings

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, List, Set, Tuple

_os_symlink = os.symlink

#: Seconds that count as a process's start-up, mostly imports.
_START = 1.0

#: Budget of a process that is sampled from the start.
_ALMOST_NOTHING = 1e-6

#: Whether fork hooks are registered; they make each fork slower, so only if needed.
_stopped_for_forks: List[bool] = []


def overhead_asked() -> Tuple[float, bool]:
    """Return the share of time for the tracer (0: no limit), and whether to sample at once."""
    asked = os.environ.get(settings.OVERHEAD_VARIABLE, "0")
    if asked == settings.SAMPLES_ONLY or native.FREE_THREADED:
        return _ALMOST_NOTHING, True
    try:
        share = float(asked)
    except ValueError:
        return 0.0, False  # the target has changed it
    return (share if 0.0 < share < 1.0 else 0.0), False


class Tiers:
    """Follows the tier that the native tracer wants for one process.

    `module` is the loaded tracer with mapped tables, `main` the main thread's ident; `may_change` says
    whether the tier may change now. `mark` is the path of a link that shows a process sampled at start-up, or
    empty; a file would take a descriptor.
    """

    def __init__(
        self, module: Any, tracer: native.Tracer, main: int, may_change: Callable[[], bool], mark: str = ""
    ) -> None:
        self._module = module
        self._tracer = tracer
        self._main = main
        self._may_change = may_change
        self._mark, self._begun = mark, perf_counter()
        self._seen: List[int] = []
        self.watching = False
        self.sampled = native.FREE_THREADED
        self.failed = ""

    def watch(self, sampled: bool) -> bool:
        """Follow the tracer, sampling at once if `sampled`; return whether stacks can be read."""
        self._has_begun(self._module.watch(self._change))
        if self.watching and sampled:
            self._module.want_samples()
        return self.watching

    def follow(self, follow: Callable[[], float]) -> bool:
        """Have `follow` called when windows may have changed, and as it says; return whether it will be."""
        self._has_begun(self._module.follow_windows(follow))
        return self.watching

    def _has_begun(self, began: bool) -> None:
        self.watching = bool(began)
        if self.watching and not _stopped_for_forks:
            _stopped_for_forks.append(True)
            os.register_at_fork(before=self._module.pause_watching, after_in_parent=self._module.watch_again)

    def _change(self) -> None:
        """Trace all calls from now on, or none; called by the tracer's thread."""
        if not self._may_change():
            return
        try:
            threads = native.threads_to_trace(self._main)
            # What passes between the calls of the tracer is not measured.
            if self._module.wants_samples():
                self._tracer.close()
                self.sampled = bool(self._module.sample(True))
            else:
                self.sampled = not self._module.sample(False)
            if not self.sampled:
                self._tracer.open(threads, False, False)
            else:
                self._leave_mark()
        except Exception as error:
            self.failed = repr(error)

    def _leave_mark(self) -> None:
        mark, self._mark = self._mark, ""
        if mark and perf_counter() - self._begun < _START:
            try:
                _os_symlink("sampled", mark)
            except OSError:
                pass  # another process was faster, or the spool is unreachable

    def threads(self) -> Set[int]:
        """Return the ids of all threads that the tracer has had."""
        numbers = self._module.watching_threads() if self.watching else ()
        self._seen.extend(number for number in numbers if number and number not in self._seen)
        return set(self._seen)

    def stop(self) -> None:
        """Book all samples, and stop changing tiers."""
        if self.watching:
            self.threads()
            self._module.stop_watching()
            self.watching = False
