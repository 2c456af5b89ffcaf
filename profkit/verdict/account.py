"""The account of the lost time: buckets that add up to the difference between two walls, or to one wall."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profkit.verdict.thresholds import value

#: Buckets of a comparison, in display order.
BUCKETS = ("startup", "work", "code", "speed", "queue", "blocked", "loading", "imbalance", "rest")
#: Last bucket of a comparison if it is known what capture added.
CAPTURE = "capture"
#: Further buckets where the tracers recorded what threads wait for.
PAUSES = ("gil", "gc")
#: A further bucket where both sides used a GPU: functions that wait for it.
GPU = "gpu"
#: Buckets that contain one of `PAUSES` or `GPU` where these are unknown.
_PARTS_OF = {"blocked": ("gil",), "running": ("gc", GPU)}
#: Buckets of one run alone.
RUN_BUCKETS = ("startup", "running", "queue", "loading", "blocked", "imbalance")


@dataclass(frozen=True, slots=True)
class Part:
    """What one function or NVTX range contributes to a bucket, in signed seconds.

    `row` is of the function table, −1 for a range; ranges lie around functions, so they add no further
    seconds. `kind` is ``function``, ``range``, or ``holder`` (held the interpreter's lock while others
    waited). `what` is the main wait of a part of ``blocked``, one of `profkit.model.pauses.WAITS`, empty if
    not seen.
    """

    row: int
    name: str
    seconds: float
    kind: str = "function"
    what: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """Off-CPU waiting on the path for `what`, one of `WAITS`, and the function in which it changed most."""

    what: str
    baseline_s: float
    candidate_s: float
    row: int
    name: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """One term of the identity; `name` is one of `BUCKETS` or `RUN_BUCKETS`, of `PAUSES`, `GPU` or `CAPTURE`.

    `seconds` are signed; positive makes the candidate slower. `low` to `high` is the 95 % interval from the
    repeats or from repeats of other programs, NaN if unknown. `share` is the part of the difference of the
    walls, NaN where that is 0, or of one run's wall. `parts` are its functions, greatest first; they need not
    add up to it. `waited` is what ``blocked`` and ``gil`` waited for, as far as seen, greatest change first.
    """

    name: str
    seconds: float
    low: float = math.nan
    high: float = math.nan
    share: float = math.nan
    parts: tuple[Part, ...] = ()
    waited: tuple[Waited, ...] = ()

    @property
    def beyond_noise(self) -> bool:
        """Whether its interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Account:
    """Where the difference between two walls went; the buckets add up to it.

    `baseline_s` and `candidate_s` are walls, medians over a side's runs; the former is 0 for one run alone.
    Without counters they are self time of the profiled thread. `buckets` are in the order of `BUCKETS` or
    `RUN_BUCKETS`, then `PAUSES`, `GPU` and `CAPTURE`, where known. `merged` are buckets that could not be
    separated, all in the first: ``("speed", "queue")`` without counters. `basis` of the intervals is
    ``repeats``, ``other-programs`` or ``none``.

    `helpers_queue_s` is queueing of helpers that the path's thread waits for; `imports_s` is the part of
    ``startup`` in which processes other than the main one import modules, `own_imports_s` how long the main one
    took to import libraries on both sides, with the queueing that both have, `reading_s` how long files were
    read, `starts_s` what starting more processes added, or starting them took in one run. `calls_unknown` is the
    greater side's share of the path's CPU time in functions whose calls are not known well enough; their growth
    is in ``speed``. `helpers_waited` is what helpers waited for, on the path or not, that no thread of the
    program ends. `collected_s` is the garbage collector's time in the path's thread on both sides, 0 where
    unknown.
    """

    baseline_s: float
    candidate_s: float
    buckets: tuple[Bucket, ...]
    merged: tuple[str, ...] = ()
    basis: str = "none"
    helpers_queue_s: float = 0.0
    calls_unknown: float = 0.0
    imports_s: float = 0.0
    own_imports_s: tuple[float, float] = (0.0, 0.0)
    reading_s: tuple[float, float] = (0.0, 0.0)
    starts_s: float = 0.0
    helpers_waited: tuple[Waited, ...] = ()
    collected_s: tuple[float, float] = (0.0, 0.0)

    @property
    def added_s(self) -> float:
        """Difference of the walls, in seconds."""
        return self.candidate_s - self.baseline_s

    @property
    def own_imports_added_s(self) -> float:
        """How much longer the main process took to import libraries."""
        return self.own_imports_s[1] - self.own_imports_s[0]

    @property
    def capture_s(self) -> float:
        """What capture added to the difference, in seconds; 0 if unknown."""
        return self.seconds(CAPTURE)

    @property
    def program_s(self) -> float:
        """Difference of the walls without what capture added, in seconds."""
        return self.added_s - self.capture_s

    @property
    def helpers_queue(self) -> bool:
        """Whether most of the queueing is of helpers that the path's thread waits for."""
        return not self.merged and self.helpers_queue_s > value("part.most") * self.seconds("queue") > 0

    def bucket(self, name: str) -> Bucket:
        """Return the bucket of this name: an empty one for `CAPTURE`, `GPU` and `PAUSES` where they are unknown."""
        known = {bucket.name: bucket for bucket in self.buckets}
        return known.get(name) or Bucket(name, 0.0) if name in (*PAUSES, GPU, CAPTURE) else known[name]

    def seconds(self, name: str) -> float:
        """Return the signed seconds of a bucket."""
        return self.bucket(name).seconds

    def whole(self, name: str) -> float:
        """Return a bucket's seconds with its `PAUSES` and `GPU`, as booked where these are unknown."""
        return self.seconds(name) + sum(map(self.seconds, _PARTS_OF.get(name, ())))
