"""Which part of a run this process is traced in: what the launcher was asked for, and what the program itself opens.

A window is the whole program's: one process opens it, and the agents of the others, which sleep on a page that all
processes of a machine share (`native/tracer/windows.c`), follow. Windows by the clock need no page. Here is what
opens and closes them; `session` begins and ends to trace.
"""

from __future__ import annotations

import os
from time import monotonic
from time import time as wall_time

from . import process_facts, settings

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Tuple

#: What is done: nothing; functions are traced, and thrown away when the next phase begins; functions are traced.
OFF, WARM, ON = range(3)

#: Seconds that the agent sleeps where nothing changes by the clock.
_LONG = 3600.0


class Windows:
    """The windows of one capture, as one process sees them.
    `asked` is what the launcher was asked for, as in `settings.WINDOW_VARIABLE`, empty for the whole run; `native` is
    the tracer's module, or ``None``. `changed` is called when the phase may have changed.
    """

    def __init__(self, spool: str, asked: str, native: Any, changed: Callable[[], None]) -> None:
        self._spool = spool
        # Made here: of what the agent calls while functions are traced, only direct calls are taken out of the run.
        self._bell_path = os.path.join(spool, settings.SAMPLER_BELL)
        self._native = native
        self._changed = changed
        self._own: Tuple[int, int] = (
            0,
            0,
        )  # the number of the window that this process has opened, and its pid
        self._mapped = False
        self.kind, words = settings.window_asked(asked)
        self._times = _Times(words) if self.kind == "time" else None
        self._cycles = 0
        self._schedule: Optional[_Schedule] = None
        self._range = ""
        if self.kind == "range":
            self._cycles, self._range = int(words[0]), words[1]
        elif self.kind == "steps":
            wait, warmup, active, cycles, self._range = words
            self._schedule = _Schedule(int(wait), int(warmup), int(active), int(cycles))

    @property
    def possible(self) -> bool:
        """Whether this process can follow them."""
        return self._map()

    def bell(self) -> Any:
        """Return a lock that the agent's thread sleeps on."""
        return self._native.Bell()

    def begin(self) -> None:
        """Begin to follow them; called once, before the process is traced."""
        if self._range:
            name, domain = settings.range_asked(self._range)
            self._native.serve_ranges(name, domain, self.range_event)
        elif self._schedule is not None and self._schedule.phase(0) != OFF:
            self._open(self._schedule.name(0), 1, self._schedule.phase(0))

    def forked(self) -> None:
        """In a forked child: what is open is the parent's."""
        self._own = (0, 0)

    def phase(self) -> int:
        """Return what is to be done now."""
        if self._times is not None:
            return self._times.phase()
        found: int = self._native.window_state()[0]
        return found

    def until(self) -> float:
        """Return the seconds until the phase changes by itself."""
        return _LONG if self._times is None else self._times.until()

    def heard(self) -> None:
        """See to a range that began or ended where no Python code could run."""
        began = self._native.range_reported()
        if began is not None:
            self.range_event(began)

    def leave(self) -> None:
        """Close what this process has opened: it ends."""
        self._close(self._own[0])

    # What opens and closes them

    def range_event(self, begins: bool) -> None:
        """The range that was asked for begins, or has ended, in the calling thread."""
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
        """The program has done one step."""
        if self._schedule is not None and not self._range:
            steps = self._native.window_steps(1)
            if steps >= 0:
                self._go_to(steps)

    def start(self, name: str) -> None:
        """The program opens a window."""
        if self.kind == "code":
            self._open(name, 0, ON)

    def stop(self) -> None:
        """The program closes it."""
        if self.kind == "code":
            self._close(self._own[0])

    def enter(self, name: str) -> Tuple[bool, int]:
        """A part of the program begins that has a name; return what `exit` takes.

        It is a window of its own where the program opens windows and none is open.
        """
        if self.kind == "code":
            number = self._open(name, 0, ON)
            if number:
                return True, number
        return False, self._native.name_begins(name) if self._map() else 0

    def exit(self, entered: Tuple[bool, int]) -> None:
        """That part ends."""
        window, number = entered
        if window:
            self._close(number)
        elif number:
            self._native.name_ends(number)

    # How

    def _map(self) -> bool:
        if not self._mapped and self._native is not None:
            path = os.path.join(self._spool, settings.windows_file(process_facts.boot_id()))
            self._mapped = bool(self._native.windows_map(path))
        return self._mapped

    def _go_to(self, steps: int) -> None:
        assert self._schedule is not None
        before, phase = self.phase(), self._schedule.phase(steps)
        if phase == before:
            return
        if phase == OFF or before == ON:
            self._native.window_close()
            self._changed()
            self._tell_sampler()
        if phase != OFF:
            self._open(self._schedule.name(steps), 0, phase)

    def _open(self, name: str, most: int, phase: int) -> int:
        number: int = self._native.window_open(settings.window_name(name), most, phase)
        if number:
            self._own = number, os.getpid()
        self._changed()
        if number:
            self._native.window_began(number)
            self._tell_sampler()
        return number

    def _close(self, number: int) -> None:
        if number and self._own == (number, os.getpid()) and self._native.window_state()[1] == number:
            self._own = (0, 0)
            self._native.window_close()
            self._changed()
            self._tell_sampler()

    def _tell_sampler(self) -> None:
        """Have the launcher's sampler look now: counters are those of the window, too."""
        try:
            fd = os.open(self._bell_path, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(fd, b"\n")
            finally:
                os.close(fd)
        except OSError:
            pass  # it is on another machine, or gone


class _Times:
    """A window by the clock; of another machine than the launcher's, by the time of day."""

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
    """Steps as `torch.profiler.schedule` counts them."""

    def __init__(self, wait: int, warmup: int, active: int, cycles: int) -> None:
        self._before = wait + warmup
        self._wait, self._active, self._cycles = wait, active, cycles

    def phase(self, steps: int) -> int:
        """Return what is done in the step that comes after so many."""
        cycle, at = divmod(steps, self._before + self._active)
        if self._cycles and cycle >= self._cycles:
            return OFF
        return OFF if at < self._wait else WARM if at < self._before else ON

    def name(self, steps: int) -> str:
        """Return what the window is called in which that step is."""
        period = self._before + self._active
        first = steps // period * period + self._before
        return "step %d" % first if self._active == 1 else "steps %d-%d" % (first, first + self._active - 1)


class Control:
    """What `profkit.start` and its like find in `sys`: they may be another version of profkit's.

    Nothing here raises.
    """

    version = 1

    def __init__(self, windows: Windows) -> None:
        self.start, self.stop, self.step = _quiet(windows.start), _quiet(windows.stop), _quiet(windows.step)
        self.enter, self.exit = _quiet(windows.enter, (False, 0)), _quiet(windows.exit)


def _quiet(function: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """Return a function that does the same, and gives `otherwise` where it fails."""

    def call(*words: Any) -> Any:
        try:
            return function(*words)
        except Exception:
            return otherwise

    return call
