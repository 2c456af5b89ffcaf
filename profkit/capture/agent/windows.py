"""Open, close and follow the windows of a capture in one process; `session` starts and stops tracing.

One process opens a window; the others' agents wait at a page shared by all processes of a machine
(`native/tracer/windows.c`). Windows by the clock need no page.
"""

from __future__ import annotations

import os
from time import monotonic
from time import time as wall_time

from . import process_facts, settings

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Tuple

#: Phases: nothing is traced; functions are traced and then discarded; functions are traced.
OFF, WARM, ON = range(3)

#: Seconds that the agent sleeps if no change by the clock is due.
_LONG = 3600.0

#: Bytes kept of a window's name.
_NAME_BYTES = 100


class Windows:
    """The windows of one capture, as one process sees them.

    `asked` is `settings.WINDOW_VARIABLE`, empty for the whole run; `changed` is called when the phase may
    have changed.
    """

    def __init__(self, spool: str, asked: str, native: Any, changed: Callable[[], None]) -> None:
        self._spool = spool
        # Made here: while tracing, only direct calls of the agent are taken out of the run.
        self._bell_path = os.path.join(spool, settings.SAMPLER_BELL)
        self._native = native
        self._changed = changed
        self._own = (0, 0)  # number of the window that this process opened, and its pid
        self._mapped = False
        self.kind, words = settings.window_asked(asked)
        self._times = _Times(words) if self.kind == "time" else None
        self._cycles = 0
        self._schedule: Optional[_Schedule] = None
        self._range = ""
        self._last = ""  # the name of the last window
        if self.kind == "range":
            self._cycles, self._range = int(words[0]), words[1]
        elif self.kind == "steps":
            wait, warmup, active, cycles, self._range = words
            self._schedule = _Schedule(int(wait), int(warmup), int(active), int(cycles))

    @property
    def possible(self) -> bool:
        """Whether this process can follow windows, for which it maps their page."""
        if not self._mapped and self._native is not None:
            name = (process_facts.boot_id() or "unknown") + settings.WINDOWS_SUFFIX
            self._mapped = bool(self._native.windows_map(os.path.join(self._spool, name)))
        return self._mapped

    def begin(self) -> None:
        """Begin to follow windows; called once, before the process is traced."""
        if self._range:
            name, domain = settings.range_asked(self._range)
            # Every range is a step; a window lasts as long as the range that opened it, whatever others do.
            self._native.serve_ranges(name, domain, self._schedule is not None, self.range_event)
        elif self._schedule is not None and self._schedule.phase(0) != OFF:
            self._open(self._schedule.name(0), 1, self._schedule.phase(0))

    def forked(self) -> None:
        """Leave the open window to the parent, in a forked child."""
        self._own = (0, 0)

    def phase(self) -> int:
        if self._times is not None:
            return self._times.phase()
        found: int = self._native.window_state()[0]
        return found

    def until(self) -> float:
        """Return the seconds until the clock changes the phase."""
        return _LONG if self._times is None else self._times.until()

    def heard(self) -> None:
        """Handle a range event that was reported where no Python code could run."""
        began = self._native.range_reported()
        if began is not None:
            self.range_event(began)

    def leave(self) -> None:
        """Close this process's window, when the process ends."""
        self._close(self._own[0])

    # What opens and closes them

    def range_event(self, begins: bool) -> None:
        """Handle the start or end of the requested range in the calling thread."""
        if self._schedule is None:
            if begins:
                self._open(settings.range_asked(self._range)[0], self._cycles, ON)
            else:
                self._close(self._own[0])
            return
        steps = self._native.window_steps(0 if begins else 1)
        if steps >= 0 and (begins or self._schedule.phase(steps) == OFF):
            self._go_to(steps)

    def step(self) -> None:
        """Count one step of the program."""
        if self._schedule is not None and not self._range:
            steps = self._native.window_steps(1)
            if steps >= 0:
                self._go_to(steps)

    def start(self, name: str) -> None:
        """Open a window for the program."""
        if self.kind == "code":
            self._open(name, 0, ON)

    def stop(self) -> None:
        """Close the program's window."""
        if self.kind == "code":
            self._close(self._own[0])

    def enter(self, name: str) -> Tuple[bool, int]:
        """Begin a named part of the program, a window if none is open; return the argument of `exit`."""
        if self.kind == "code":
            number = self._open(name, 0, ON)
            if number:
                return True, number
        return False, self._native.name_begins(name) if self.possible else 0

    def exit(self, entered: Tuple[bool, int]) -> None:
        """End a named part of the program."""
        window, number = entered
        if window:
            self._close(number)
        elif number:
            self._native.name_ends(number)

    # How

    def _go_to(self, steps: int) -> None:
        assert self._schedule is not None
        before, phase, name = self.phase(), self._schedule.phase(steps), self._schedule.name(steps)
        if phase == before and (phase != ON or name == self._last):
            return
        if phase == OFF or before == ON:
            self._close_any()
        if phase != OFF:
            self._open(name, 0, phase)

    def _open(self, name: str, most: int, phase: int) -> int:
        data = name.replace("\0", "").encode("utf-8", "replace")[:_NAME_BYTES]
        number: int = self._native.window_open(data.decode("utf-8", "ignore"), most, phase)
        if number:
            self._own, self._last = (number, os.getpid()), name
        self._changed()
        if number:
            self._native.window_began(number)
            self._tell_sampler()
        return number

    def _close(self, number: int) -> None:
        if number and self._own == (number, os.getpid()) and self._native.window_state()[1] == number:
            self._own = (0, 0)
            self._close_any()

    def _close_any(self) -> None:
        self._native.window_close()
        self._changed()
        self._tell_sampler()

    def _tell_sampler(self) -> None:
        """Have the launcher's sampler read its counters now, for the window."""
        try:
            fd = os.open(self._bell_path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(fd, b"\n")
            finally:
                os.close(fd)
        except OSError:
            pass  # the sampler is on another machine, or gone


class _Times:
    """A window by the clock; the wall clock on other machines than the launcher's."""

    def __init__(self, words: Tuple[str, ...]) -> None:
        boot, begin, begin_wall, delay, duration = words
        if boot == process_facts.boot_id():
            self._clock, start = monotonic, float(begin)
        else:
            self._clock, start = wall_time, float(begin_wall)
        self._begin = start + float(delay)
        self._end = self._begin + float(duration) if duration else float("inf")

    def phase(self) -> int:
        return ON if self._begin <= self._clock() < self._end else OFF

    def until(self) -> float:
        now = self._clock()
        for moment in (self._begin, self._end):
            if now < moment < float("inf"):
                return min(moment - now, _LONG)
        return _LONG


class _Schedule:
    """Steps, counted like `torch.profiler.schedule`."""

    def __init__(self, wait: int, warmup: int, active: int, cycles: int) -> None:
        self._before = wait + warmup
        self._wait, self._active, self._cycles = wait, active, cycles

    def phase(self, steps: int) -> int:
        """Return the phase of the step that follows `steps` steps."""
        cycle, at = divmod(steps, self._before + self._active)
        if self._cycles and cycle >= self._cycles:
            return OFF
        return OFF if at < self._wait else WARM if at < self._before else ON

    def name(self, steps: int) -> str:
        """Return the name of the window that contains this step."""
        period = self._before + self._active
        first = steps // period * period + self._before
        return "step %d" % first if self._active == 1 else "steps %d-%d" % (first, first + self._active - 1)


class Control:
    """The object in `sys` for `profkit.start` etc., perhaps of another profkit; its methods never raise."""

    version = 1

    def __init__(self, windows: Windows) -> None:
        self.start, self.stop, self.step = _quiet(windows.start), _quiet(windows.stop), _quiet(windows.step)
        self.enter, self.exit = _quiet(windows.enter, (False, 0)), _quiet(windows.exit)


def _quiet(function: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """Return a function that returns `otherwise` if `function` raises."""

    def call(*words: Any) -> Any:
        try:
            return function(*words)
        except Exception:
            return otherwise

    return call
