"""How much the GPUs worked in a trace, and what the CPU did while they were idle."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Seconds


@dataclass(frozen=True, slots=True)
class GpuIdle:
    """What the thread that launches GPU work did while no GPU worked, for `seconds`.

    Attributes
    ----------
    function
        Innermost function, call or NVTX range; empty where nothing was recorded.
    within
        Innermost Python function around it; empty if none.
    """

    function: str
    within: str
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPU activity in a trace.

    Attributes
    ----------
    span_s
        Seconds from the first GPU activity to the last.
    busy_s
        Seconds of the span in which at least one GPU ran a kernel, a copy or a memset.
    idle
        What the CPU did in the rest, longest first.
    """

    span_s: Seconds
    busy_s: Seconds
    idle: tuple[GpuIdle, ...] = ()
