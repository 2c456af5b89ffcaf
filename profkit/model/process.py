"""One process of a run: what it was, its threads, its pools, and how it was captured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from profkit.model.bounds import EXACT, Count, Id, Rank, Seconds, SignedSeconds
from profkit.model.columns import ProfileError
from profkit.model.hardware import Host
from profkit.model.keys import Roots
from profkit.model.notices import Notice
from profkit.model.ranges import Ranges
from profkit.model.series import ThreadSamples
from profkit.model.thread import Thread

#: What set the size of a pool; see `Pool`.
PoolOrigin: TypeAlias = Literal["variable", "default", "program", ""]


@dataclass(frozen=True, slots=True)
class Pool:
    """A library's thread pool, as the library reported it.

    Attributes
    ----------
    library
        ``openblas``, ``libgomp``, ``libomp``, ``mkl``, ``blis``, ``tbb``, ``torch`` (intra-op),
        ``torch-interop``, ``opencv``, ``tensorflow`` …
    threads
        Threads used for one call, ``None`` if the library does not tell.
    origin
        What set that number: ``variable`` (see `variable`), ``default`` (one per CPU that it saw),
        ``program``, or empty if unknown.
    variable
        The environment variable that was set for this library, with its value: ``OMP_NUM_THREADS=4``. Unless
        `origin` is ``variable``, it had no effect: the program set the size, or the variable was set too
        late.
    version, file
        Of the library; the file without directories. Empty if not known.
    peak
        Most threads in an earlier reading if more than `threads`, else ``None``.
    """

    library: str
    threads: Count | None = None
    origin: PoolOrigin = ""
    variable: str = ""
    version: str = ""
    file: str = ""
    peak: Count | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """A way of capture and when it began.

    Attributes
    ----------
    kind
        ``exact``: every call was traced; ``sampled``: stacks were sampled, and calls counted in short bursts.
    begin_s
        Seconds after the process began.
    """

    kind: Literal["exact", "sampled"]
    begin_s: Seconds


@dataclass(frozen=True, slots=True)
class Effect:
    """Estimate of what capture added to the wall of a process, with its 95 % interval; seconds."""

    seconds: SignedSeconds
    low_s: SignedSeconds
    high_s: SignedSeconds

    def plus(self, other: Effect, part: float = 1.0) -> Effect:
        """Return the sum with a part of another one; errors of one tracer are alike and add up."""
        return Effect(
            self.seconds + part * other.seconds,
            self.low_s + part * other.low_s,
            self.high_s + part * other.high_s,
        )


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the run.

    Attributes
    ----------
    role
        ``main``, ``rank``, ``worker`` (started by multiprocessing or a loader) or ``child``.
    rank
        MPI or torchrun rank.
    local_rank, node
        Number of the rank on its node, and of the node in the job, from 0.
    exit
        ``exited``, ``killed`` (by a signal), ``replaced`` (by exec), ``running`` (alive when the run was
        packed), ``ended`` (gone, how is not known) or ``unknown`` (possibly alive); empty for foreign files.
    python
        ``3.11.7``, or empty.
    run_queue_wait_s
        Of all threads that the sampler saw; without it, of those alive at the last reading.
    peak_threads
        Most threads at one moment that the sampler saw.
    ranges
        NVTX ranges and marks, ``None`` if not captured.
    profiled
        False if only the sampler saw it: another language, ``-I``, a cleared environment. Its threads then
        have empty profiles.
    pools
        Thread pools of its libraries, ``None`` if not read.
    samples
        Counters of its threads over time, ``None`` without the sampler.
    peak_memory_bytes
        Peak resident memory.
    page_faults
        Minor page faults (no disk read).
    read_bytes
        Bytes read by system calls, from files, pipes and sockets.
    storage_bytes
        Bytes that storage delivered, since they were not in memory.
    notes
        Notices of its agent.
    tiers
        In time order; empty if not known.
    effect
        What capture added to its wall, ``None`` if not estimated.
    """

    pid: Id | None = None
    parent: Id | None = None
    role: str = "main"
    rank: Rank | None = None
    command: tuple[str, ...] = ()
    exit: str = ""
    python: str = ""
    wall_s: Seconds | None = None
    cpu_s: Seconds | None = None
    run_queue_wait_s: Seconds | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    threads: tuple[Thread, ...] = ()
    roots: Roots = field(default_factory=Roots)
    host: Host | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()
    ranges: Ranges | None = None
    profiled: bool = True
    pools: tuple[Pool, ...] | None = None
    samples: ThreadSamples | None = None
    peak_threads: Count | None = None
    peak_memory_bytes: Count | None = None
    page_faults: Count | None = None
    read_bytes: Count | None = None
    storage_bytes: Count | None = None
    local_rank: Rank | None = None
    node: Rank | None = None
    tiers: tuple[Tier, ...] = ()
    effect: Effect | None = None

    def with_threads(self, change: Callable[[Thread], Thread]) -> Process:
        """Return the same with each thread changed."""
        return replace(self, threads=tuple(map(change, self.threads)))


class CallSums:
    """Sums of the calls of a run's processes, which may be added in portions."""

    def __init__(self) -> None:
        self._sums: dict[tuple[type, str], float] = defaultdict(float)

    def add(self, processes: Sequence[Process]) -> None:
        """Add the calls of some processes.

        Raises
        ------
        ProfileError
            A sum exceeds `EXACT`; several such runs would overflow 64 bits.
        """
        for thread in (thread for process in processes for thread in process.threads):
            for part in (thread.profile, thread.profile.edges, thread.range_calls, thread.paths):
                for name in ("ncalls", "primitive_calls", "count"):
                    column = getattr(part, name, None)
                    if column is not None:
                        self._sums[type(part), name] += float(np.abs(column).sum(dtype=np.float64))
        if max(self._sums.values(), default=0.0) > EXACT:
            raise ProfileError("its calls add up to more than any run can make")
