"""Functions of a thread as stacks with self times, and what formats of stacks cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from profkit.model import Paths, Profile, Run, Thread
from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.estimates import estimates_of

#: Frames above a function, for the parts of its self time in which it did not run.
QUEUED, OFF_CPU = "[queued for a CPU]", "[off the CPU]"
#: Calls too short to have a stack of their own.
SHORT = "[short calls]"


@dataclass(frozen=True, slots=True, eq=False)
class Contexts:
    """Calling contexts of a thread, callers first; columns of shape (n,).

    `parent` is the caller's row, −1 for none; `function` the row in the profile, −1 for `SHORT`. `calls` are
    NaN where not exact. Times are seconds; `queued` and `off_cpu` are parts of `tottime`, 0 where not
    measured.
    """

    parent: Ints
    function: Ints
    calls: Floats
    tottime: Floats
    queued: Floats
    off_cpu: Floats

    def __len__(self) -> int:
        return len(self.parent)

    def stacks(self) -> list[tuple[int, ...]]:
        """Return the functions of each context, outermost first."""
        found: list[tuple[int, ...]] = []
        for parent, row in zip(self.parent.tolist(), self.function.tolist(), strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), row))
        return found

    def parts(self, at: int) -> Iterator[tuple[str, float]]:
        """Yield the parts of a row's self time: frame above the function (empty for running) and seconds."""
        left = float(self.tottime[at])
        for column, why in ((self.queued, QUEUED), (self.off_cpu, OFF_CPU)):
            part = float(column[at])
            if part > 0:
                yield why, part
                left -= part
        if left > 0:
            yield "", left


def contexts_of(thread: Thread) -> Contexts:
    """Return a thread's calling contexts, or its functions without callers if none were kept."""
    profile, paths = thread.profile, thread.paths
    exact = exact_calls(profile)
    values: Profile | Paths = profile if paths is None else paths
    if paths is None:
        function = np.arange(len(profile))
        parent, known = np.full(len(profile), -1), exact
    else:
        parent, function = paths.parent.astype(np.int64), paths.function.astype(np.int64)
        known = np.append(exact, exact.all())[function]
    queued = _part(values.wait, values.tottime)
    off_cpu = _part(values.blocked, values.tottime - queued)
    calls = np.where(known, values.ncalls, np.nan)
    return Contexts(parent, function, calls, values.tottime, queued, off_cpu)


def _part(column: Floats | None, most: Floats) -> Floats:
    return np.zeros(len(most)) if column is None else np.minimum(np.nan_to_num(column), most)


def exact_calls(profile: Profile) -> Bools:
    """Return which functions have an exact number of calls."""
    limits = estimates_of(profile)
    exact: Bools = limits["calls_low"] == limits["calls_high"]
    return exact


def place_of(profile: Profile, row: int) -> tuple[str, str, int]:
    """Return name, file and first line of a function; without a file, an empty one and 0. −1 is `SHORT`."""
    if row < 0:
        return SHORT, "", 0
    name, file, line = profile.function(row)
    return name, "" if file == "~" else file, line


def not_held(run: Run, *, calls: bool = False, stacks: bool = False, waiting: bool = False) -> Iterator[str]:
    """Yield what of a run is lost in a file of sums or stacks; the arguments say what the format holds."""
    unsure = sum(int((~exact_calls(profile)).sum()) for profile in run.profiles)
    if calls and unsure:
        yield f"calls of {unsure:,} functions, which are estimated or not known (see --to csv)"
    sampled = sum(int((estimates_of(profile)["tottime_error"] > 0).sum()) for profile in run.profiles)
    if sampled:
        yield f"the error of the self times of {sampled:,} functions, estimated from samples (see --to csv)"
    flat = any(thread.paths is None and len(thread.profile) for _, thread in run.threads)
    if stacks and flat:
        yield "who called whom: only sums are known, not stacks (see --to callgrind)"
    if not waiting and any(profile.wait is not None for profile in run.profiles):
        yield "how long functions queued for a CPU or were off-CPU (see --to pprof)"
    if any(process.ranges is not None and len(process.ranges) for process in run.processes):
        yield "NVTX ranges (see --to perfetto)"
