"""NVTX ranges of one process of a job, summed up by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from profkit.measure.iterations import warming_up
from profkit.measure.range_stats import pattern_of
from profkit.model import Process, RangeCalls
from profkit.study.rank_functions import RANK_WAIT, Bits

#: Most range names kept per process: those with the most time.
MOST_RANGES = 64


@dataclass(frozen=True, slots=True)
class RangeSums:
    """NVTX ranges of one name in one process, without the `left_out` slow ones at the beginning.

    `waits_s`: seconds in calls that wait for other processes, in all ranges including `left_out`; NaN if not
    recorded.
    """

    count: int
    left_out: int
    total_s: float
    median_s: float
    waits_s: float


def sums_of_ranges(
    process: Process, calls: RangeCalls | None, bits: Bits
) -> dict[tuple[str, str], RangeSums]:
    """Sum up the NVTX ranges of a process by name; `calls` of its main thread, whose functions have `bits`."""
    ranges = process.ranges
    if ranges is None or not len(ranges):
        return {}
    inside, unseen = {}, math.nan
    if calls is not None:
        inside, unseen = _waits_inside(calls, bits), 0.0
    folded: dict[str, int] = {}
    table = [folded.setdefault(pattern_of(text), len(folded)) for text in ranges.strings]
    number = np.array(table, np.int64)
    texts = list(folded)
    ended = np.flatnonzero(ranges.ended)
    kind = number[ranges.name[ended]] << 32 | number[ranges.domain[ended]]
    found: dict[tuple[str, str], RangeSums] = {}
    for value in np.unique(kind).tolist():
        rows = ended[kind == value]
        seconds = ranges.duration_s[rows[np.argsort(ranges.begin_ns[rows], kind="stable")]]
        left_out = warming_up(seconds)
        used = seconds[left_out:]
        key = texts[value & 0xFFFFFFFF], texts[value >> 32]
        waits_s = inside.get(key, unseen)
        found[key] = RangeSums(len(used), left_out, float(used.sum()), float(np.median(used)), waits_s)
    most = sorted(found, key=lambda key: (-found[key].total_s, key))[:MOST_RANGES]
    return {key: found[key] for key in most}


def _waits_inside(calls: RangeCalls, bits: Bits) -> dict[tuple[str, str], float]:
    """Return the seconds in calls that wait for other ranks, by the ranges around them."""
    waits = (bits[calls.function] & RANK_WAIT) != 0
    own = np.bincount(calls.context[waits], calls.tottime[waits], len(calls.parent))
    found: dict[tuple[str, str], float] = {}
    for context in np.flatnonzero(own).tolist():
        around, at = set(), context
        while at >= 0:
            around.add((calls.strings[calls.domain[at]], pattern_of(calls.strings[calls.name[at]])))
            at = int(calls.parent[at])
        for key in around:
            found[key] = found.get(key, 0.0) + float(own[context])
    return found
