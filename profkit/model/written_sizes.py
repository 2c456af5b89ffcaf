"""Calls in the source of functions that set a number of threads or processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from profkit.model.bounds import Count

#: What such a call sets: the threads of a library, or workers.
Sizes: TypeAlias = Literal[
    "torch",
    "opencv",
    "numexpr",
    "numba",
    "tensorflow",
    "threadpoolctl",
    "pool",
    "process-executor",
    "thread-executor",
    "loader",
]


@dataclass(frozen=True, slots=True)
class WrittenSize:
    """A function of the program whose source contains such a call, whether or not it was seen to be made.

    Attributes
    ----------
    function
        Row in the thread's profile.
    sets
        What it sets.
    """

    function: Count
    sets: Sizes
