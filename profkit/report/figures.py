"""What a page draws, as values: slopes of ranks, every function, calls, stacks, a time line, who waits for whom.

Figures hang on a `Document` beside its sections; renderers that cannot draw leave them out, and lose no fact by
it that the sections contain. Nothing here computes, and nothing knows of pixels or colours.
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

    `tone` is ``bad`` (more time) or ``good`` (less) for functions that are labelled, and empty for those that
    are only drawn; `weight` is the part (1) of the greatest change in seconds.
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
    """Ranks of the same functions on both sides; labelled ones come first, the greatest change first.

    Attributes
    ----------
    by
        What functions are ranked by.
    hidden
        Functions that moved beyond the noise and found no room for a label.
    """

    lines: tuple[Slope, ...]
    by: str
    hidden: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FunctionColumns:
    """One side's numbers for every function; rank 0 stands for a function that the side lacks.

    Numbers of calls are exact but for those that are `estimated` or `unknown`, ``None`` where none is.
    """

    rank: Ints
    ncalls: Ints
    tottime: Floats
    cumtime: Floats
    wait: Floats | None = None
    estimated: Bools | None = None
    unknown: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTable:
    """Every function of one run, or of both sides of a comparison.

    Attributes
    ----------
    names
        As reports show them.
    places, roots
        Distinct files relative to their roots (``built-in`` for none), and the root of each.
    place, line : int32 array, shape (n,)
        Index into `places`, and the line.
    marked : bool array, shape (n,)
        Moved beyond the noise.
    match, reason
        By row, only where there is something to say.
    before, after
        Baseline (``None`` for one run) and candidate.
    start
        Row where a reader begins: what moved most, functions that wait by design left out; −1 without any.
    uncounted
        Calls are not known: a side was sampled.
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
    """One side's sums of each pair: calls, and seconds with all that they called."""

    ncalls: Ints
    cumtime: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CallGraph:
    """Who calls whom: sums of pairs, by rows of the `FunctionTable` beside it, ordered by callee.

    Attributes
    ----------
    left_out
        Pairs that are not here because each took too little.
    left_out_s
        The most that any of them took, seconds.
    """

    caller: Index
    callee: Index
    after: CallColumns
    before: CallColumns | None = None
    left_out: int = 0
    left_out_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StackColumns:
    """One side's self times by context, and the parts (1) of them that were queued and off the CPU.

    Attributes
    ----------
    ncalls : float64 array, shape (n,)
    own : float64 array, shape (n,)
        Seconds.
    queued, blocked : float64 array, shape (n,)
        0 to 1.
    iterations
        By which the seconds are divided where both sides have some, else ``None``.
    """

    ncalls: Floats
    own: Floats
    queued: Floats
    blocked: Floats
    iterations: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StackGraph:
    """Calling contexts by rows of the `FunctionTable` beside it, as a tree in preorder.

    Attributes
    ----------
    depth : int32 array, shape (n,)
        A context is inside the last one before it with a lesser depth.
    row : int32 array, shape (n,)
        −1: calls that are too short to be kept apart.
    again : bool array, shape (n,)
        The function is open further out already, and is followed no further.
    measured
        Whether contexts were traced, rather than made of sums of caller and callee.
    waits
        Whether queueing and time off the CPU are known.
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
    """Ranges of one thread over time; seconds since the side's beginning.

    Attributes
    ----------
    label
        Process and thread.
    name : tuple of str
        Distinct names of the ranges.
    range_name, depth : int32 array, shape (n,)
        Of each range: index into `name`, and how many ranges are around it.
    begin_s, end_s : float64 array, shape (n,)
        Of each range.
    left_out
        Ranges that are not here because they are short.
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

    Attributes
    ----------
    running, queued : float64 array, shape (bins,)
        Threads on a CPU and threads that were ready to run without one, on average over each bin; NaN where the
        process was not there.
    functions
        What its first thread was in, slice by slice, as a track of its own; ``None`` where nobody looked.
    """

    label: str
    running: Floats
    queued: Floats
    functions: Track | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSide:
    """One run over time; bins of equal width cover it from 0 to `seconds`.

    Attributes
    ----------
    processes
        Those that ran or queued most.
    processes_left_out, tracks_left_out
        Processes without states, and threads with ranges that have no track here.
    runnable, gpu : float64 array, shape (bins,), or None
        Threads of the machine that ran or could have run; utilisation of the GPUs, 0 to 1. NaN: not known.
    cpus
        What `runnable` is measured against.
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
