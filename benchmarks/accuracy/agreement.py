"""What two profiles of one program say of the same functions: pure, no run is made here.

Of calls the exact profile is the truth. Of self times it is not: up to Python 3.11 tracing slows code in Python by
half, and calls in C by less, and what frames take longer cannot be taken out again. So intervals of self times are
asked twice: whether they hold what the other captures of the same way say, which is how far samples scatter; and, of
one function, whether they hold what it takes without profkit (`Truth`), which no capture has measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import profkit

#: Functions at the head of a profile that are to be the same.
FIRST = 10
#: Functions below this share of the exact self time are left out of the worst difference.
NOTABLE = 0.01
#: Exact calls from which on a function is a busy one. Most functions are called a few times by imports: their wide
#: intervals say little of those that the time is spent in.
BUSY = 1000

#: File, line and name.
Key: TypeAlias = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Function:
    """What a profile says of a function: NaN for calls that are not known; the error is half of a 95 % interval."""

    calls: float
    low: float
    high: float
    tottime: float
    error: float


Functions: TypeAlias = Mapping[Key, Function]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a profile agrees with the exact one of the same program.

    Attributes
    ----------
    calls, calls_held
        Functions whose calls have an interval of some width, and those where it holds the exact number.
    busy, busy_held
        The same of functions with a thousand exact calls or more.
    ratio
        Median of estimated over exact calls of those, NaN without: what all of them are wrong by.
    wrong
        Functions whose calls are stated as exact and differ: names.
    unknown
        Functions whose calls are not known.
    unseen_s
        Part of the exact self time in functions that the profile does not have.
    times, times_held
        Functions whose self time has an interval, and those where it, as a share, holds the mean of the others.
    worst
        Greatest difference of a share from that mean, of functions with a hundredth of the time or more.
    same_first, common_first
        Whether the first ten functions by self time are those of the other captures, but for what intervals leave
        open, and how many are in both.
    """

    calls: int
    calls_held: int
    busy: int
    busy_held: int
    ratio: float
    wrong: tuple[str, ...]
    unknown: int
    unseen_s: float
    times: int
    times_held: int
    worst: float
    same_first: bool
    common_first: int


def functions_of(run: profkit.Run) -> Functions:
    """Return the functions of a run; rows of one key are one function already."""

    def number(value: float | None) -> float:
        return math.nan if value is None else float(value)

    return {
        (row.file, row.line, row.name): Function(
            number(row.ncalls),
            number(row.calls_low),
            number(row.calls_high),
            number(row.tottime),
            number(row.tottime_error),
        )
        for row in run.functions()
    }


def leading(functions: Functions, count: int = FIRST) -> list[Key]:
    """Return the first functions by self time."""
    return sorted(functions, key=lambda key: -functions[key].tottime)[:count]


def _held(of: Sequence[tuple[Function, Function]]) -> int:
    """Return in how many the interval of calls holds the exact number."""
    return sum(f.low <= truth.calls <= f.high for truth, f in of)


def shares(functions: Functions) -> dict[Key, float]:
    """Return the share of each function in all self time."""
    whole = sum(function.tottime for function in functions.values())
    return {key: function.tottime / whole for key, function in functions.items()}


def mean_shares(captures: Sequence[Functions]) -> dict[Key, float]:
    """Return the mean share of each function; one that a capture lacks has none in it."""
    found = [shares(each) for each in captures]
    return {key: sum(each.get(key, 0.0) for each in found) / len(found) for each in found for key in each}


def _same_first(seen: Functions, first: set[Key]) -> bool:
    """Whether what is not among the first ten, though it is elsewhere, may be by its interval and by the tenth's."""
    own = leading(seen)
    last = seen[own[-1]]
    return all(
        key in own or (key in seen and seen[key].tottime + seen[key].error >= last.tottime - last.error)
        for key in first
    )


def agreement(exact: Functions, seen: Functions, others: Sequence[Functions]) -> Agreement:
    """Compare a profile with the exact one, and with other captures of its way, function by function."""
    exact_s, seen_s = (sum(f.tottime for f in each.values()) for each in (exact, seen))
    usual, here = mean_shares(others), shares(seen)
    # The mean of others scatters as well.
    wider = math.sqrt(1 + 1 / len(others))
    both = [(key, exact[key], seen[key]) for key in seen if key in exact]
    counted = [(key, truth, f) for key, truth, f in both if not math.isnan(f.low)]
    estimated = [(truth, f) for _, truth, f in counted if f.low < f.high]
    busy = [(truth, f) for truth, f in estimated if truth.calls >= BUSY]
    timed = [(key, f) for key, f in seen.items() if f.error > 0]
    first = set(sorted(usual, key=lambda key: -usual[key])[:FIRST])
    return Agreement(
        calls=len(estimated),
        calls_held=_held(estimated),
        busy=len(busy),
        busy_held=_held(busy),
        ratio=statistics.median(f.calls / truth.calls for truth, f in busy) if busy else math.nan,
        wrong=tuple(
            f"{key[2]} {f.calls:.0f} for {truth.calls:.0f}"
            for key, truth, f in counted
            if f.low == f.high != truth.calls
        ),
        unknown=len(both) - len(counted),
        unseen_s=sum(f.tottime for key, f in exact.items() if key not in seen) / exact_s,
        times=len(timed),
        times_held=sum(abs(here[key] - usual.get(key, 0.0)) <= wider * f.error / seen_s for key, f in timed),
        worst=max(
            (abs(here.get(key, 0.0) - share) for key, share in usual.items() if share >= NOTABLE),
            default=0.0,
        ),
        same_first=_same_first(seen, first),
        common_first=len(first & set(leading(seen))),
    )


#: Seconds that a call takes at most, with what stands around the loop whose work is doubled (an estimate).
CALL_S = 2.5e-7


@dataclass(frozen=True, slots=True)
class Truth:
    """Self seconds of one function without profkit.

    What twice the work of its loop adds to the program's CPU time is what the loop takes; the calls come on top.
    """

    loop_s: float
    calls: float

    def held(self, function: Function) -> bool:
        """Whether a stated interval holds it."""
        most = self.loop_s + CALL_S * self.calls
        return self.loop_s - function.error <= function.tottime <= most + function.error
