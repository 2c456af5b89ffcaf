"""Time off the CPU that is not queueing: loaders, workers, and what else main threads wait for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from profkit.measure.side_facts import SideFacts
from profkit.model.pauses import FOR_EACH_OTHER
from profkit.verdict.account import Account
from profkit.verdict.readings.known_values import Measured, growth, of_sides
from profkit.verdict.readings.lost_time import blocked_on, of_lost
from profkit.verdict.rule import Case, Reading
from profkit.verdict.thresholds import value
from profkit.verdict.types import Bounded


def _loading_of_off(case: Case) -> float | None:
    seconds = case.account.seconds
    off = seconds("blocked") + seconds("loading") + seconds("imbalance")
    return min(1.0, seconds("loading") / off) if off > 0 else None


def _with_work(case: Case) -> bool:
    """Return whether there is more to do, in calls or in CPU time, and the waiting grew by no more than that."""
    before, now = case.before.main_off_s, case.now.main_off_s
    calls, ran = case.read("calls.factor"), case.signals.movement.busy_total
    if not before or now is None:
        return False
    more = 1.0
    if isinstance(calls, (int, float)) and case.number("calls.everywhere") >= value("work.everywhere"):
        least = calls.low if isinstance(calls, Bounded) else calls
        more = calls if least >= value("work.calls") else more
    # The account is of one path, and what ran is of all ranks.
    added = sum(map(case.account.seconds, ("work", "code", "speed"))) * max(1, case.before.mains)
    cpu = added / ran if ran > 0 else 0.0
    if 1.0 + cpu >= value("time.drift"):
        more = max(more, 1.0 + cpu)
    return more > 1.0 and now <= before * more * value("time.noticed")


def _more_programs(case: Case) -> bool | None:
    """Return whether the number of programs, and not the CPU time of each, explains most of their growth."""
    (few, before), (many, now) = ((side.children, side.children_s) for side in (case.before, case.now))
    if few is None or many is None or before is None or now is None:
        return None
    if not few or not before:
        return not few and many > 0
    number, each = math.log(max(many, 1.0) / few), math.log(max(now, 1e-9) / before * few / max(many, 1.0))
    return number >= math.log(value("work.calls")) and abs(each) <= (1.0 - value("part.most")) * number


def _iterations(case: Case, grown: bool) -> float | None:
    before, after = case.signals.iterations
    if before is None or after is None or after.consumer_wait_share is None:
        return None
    return after.consumer_wait_share - ((before.consumer_wait_share or 0.0) if grown else 0.0)


def helpers_busy(account: Account, side: SideFacts) -> float | None:
    """Return the CPU time over the wall of what may keep the main thread waiting.

    Threads of its own process end no wait for a socket, a file or the clock: those of BLAS spin meanwhile.
    """
    what = blocked_on(account)
    run_s = side.rest_run_s if what is None or what in FOR_EACH_OTHER else side.workers_run_s
    return run_s / side.wall_s if run_s is not None and side.wall_s else None


def _grown(of: Measured) -> Callable[[Case], float | None]:
    """Return the growth of a measurement, as a part of the lost time."""

    def read(case: Case) -> float | None:
        added = growth(of(case.before), of(case.now))
        return None if added is None else of_lost(case.account, added)

    return read


OFF_THE_CPU: Mapping[str, Reading] = {
    **of_sides(
        "locked",
        "s",
        "waiting for locks that the program's own code takes, of a worker or thread that takes one, on average",
        lambda side: side.locked_s,
    ),
    "locked.of-lost": Reading("share", "added part of the lost time: locked", _grown(lambda s: s.locked_s)),
    **of_sides(
        "children",
        "s",
        "CPU time of processes that the program starts, and which were not profiled",
        lambda side: side.children_s,
    ),
    **of_sides(
        "children.number", "count", "programs that it starts, where none was missed", lambda s: s.children
    ),
    "children.more": Reading(
        "bool",
        "it starts more programs, and their number, not the CPU time of each, explains most of what they use more",
        _more_programs,
    ),
    "off.with-work": Reading(
        "bool",
        "most functions are called more often (work.calls), or CPU time grew beyond the drift of clean repeats "
        "(time.drift), and the time off the CPU grew by no more than that",
        _with_work,
    ),
    "children.of-lost": Reading(
        "share", "added part of the lost time: children", _grown(lambda s: s.children_s)
    ),
    "children.awaited": Reading(
        "share",
        "added waiting for child processes, or for what they write, of main threads or of each thread that starts "
        "programs, as a part of the lost time",
        _grown(lambda s: s.children_awaited_s),
    ),
    "children.named": Reading("text", "program that most of them run", lambda c: c.now.child_program or None),
    "locked.in": Reading("text", "function that most of them wait in", lambda c: c.now.locked_in or None),
    "stopped": Reading(
        "share",
        "part of the added time off the CPU in functions that compute",
        # If no time off the CPU was added, nothing was stopped.
        lambda c: part if math.isfinite(part := c.signals.movement.stopped_work) else 0.0,
    ),
    "loading.of-off": Reading(
        "share", "waiting for workers, as a part of all added time off the CPU", _loading_of_off
    ),
    **of_sides(
        "off",
        "share",
        "part of the main threads' lifetime off the CPU, not queueing",
        lambda side: side.off_cpu_fraction,
    ),
    **of_sides(
        "delivery", "s", "seconds in functions that deliver data from workers", lambda side: side.delivery_s
    ),
    "iterations.wait": Reading(
        "share", "part of the iterations spent waiting for the loader", lambda c: _iterations(c, grown=False)
    ),
    "iterations.wait-growth": Reading(
        "share", "growth of iterations.wait over the baseline", lambda c: _iterations(c, grown=True)
    ),
    "helpers.busy": Reading(
        "share",
        "CPU time of the other threads and processes that it may wait for, over the wall",
        lambda c: helpers_busy(c.account, c.now),
    ),
}
