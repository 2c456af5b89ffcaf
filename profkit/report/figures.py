"""What a page draws, as values: slopes of ranks, functions, calls, stacks, a time line, who waits for whom.

Figures belong to a `Document` beside its sections. Renderers that cannot draw leave them out, which loses no
fact of the sections. Nothing here computes, or knows pixels or colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.measure.group_waits import WaitGroup

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int32]


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
class Track:
    """Ranges of one thread over time; seconds since the side's beginning, arrays of shape (n,).

    `names`: distinct names; `name`: int32, indexes them.
    `depth`: int32, the number of ranges around each.
    `left_out`: ranges that are not here because they are short.
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
    cpus: float | None = None
    runnable: Floats | None = None
    gpu: Floats | None = None
    processes_left_out: int = 0
    tracks_left_out: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PageData:
    """What a page's script draws: members of its JSON (`pagedata`), ``None`` where nothing is known.

    `calls` and `stacks` name functions by their place in `functions`; runs of `timeline` have one scale.
    """

    functions: Mapping[str, Any]
    calls: Mapping[str, Any] | None = None
    stacks: Mapping[str, Any] | None = None
    timeline: tuple[TimelineSide, ...] | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waits for whom: the groups of processes of each side, by its label."""

    sides: tuple[tuple[str, tuple[WaitGroup, ...]], ...]


Figure: TypeAlias = "Slopes | PageData | Waits"
