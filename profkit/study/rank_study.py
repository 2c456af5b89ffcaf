"""What the comparison of a job's processes finds (`ranks.study_ranks`): stragglers, imbalance, efficiencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.model import FunctionKey, Notice
from profkit.model.arrays import Bools, Floats
from profkit.study.rank_read import Member
from profkit.study.rank_table import RangeRow

#: Kinds of stragglers whose excess is CPU time.
COMPUTING = ("work", "slower", "slower-cpu", "longer")
#: Kinds of stragglers that are off the CPU without queueing.
STANDING = ("blocked", "loading", "stopped")


@dataclass(frozen=True, slots=True)
class Deviation:
    """One function or range (domain and name) in which a process takes longer than the others.

    `value_s` and `usual_s` (the others' median): CPU time of a function (self time without counters), or a
    range's duration times the number of ranges. `calls`: ratio to the others' median, NaN if unknown and for
    ranges. `z`: excess in standard deviations.
    """

    function: FunctionKey | None
    range: tuple[str, str] | None
    value_s: float
    usual_s: float
    calls: float
    z: float
    calls_interval: tuple[float, float]

    @property
    def excess_s(self) -> float:
        return self.value_s - self.usual_s


@dataclass(frozen=True, slots=True)
class Straggler:
    """A process that the others wait for; `member` is its position in `RankStudy.members`.

    `kind`: ``work`` (it does more), ``slower`` (as many calls take more CPU time in some functions),
    ``slower-cpu`` (in all of them), ``longer`` (calls are known too coarsely to tell), ``collections`` (its
    garbage collector), ``queue`` (it lacks CPUs), ``loading`` (files, disks, sockets, pipes), ``stopped`` (by
    a signal, or with its container), or ``blocked`` (locks, sleep, or unknown).

    `wait_state`: in which the others wait for it, `wait_s` on average; empty if not seen. `unknown`: why the
    reason is unknown (`unknown_of`). `pace_s` excludes its own waiting. `run_s`, `queue_s`, `blocked_s` and
    `collects_s` (part of `run_s`) are excess over the others' median. `without_s`, `faster`: estimated time
    of the job without it, and speed-up.
    """

    member: int
    kind: str
    pace_s: float
    usual_s: float
    run_s: float
    queue_s: float
    blocked_s: float
    collects_s: float | None
    waits_s: float
    usual_waits_s: float
    deviations: tuple[Deviation, ...]
    without_s: float
    faster: float
    wait_state: str
    wait_s: float
    unknown: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A process that takes longer in one function and as much less in another: one of them waits."""

    member: int
    more: FunctionKey
    more_s: float
    less: FunctionKey
    less_s: float


@dataclass(frozen=True, slots=True)
class Imbalance:
    """How evenly the CPU time of a function (a column of `RankStudy.work`) is spread.

    `member` has the greatest time, `most_s`. `order`: least and greatest rank of the function in any process;
    rank 1 has the most time.
    """

    column: int
    mean_s: float
    most_s: float
    member: int
    factor: float
    order: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Rank of a function in one process and in the medians; rank 1 has the most time."""

    function: FunctionKey
    place: int
    usual: int
    excess_s: float


@dataclass(frozen=True, slots=True)
class Reordered:
    """A process that spends its time in other functions than usual; `places` are those whose rank differs."""

    member: int
    elsewhere: float
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RankStudy:
    """The result for one job; `work` and `outlying` are members × functions, lists have the greatest first.

    `work`: CPU time in seconds, self time without counters; `usual`: its median by function. `elsewhere`:
    fraction of a member's CPU time in other functions than usual. `moved`: only if no waiting was recognised
    (`waiting_seen`). `measured`: queueing and off-CPU time are known. `slow_host`: the host whose processes
    are exactly the stragglers.
    """

    members: tuple[Member, ...]
    functions: tuple[FunctionKey, ...]
    work: Floats
    usual: Floats
    outlying: Bools
    elsewhere: Floats
    stragglers: tuple[Straggler, ...]
    reordered: tuple[Reordered, ...]
    moved: tuple[Moved, ...]
    imbalance: tuple[Imbalance, ...]
    efficiency: Efficiency
    waiting_seen: bool
    measured: bool
    slow_host: str
    ranges: tuple[RangeRow, ...]
    notices: tuple[Notice, ...]

    @property
    def queue_share(self) -> float:
        """Median fraction of the processes' pace spent queueing for a CPU."""
        return float(np.median([m.queue_s / m.pace_s if m.pace_s > 0 else 0.0 for m in self.members]))


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiencies of one run as POP defines them, as fractions of 1; NaN if unknown.

    `parallel` = mean useful time / runtime = `balance` (mean / greatest useful time) × `communication`
    (greatest useful time / runtime). Useful time is CPU time outside of waiting and imports.
    """

    processes: int
    runtime_s: float
    useful_s: float
    parallel: float
    balance: float
    communication: float


def efficiency(members: Sequence[Member]) -> Efficiency:
    """Return the efficiencies of one run, by the metrics of POP (EU centre for performance optimisation).

    Source: Wagner, Mohr, Giménez and Labarta, "A structured approach to performance analysis", Tools for High
    Performance Computing 2017, Springer 2019.
    """
    useful = np.array([m.run_s for m in members])
    runtime = max(m.life_s for m in members)
    most = float(useful.max())
    mean = float(useful.mean())
    return Efficiency(
        len(members),
        runtime,
        mean,
        mean / runtime if runtime > 0 else math.nan,
        mean / most if most > 0 else math.nan,
        most / runtime if runtime > 0 else math.nan,
    )
