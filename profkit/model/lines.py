"""Time of functions by source line, from samples of the thread."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Count, Seconds


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
