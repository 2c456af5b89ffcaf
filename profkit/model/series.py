"""What the sampler read over time from outside the target: machine-wide counters, and CPU time of threads.

Times are ``CLOCK_MONOTONIC`` nanoseconds of the sampling host, the clock of NVTX ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.bounds import Ids, Moments, Readings
from profkit.model.columns import ProfileError, check_columns, check_values


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Machine-wide readings, in time order.

    Attributes
    ----------
    time_ns : int64 array, shape (n,)
        Time of each reading.
    columns : mapping of str to float64 array, shape (n,)
        NaN where a reading failed; columns that the machine does not offer are absent. Cumulative since the
        first reading, seconds or counts: ``busy_s``, ``steal_s``, ``psi_some_s`` (CPU), ``psi_io_some_s``,
        and of the target's cgroup ``cgroup_psi_some_s`` (CPU), ``throttled_s``, ``throttled_periods``,
        ``periods``, and ``refaulted_bytes`` (see `Machine`; four times a second). Momentary: ``runnable`` and
        ``load`` (of the machine), ``processes`` and ``threads`` (of the target), ``gpu_utilisation`` (0 to 1,
        mean over the GPUs; twice a second), ``gpu_memory_bytes``, ``gpu_processes`` (of the target that use GPUs)
        and ``gpu_others`` (utilisation by other processes; every two seconds).
    """

    time_ns: Moments
    columns: Mapping[str, Readings] = field(default_factory=dict)

    def validate(self) -> Series:
        """Check the columns; return the series.

        Raises
        ------
        ProfileError
            A column has a wrong length or an impossible number, or the times run backwards.
        """
        check_columns(self, len(self.time_ns), "series")
        for name, column in self.columns.items():
            check_values("series", name, column, len(self.time_ns), Readings)
        if (np.diff(self.time_ns) < 0).any():
            raise ProfileError("the readings of a series run backwards in time")
        return self

    def known(self, name: str) -> tuple[Ints, Floats]:
        """Return the times and the values of a column's readings that did not fail; none if it is absent."""
        values = self.columns.get(name)
        if values is None:
            return self.time_ns[:0], np.zeros(0)
        there = np.isfinite(values)
        return self.time_ns[there], values[there]


@dataclass(frozen=True, slots=True, eq=False)
class ThreadSamples:
    """Kernel counters of one process's threads over time, ordered by thread, then time.

    Attributes
    ----------
    tid : int64 array, shape (n,)
        System id of the thread.
    time_ns : int64 array, shape (n,)
        Time of the reading.
    run_ns, wait_ns : int64 array, shape (n,)
        Time on a CPU, and time runnable without one, since the thread began. Readings in which neither
        changed have no row, except the last one before a change.
    """

    tid: Ids
    time_ns: Moments
    run_ns: Moments
    wait_ns: Moments

    def __len__(self) -> int:
        return len(self.tid)

    def validate(self) -> ThreadSamples:
        """Check the columns; return the samples.

        Raises
        ------
        ProfileError
            Columns differ in length or have an impossible number, or the rows are not in order.
        """
        check_columns(self, len(self), "thread samples")
        same = np.diff(self.tid) == 0
        if (np.diff(self.tid) < 0).any() or (np.diff(self.time_ns)[same] < 0).any():
            raise ProfileError("thread samples are not ordered by thread and time")
        return self

    def at(self, rows: Bools) -> ThreadSamples | None:
        """Return the samples in these rows, ``None`` without any."""
        return self._taken(rows) if rows.any() else None

    def by_thread(self) -> Iterator[ThreadSamples]:
        """Yield the samples of each thread."""
        starts = np.flatnonzero(np.diff(self.tid, prepend=self.tid[:1] - 1)).tolist()
        for start, end in pairwise([*starts, len(self)]):
            yield self._taken(slice(start, end))

    def _taken(self, rows: Bools | slice) -> ThreadSamples:
        return ThreadSamples(self.tid[rows], self.time_ns[rows], self.run_ns[rows], self.wait_ns[rows])
