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

from profkit.compare.call_table import CallSide
from profkit.compare.stack_table import StackTable
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
    """Every function of one run, or of both sides of a comparison, by row.

    `places`, `roots`: distinct files relative to their roots (``built-in`` for none), and the root of each.
    `place`, `line`: int32, shape (n,): index into `places`, and the line.
    `marked`: bool, shape (n,): moved beyond the noise.
    `match`, `reason`: by row, only where there is something to say.
    `before`: ``None`` for one run.
    `start`: row to show first: what moved most, waits by design left out; −1 for none.
    `uncounted`: a side was sampled, so calls are not known.
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
class CallGraph:
    """Who calls whom: sums of pairs, by rows of the `FunctionTable` beside it, ordered by callee.

    `left_out` pairs are absent because each took too little, at most `left_out_s` seconds.
    """

    caller: Index
    callee: Index
    after: CallSide
    before: CallSide | None = None
    left_out: int = 0
    left_out_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StackGraph:
    """Calling contexts by rows of the `FunctionTable` beside it; the last side is the run or the candidate.

    `waits`: queueing and time off the CPU are known.
    `iterations`: of each side, where both have some; its calls and seconds are divided by them.
    """

    table: StackTable
    waits: bool
    iterations: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Ranges of one thread over time; seconds since the side's beginning, arrays of shape (n,).

    `name`: distinct names; `range_name`: int32, indexes them.
    `depth`: int32, the number of ranges around each.
    `left_out`: ranges that are not here because they are short.
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
    ``None`` where not recorded.
    """

    label: str
    running: Floats
    queued: Floats
    functions: Track | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSide:
    """One run over time; bins of equal width cover it from 0 to `seconds`.

    `processes`: those that ran or queued most; `processes_left_out` counts those without states.
    `tracks_left_out`: threads with ranges that have no track here.
    `runnable`: by bin, threads of the machine that ran or could have run, out of `cpus`; NaN where not known.
    `gpu`: by bin, utilisation of the GPUs, 0 to 1; NaN where not known.
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
