"""In which function a thread was longest in each slice of time, as looks at the thread have found it."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Count, MomentNs, Seconds


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a thread's time.

    Attributes
    ----------
    function
        Row in the thread's profile.
    begin_ns, end_ns
        ``CLOCK_MONOTONIC`` of the host, like NVTX ranges and counters over time.
    seconds
        That the thread was seen in the function, on a CPU and off it; more than the slice is long where a wait began
        before it, as waits are counted where they are seen to go on or to end.
    """

    function: Count
    begin_ns: MomentNs
    end_ns: MomentNs
    seconds: Seconds
