"""How much the GPUs worked in a trace that has them and the CPU on one time axis, and what the CPU did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Seconds


@dataclass(frozen=True, slots=True)
class GpuIdle:
    """What the thread that gives the GPU its work did while no GPU worked.

    Attributes
    ----------
    function
        The innermost function, call or NVTX range; empty where nothing was recorded of that time.
    within
        The innermost Python function around it; empty without one.
    seconds
        For how long.
    """

    function: str
    within: str
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class GpuUse:
    """What a trace saw of the GPUs.

    Attributes
    ----------
    span_s
        From the first of their work to the last.
    busy_s
        Of that, for how long at least one of them worked: kernels, copies, memory that was set.
    idle
        What the CPU did in the rest, the longest first.
    """

    span_s: Seconds
    busy_s: Seconds
    idle: tuple[GpuIdle, ...] = ()
