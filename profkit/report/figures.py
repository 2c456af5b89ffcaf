"""What a page draws, without pixels or colours; the sections of a `Document` state the same facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profkit.measure.group_waits import WaitGroup
from profkit.model.arrays import Floats, Index


@dataclass(frozen=True, slots=True)
class Slope:
    """One function in both rankings; a rank is ``None`` on a side without the function.

    `tone` is ``bad`` (more time) or ``good`` (less) for labelled functions, else empty; `weight` (0 to 1) is
    relative to the greatest change in seconds.
    """

    name: str
    before: int | None
    after: int | None
    before_s: float
    after_s: float
    tone: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Slopes:
    """Ranks by `by` on both sides, greatest change first; `hidden` counts moved functions without a label."""

    lines: tuple[Slope, ...]
    by: str
    hidden: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Ranges of one thread over time: arrays of shape (n,), seconds since the side's beginning.

    `name` (int32) indexes the distinct `names`; `depth` (int32) counts the ranges around each; `left_out`
    counts ranges too short to be included.
    """

    label: str
    names: tuple[str, ...]
    name: Index
    depth: Index
    begin: Floats
    took: Floats
    left_out: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ProcessStates:
    """States of one process's threads over time.

    `running` and `queued` (float64, one per bin) are mean numbers of threads, NaN where the process did not
    exist. `functions` is the track of the first thread's functions by slice, ``None`` if not recorded.
    """

    label: str
    running: Floats
    queued: Floats
    functions: Track | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSide:
    """One run over time, in bins of equal width from 0 to `seconds`.

    `processes` holds those that ran or queued most, `processes_left_out` counts the others; `tracks_left_out`
    counts threads with ranges but without a track. By bin, NaN where not known: `runnable`, the machine's
    runnable or running threads (out of `cpus`), and `gpu`, the GPUs' utilisation (0 to 1).
    """

    label: str
    seconds: float
    tracks: tuple[Track, ...]
    processes: tuple[ProcessStates, ...] = ()
    cpus: float | None = None
    runnable: Floats | None = None
    gpu: Floats | None = None
    processes_left_out: int = 0
    tracks_left_out: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What a page draws, ``None`` or empty where there is nothing to draw.

    The first four are members of the page's JSON (`pictures`); functions are indices in `functions`. `waits` has
    the groups of processes of each side, by its label, with their waits for each other.
    """

    functions: Mapping[str, Any] | None = None
    calls: Mapping[str, Any] | None = None
    stacks: Mapping[str, Any] | None = None
    timeline: tuple[TimelineSide, ...] = ()
    slopes: Slopes | None = None
    waits: tuple[tuple[str, tuple[WaitGroup, ...]], ...] = ()
