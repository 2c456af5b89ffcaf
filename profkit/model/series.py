"""What was counted again and again while a run lasted: machine-wide columns, and every thread's time on a CPU.

Taken from outside the target by the sampler. Times are ``CLOCK_MONOTONIC`` nanoseconds of the sampling host, the
clock of the NVTX ranges, so that both can be laid over each other. Nothing here reads files or sums anything up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from profkit.model.bounds import Ids, Moments, Readings
from profkit.model.columns import ProfileError, check_columns, check_values


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Machine-wide readings, in the order in which they were taken.

    Attributes
    ----------
    time_ns : int64 array, shape (n,)
        When each was taken.
    columns : mapping of str to float64 array, shape (n,)
        NaN where a reading failed. Cumulative since the first reading, in seconds or counts: ``busy_s``,
        ``steal_s``, ``psi_some_s`` (CPU), ``psi_io_some_s``, and of the target's cgroup ``cgroup_psi_some_s`` (CPU),
        ``throttled_s``, ``throttled_periods``, ``periods``. As they were at that moment: ``runnable`` and ``load``
        (of the machine), ``processes`` and ``threads`` (of the target), ``gpu_utilisation`` (0 to 1, mean over the
        GPUs; twice a second) and ``gpu_memory_bytes``. A column that the machine does not offer is absent.
    """

    time_ns: Moments
    columns: Mapping[str, Readings] = field(default_factory=dict)

    def validate(self) -> Series:
        """Return itself.

        Raises
        ------
        ProfileError
            A column has another length than the times or holds a number that it cannot, or the times run backwards.
        """
        check_columns(self, len(self.time_ns), "series")
        for name, column in self.columns.items():
            check_values("series", name, column, len(self.time_ns), Readings)
        if (np.diff(self.time_ns) < 0).any():
            raise ProfileError("the readings of a series run backwards in time")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class ThreadSamples:
    """The kernel's counters of one process's threads over time; rows are ordered by thread, then by time.

    Attributes
    ----------
    tid : int64 array, shape (n,)
        The system's id of the thread.
    time_ns : int64 array, shape (n,)
        When it was read.
    run_ns, wait_ns : int64 array, shape (n,)
        Time on a CPU, and time ready to run without one, since the thread began. A thread that did neither has no
        row for it; the row before a change was read just before the change.
    """

    tid: Ids
    time_ns: Moments
    run_ns: Moments
    wait_ns: Moments

    def __len__(self) -> int:
        return len(self.tid)

    def validate(self) -> ThreadSamples:
        """Return itself.

        Raises
        ------
        ProfileError
            Columns differ in length or hold a number that they cannot, or the rows are not in order.
        """
        check_columns(self, len(self), "thread samples")
        same = np.diff(self.tid) == 0
        if (np.diff(self.tid) < 0).any() or (np.diff(self.time_ns)[same] < 0).any():
            raise ProfileError("thread samples are not ordered by thread and time")
        return self
