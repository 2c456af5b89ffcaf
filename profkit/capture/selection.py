"""What part of a run to capture: a window of time, some ranks, or counters alone."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from profkit.capture.agent import process_facts, settings
from profkit.errors import UsageError

WindowKind: TypeAlias = Literal["", "time", "range", "steps", "code"]


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a run is captured.

    `delay_s` and `duration_s` (``None`` to the end) are a window by the clock, from the target's start.
    `capture_range` is the NVTX range ``NAME[@DOMAIN]`` that opens and closes windows. `active` is the number
    of steps in a window, after `wait` steps without capture and `warmup` steps that are traced and discarded;
    a step is the range `step_range`, or begins with a call of `profkit.step` if that is empty. After `cycles`
    windows none is opened, 0 for no limit. `start_paused`: the program opens windows with `profkit.start` or
    `profkit.window`. `ranks` selects whose functions are captured, as ``0,4-7``. `counters_only`: no
    functions, and nothing is put into the target.
    """

    delay_s: float = 0.0
    duration_s: float | None = None
    capture_range: str = ""
    active: int = 0
    wait: int = 0
    warmup: int = 0
    step_range: str = ""
    cycles: int = 0
    start_paused: bool = False
    ranks: str = ""
    counters_only: bool = False

    @property
    def _opening(self) -> list[tuple[WindowKind, str]]:
        """Return what opens the windows, with its option."""
        asked: tuple[tuple[WindowKind, str, object], ...] = (
            ("time", "--delay or --duration", self.delay_s or self.duration_s is not None),
            ("range", "--capture-range", self.capture_range),
            ("steps", "--active", self.active),
            ("code", "--start-paused", self.start_paused),
        )
        return [(kind, option) for kind, option, given in asked if given]

    @property
    def kind(self) -> WindowKind:
        """Return what opens the windows; empty if all of the run is captured."""
        return self._opening[0][0] if self._opening else ""

    def check(self) -> None:
        """Raise `UsageError` if two options open windows, or one lacks another that it needs."""
        opens = [option for _, option in self._opening]
        if len(opens) > 1:
            raise UsageError(f"{opens[0]} and {opens[1]} both say when to capture; give one of them")
        if not self.active and (self.wait or self.warmup or self.step_range):
            raise UsageError("these options need --active N, the number of steps to capture; add it")
        if self.cycles and self.kind not in ("range", "steps"):
            raise UsageError("--cycles counts windows of --capture-range or --active; add one of them")
        if self.counters_only and (opens or self.ranks):
            given = opens[0] if opens else "--ranks"
            raise UsageError(f"--counters-only captures no functions, so {given} has nothing to select")
        if self.ranks:
            try:
                settings.ranks_asked(self.ranks)
            except ValueError as error:
                problem = f"{str(error)!r} is neither a rank nor a range of ranks; an example is 0,4-7"
                raise UsageError(problem, "ranks", self.ranks) from None

    def inject(self, environment: MutableMapping[str, str], clocks: dict[str, float]) -> None:
        """Put it into the target's environment; `clocks` are ``time`` and ``monotonic`` of its start, s."""
        for name in (settings.WINDOW_VARIABLE, settings.RANKS_VARIABLE):
            environment.pop(name, None)
        words = {
            "time": (
                process_facts.boot_id(),
                repr(clocks["monotonic"]),
                repr(clocks["time"]),
                repr(self.delay_s),
                "" if self.duration_s is None else repr(self.duration_s),
            ),
            "range": (str(self.cycles), self.capture_range),
            "steps": (*map(str, (self.wait, self.warmup, self.active, self.cycles)), self.step_range),
            "code": ("",),
        }
        if self.kind:
            environment[settings.WINDOW_VARIABLE] = ":".join((self.kind, *words[self.kind]))
        if self.ranks:
            environment[settings.RANKS_VARIABLE] = self.ranks

    def as_facts(self) -> dict[str, Any]:
        waited_for = {"range": self.capture_range, "steps": self.step_range}.get(self.kind, "")
        return {
            "window": self.kind,
            "window_range": waited_for,
            "window_delay_s": self.delay_s,
            "window_duration_s": self.duration_s,
            "window_steps": self.wait + self.warmup,
            "ranks": self.ranks,
            "counters_only": self.counters_only,
        }


#: All functions of all processes, over the whole run.
EVERYTHING = Selection()
