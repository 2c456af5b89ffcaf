"""The function in which a thread spent most of each slice of time, from samples of the thread."""

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
        Time in the function, on and off the CPU. It exceeds the slice if a wait began earlier: a wait is
        counted when it is seen to continue or end.
    """

    function: Count
    begin_ns: MomentNs
    end_ns: MomentNs
    seconds: Seconds
