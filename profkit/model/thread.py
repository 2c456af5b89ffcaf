"""One thread of a process: its profile, and what samples saw of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from profkit.model.bounds import Count, Id, MomentNs, Seconds, SignedSeconds
from profkit.model.paths import Paths
from profkit.model.pauses import Pause
from profkit.model.profile import Profile
from profkit.model.range_calls import RangeCalls


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that had not returned when its thread was last read.

    Attributes
    ----------
    function
        Row in the thread's profile.
    cumtime
        Seconds since it was first seen open, a lower bound.
    """

    function: Count
    cumtime: SignedSeconds


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


@dataclass(frozen=True, slots=True)
class Definition:
    """A function of the program that is in no profile of a sampled run.

    Attributes
    ----------
    beside
        Row in the thread's profile of a function of the same file.
    name
        `name_digest` of its qualified name.
    source_hash
        As in `Profile`.
    """

    beside: Count
    name: str
    source_hash: str


def name_digest(qualname: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a qualified name."""
    return hashlib.sha256(qualname.encode("utf-8", "surrogatepass")).hexdigest()[:16]


#: What a call sets that sets a number of threads or processes: the threads of a library, or workers.
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
    """A function of the program whose source contains a call of `Sizes`, whether or not it was seen to be made.

    Attributes
    ----------
    function
        Row in the thread's profile.
    sets
        What it sets.
    """

    function: Count
    sets: Sizes


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: its profile and the kernel's counters (``None``: not known).

    Attributes
    ----------
    range_calls
        Functions by NVTX range, ``None`` if no tracer received ranges.
    paths
        Calling contexts, ``None`` if no tracer kept them.
    throttled
        Rows of functions that the tracer stopped counting because they were called too often. Their later
        calls and time belong to their callers.
    tracer_s
        Seconds that tracing took by its own measurement; not part of any time in the profile.
    pauses, lines, slices
        ``None`` if no tracer sampled waits, source lines, or functions over time.
    written_sizes
        Functions of the program whose source sets a number of threads or processes.
    definitions
        Functions of this thread's files that no thread of a sampled run has.
    """

    profile: Profile
    tid: Id | None = None
    name: str = ""
    run_s: Seconds | None = None
    run_queue_wait_s: Seconds | None = None
    timeslices: Count | None = None
    open_calls: tuple[OpenCall, ...] = ()
    user_s: Seconds | None = None
    system_s: Seconds | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    range_calls: RangeCalls | None = None
    paths: Paths | None = None
    throttled: tuple[Count, ...] = ()
    tracer_s: Seconds | None = None
    pauses: tuple[Pause, ...] | None = None
    lines: tuple[Line, ...] | None = None
    slices: tuple[Slice, ...] | None = None
    written_sizes: tuple[WrittenSize, ...] = ()
    definitions: tuple[Definition, ...] = ()

    @property
    def active_s(self) -> float:
        """Seconds that it ran or queued for a CPU; an unknown one counts as 0."""
        return (self.run_s or 0.0) + (self.run_queue_wait_s or 0.0)
