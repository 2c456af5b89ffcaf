"""In which lines of source the time of functions went, as looks at the thread have found it."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.model.bounds import Count, Seconds


@dataclass(frozen=True, slots=True)
class Line:
    """One line in which a function of a thread was seen.

    Attributes
    ----------
    function
        Row in the thread's profile of the function whose own time it is.
    within
        Row of the function that has the line: the same, or of a native function the one in Python that called it.
    line
        Number of the line, from 1 on.
    seconds
        That passed between the looks, on a CPU and off it.
    samples
        Looks that found the thread there.
    """

    function: Count
    within: Count
    line: Count
    seconds: Seconds
    samples: Count
