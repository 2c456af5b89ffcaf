"""Where samples saw a thread: time of functions by source line, and the function of each slice of time."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Count, MomentNs, Seconds


@dataclass(frozen=True, slots=True)
class Line:
    """A source line in which a function of a thread was sampled.

    Attributes
    ----------
    function
        Row in the thread's profile of the function whose self time it is.
    within
        Row of the function that contains the line: the same, or the Python caller of a native function.
    line
        From 1.
    seconds
        Time between the samples, on and off the CPU.
    samples
        Number of samples.
    """

    function: Count
    within: Count
    line: Count
    seconds: Seconds
    samples: Count


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a thread's time, and the function in which it spent most of it.

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
