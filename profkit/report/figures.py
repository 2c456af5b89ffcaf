"""What a page draws, as values: slopes of ranks, functions, calls, stacks, a time line, who waits for whom.

Figures belong to a `Document` beside its sections. Renderers that cannot draw leave them out, which loses no
fact of the sections. Nothing here computes, or knows pixels or colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.measure.group_waits import WaitGroup

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Slope:
    """One function between both rankings; a rank is ``None`` where that side has no such function.

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
    """Ranks by `by` of the same functions on both sides: labelled ones first, by decreasing change.

    `hidden` counts functions that moved beyond the noise and got no label for lack of room.
    """

    lines: tuple[Slope, ...]
    by: str
    hidden: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FunctionColumns:
    """One side's numbers for every function; rank 0: absent; calls not `estimated` or `unknown` are exact."""

    rank: Ints
    ncalls: Ints
    tottime: Floats
    cumtime: Floats
    wait: Floats | None = None
    estimated: Bools | None = None
    unknown: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTable:
    """Every function of one run, or of both sides of a comparison; n rows.

    `place` (int32, shape (n,)) indexes `places`, distinct files relative to their `roots` (``built-in`` for
    none); `line` is beside it. `marked` (bool, shape (n,)): moved beyond the noise. `match` and `reason` are
    by row, only where there is something to say. `before` is ``None`` for one run. `start` is the row to show
    first: what moved most, waits by design left out, −1 for none. `uncounted`: a side was sampled, so calls
    are not known.
    """

    names: tuple[str, ...]
    places: tuple[str, ...]
    roots: tuple[str, ...]
    place: Index
    line: Index
    marked: Bools
    by: str
    after: FunctionColumns
    before: FunctionColumns | None = None
    match: Mapping[int, str] = field(default_factory=dict)
    reason: Mapping[int, str] = field(default_factory=dict)
    start: int = -1
    uncounted: bool = False

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class CallColumns:
    """One side's sums of each pair: calls, and seconds including everything they called."""

    ncalls: Ints
    cumtime: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CallGraph:
    """Who calls whom: sums of pairs, by rows of the `FunctionTable` beside it, ordered by callee.

    `left_out` pairs are absent because each took too little, at most `left_out_s` seconds.
    """

    caller: Index
    callee: Index
    after: CallColumns
    before: CallColumns | None = None
    left_out: int = 0
    left_out_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StackColumns:
    """One side's calls and self times (seconds) by context: float64 arrays of shape (n,).

    `queued` and `blocked` are shares, 0 to 1, of that time. Seconds are divided by `iterations` where both
    sides have some, else ``None``.
    """

    ncalls: Floats
    own: Floats
    queued: Floats
    blocked: Floats
    iterations: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StackGraph:
    """Calling contexts by rows of the `FunctionTable` beside it, as a tree in preorder; n contexts.

    A context is inside the last one before it with a smaller `depth` (int32). `row` (int32) is −1 for calls
    too short to keep apart. `again` (bool): the function is already open further out, and is followed no
    further. `measured`: contexts were traced, not built from caller-callee sums. `waits`: queueing and time
    off the CPU are known.
    """

    depth: Index
    row: Index
    again: Bools
    after: StackColumns
    before: StackColumns | None
    measured: bool
    waits: bool


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """NVTX ranges of one thread over time, n of them; seconds since the side's beginning.

    `range_name` (int32) indexes `name`, the distinct names; `depth` (int32) counts the ranges around each.
    `left_out` ranges are absent because they are short.
    """

    label: str
    name: tuple[str, ...]
    range_name: Index
    depth: Index
    begin_s: Floats
    end_s: Floats
    left_out: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ProcessStates:
    """What the threads of one process did over time.

    `running` and `queued` (float64, one per bin) are mean numbers of threads on a CPU, and ready without one;
    NaN where the process did not exist. `functions` is the track of its first thread's functions by slice;
    ``None`` where not sampled.
    """

    label: str
    running: Floats
    queued: Floats
    functions: Track | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSide:
    """One run over time; bins of equal width cover it from 0 to `seconds`.

    `processes` are those that ran or queued most; `processes_left_out` have no states, `tracks_left_out` are
    threads with ranges but no track. `runnable` counts the machine's threads that ran or could have run,
    relative to `cpus`; `gpu` is utilisation, 0 to 1. Both have one value per bin; NaN: not known.
    """

    label: str
    seconds: float
    tracks: tuple[Track, ...]
    processes: tuple[ProcessStates, ...] = ()
    processes_left_out: int = 0
    tracks_left_out: int = 0
    runnable: Floats | None = None
    gpu: Floats | None = None
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Runs over time, under one another on the same scale."""

    sides: tuple[TimelineSide, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waits for whom: the groups of processes of each side, by its label."""

    sides: tuple[tuple[str, tuple[WaitGroup, ...]], ...]


Figure: TypeAlias = "Slopes | FunctionTable | CallGraph | StackGraph | Timeline | Waits"
