"""How the wall of a run, or of a side's repeats, is made up: the parts of `critical_path.compose`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from profkit.model import Effect
from profkit.model.arrays import Floats, Rows, known


def _no_functions() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """How the wall of one run, or of a side's repeats, is made up: seconds, and arrays over n functions.

    `startup_s` is outside all functions, `starts_s` the part of it in other processes. `own_run_s` is the part
    of `run` in the path's thread, `helpers_queue_s` the helpers' part of `queue_s`, `queued` its measured part
    by function. Without `counters`, queueing is in `run` and `queue_s` is 0. `delivering` and
    `waiting_for_ranks` are `loading_s` and `imbalance_s` by function; `waits` is CPU time of functions that
    poll; `imports` is CPU time of imports on the path, `own_imports_s` the part of its own thread in it;
    `off_by`, shape (len(WAITS), n), is the part of `blocked` with a known cause (`model.pauses`). `on_gpu` is
    time in functions that wait for a GPU, a part of `run` and `blocked` where ``None``.

    `gil` (waiting for the interpreter's lock) and `collected` (CPU time of garbage collection) are in
    `blocked` and `run` where ``None``. No parts of the wall are `held`, how long threads waited while a function
    held the lock, and `helpers_off_by`, shape as `off_by`, how long helpers waited for what no thread of the
    program ends. `untraced_run_s` and `untraced_blocked_s` are the path of a run without captured functions,
    else 0. `helpers_part`, a share, of all that helpers did is on the path. `capture_s` and `capture_error_s`
    (half the 95 % interval) are 0 unless `less_capture` set them.
    """

    counters: bool
    startup_s: float
    own_run_s: float
    starts_s: float = 0.0
    queue_s: float = 0.0
    helpers_queue_s: float = 0.0
    loading_s: float = 0.0
    imbalance_s: float = 0.0
    run: Floats = field(default_factory=_no_functions)
    blocked: Floats = field(default_factory=_no_functions)
    waits: Floats = field(default_factory=_no_functions)
    queued: Floats = field(default_factory=_no_functions)
    delivering: Floats = field(default_factory=_no_functions)
    waiting_for_ranks: Floats = field(default_factory=_no_functions)
    imports: Floats = field(default_factory=_no_functions)
    own_imports_s: float = 0.0
    untraced_run_s: float = 0.0
    untraced_blocked_s: float = 0.0
    helpers_part: float = 0.0
    capture_s: float = 0.0
    capture_error_s: float = 0.0
    gil: Floats | None = None
    collected: Floats | None = None
    held: Floats | None = None
    off_by: Floats | None = None
    helpers_off_by: Floats | None = None
    on_gpu: Floats | None = None

    @property
    def wall_s(self) -> float:
        """Sum of all parts."""
        arrays = float(self.run.sum() + self.blocked.sum() + self.waits.sum() + self.imports.sum())
        arrays += sum(float(part.sum()) for part in known((self.gil, self.collected, self.on_gpu)))
        untraced = self.untraced_run_s + self.untraced_blocked_s
        own = self.startup_s + self.queue_s + self.loading_s + self.imbalance_s + arrays + untraced
        return own + self.capture_s

    def without_pauses(self) -> Composition:
        """Return the same with `gil` counted in `blocked` and `collected` in `run`."""
        if self.gil is None or self.collected is None:
            return self
        return replace(
            self,
            blocked=self.blocked + self.gil,
            run=self.run + self.collected,
            gil=None,
            collected=None,
            held=None,
            off_by=None,
            helpers_off_by=None,
        )

    def without_gpu(self) -> Composition:
        """Return the same with `on_gpu` counted in `run`."""
        return self if self.on_gpu is None else replace(self, run=self.run + self.on_gpu, on_gpu=None)

    def less_capture(self, effect: Effect) -> Composition:
        """Return the same with what capture added taken out of the other parts.

        CPU time comes first, since the tracer ran in what it traced, then the waiting for it off the CPU.
        """
        whole = max(0.0, effect.seconds)
        cpu = (
            float(self.run.sum() + self.waits.sum() + self.imports.sum())
            + self.untraced_run_s
            + self.starts_s
        )
        off = float(self.blocked.sum()) + self.untraced_blocked_s
        of_cpu = min(whole, max(0.0, cpu))
        of_off = min(whole - of_cpu, max(0.0, off))
        ran = 1.0 - of_cpu / cpu if of_cpu > 0 else 1.0
        stood = 1.0 - of_off / off if of_off > 0 else 1.0
        return replace(
            self,
            startup_s=self.startup_s - (1.0 - ran) * self.starts_s - (whole - of_cpu - of_off),
            starts_s=self.starts_s * ran,
            run=self.run * ran,
            own_run_s=self.own_run_s * ran,
            waits=self.waits * ran,
            imports=self.imports * ran,
            own_imports_s=self.own_imports_s * ran,
            untraced_run_s=self.untraced_run_s * ran,
            blocked=self.blocked * stood,
            untraced_blocked_s=self.untraced_blocked_s * stood,
            capture_s=whole,
            capture_error_s=max(effect.high_s - effect.seconds, effect.seconds - effect.low_s, 0.0),
        )

    def scaled(self, factor: float) -> Composition:
        """Return the same with every part of the wall multiplied by a factor."""
        return replace(self._each(lambda value: value * factor), helpers_part=self.helpers_part)

    def taken(self, rows: Rows) -> Composition:
        """Return the same for some functions only."""
        return self._each(lambda value: value[..., rows] if isinstance(value, np.ndarray) else value)

    def _each(self, change: Callable[[Any], Any]) -> Composition:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        changed: dict[str, Any] = {
            name: value if value is None or isinstance(value, bool) else change(value)
            for name, value in values.items()
        }
        return replace(self, **changed)

    @staticmethod
    def mean(runs: Sequence[Composition]) -> Composition:
        """Return the mean of each part over runs; errors of one tracer may be alike and do not cancel."""
        values = {part.name: [getattr(run, part.name) for run in runs] for part in fields(Composition)}
        return Composition(**{name: _mean(of_runs) for name, of_runs in values.items()})


def _mean(values: Sequence[Any]) -> Any:
    if any(value is None for value in values):
        return None
    if isinstance(values[0], bool):
        return all(values)
    return np.mean(values, axis=0) if isinstance(values[0], np.ndarray) else sum(values) / len(values)
