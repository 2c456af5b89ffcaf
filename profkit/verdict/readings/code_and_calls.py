"""Changed code and changed calls: of functions and of NVTX ranges, and the function that added most time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from profkit.compare.origins import Origin
from profkit.compare.signals import Signals
from profkit.measure.range_stats import Repeated, repeated
from profkit.measure.waits_by_name import only_computes
from profkit.model import BUILTIN, PROJECT, SITE
from profkit.verdict.account import Part
from profkit.verdict.readings.known_values import of_known
from profkit.verdict.readings.lost_time import of_baseline, of_lost
from profkit.verdict.rule import Case, Reading, less, more
from profkit.verdict.thresholds import value
from profkit.verdict.types import Bounded, Value


def _calls(case: Case) -> float | None:
    moved = case.signals.movement
    if not moved.calls_factor > 0 or moved.calls_known < value("part.most"):
        return None
    if case.signals.exact:
        return moved.calls_factor
    return Bounded(moved.calls_factor, moved.calls_low, moved.calls_high)


def calls_known(case: Case) -> float:
    """Return the share of CPU time, or of its growth if smaller, in functions with well-known calls."""
    return min(case.signals.movement.calls_known, case.signals.movement.gains_known)


def _same_calls(case: Case) -> bool | None:
    """Return whether changed calls cost no time; ``None`` where the intervals of the calls allow both."""
    factor = _calls(case)
    if case.signals.exact:
        if factor is None or value("work.fewer") < factor < value("work.calls"):
            return True
        work = of_baseline(case, "work")
        return work is not None and value("work.less-of-baseline") < work < value("work.of-baseline")
    moved = case.signals.movement
    few = calls_known(case) < value("calls.known")
    if value("work.fewer") < moved.calls_low and moved.calls_high < value("work.calls"):
        return None if few else True
    bucket, whole = case.account.bucket("work"), case.account.baseline_s
    if (
        value("work.less-of-baseline") * whole < bucket.low
        and bucket.high < value("work.of-baseline") * whole
    ):
        return None if few else True
    beyond = moved.calls_low >= value("work.calls") or moved.calls_high <= value("work.fewer")
    return False if beyond and factor is not None else None


def ranges_repeated(case: Case) -> Repeated | None:
    """Return how much more often NVTX ranges ran; ``None`` without ranges of both sides."""
    return repeated(case.signals.ranges, value("ranges.same-factor"))


def _ranges_part(case: Case) -> float | None:
    found, lost = ranges_repeated(case), case.account.program_s
    if found is None or lost <= 0:
        return None
    # Ranges have the time of all ranks, of which each lost as much; those of several threads may overlap.
    return min(1.0, max(0.0, found.added_s / max(1, case.now.mains) / lost))


def changed_above(signals: Signals) -> int:
    """Return the nearest changed function above the one with most of the added time, −1 without one.

    Everything may be below it, so the loss need not be its own; what it passes on may be another object.
    """
    table, calls, moved = signals.table, signals.calls, signals.movement
    if moved.top_row < 0 or moved.top_part < value("part.most") or calls is None or signals.python_differs:
        return -1
    changed = table.differs & table.in_roots(PROJECT)
    called = (calls.candidate.ncalls > 0) | (calls.candidate.cumtime > 0)
    seen = np.zeros(len(table), np.bool_)
    level = np.array([moved.top_row], np.intp)
    while len(level) and changed.any():
        seen[level] = True
        callers = calls.caller[np.isin(calls.callee, level) & called].astype(np.intp)
        found = callers[changed[callers]]
        if len(found):
            return int(found[0])
        level = np.unique(callers[~seen[callers]])
    return -1


def code_row(case: Case) -> int:
    """Return the row of the function whose code changed, −1 without one."""
    s = case.signals
    own, below = s.movement.changed_row, s.movement.below_row
    a, b = s.table.baseline, s.table.candidate
    if own >= 0 and s.table.same_source[own] is False:
        # What a changed function calls may be what got slower.
        gained = b.cumtime[below] - a.cumtime[below] if below >= 0 else 0.0
        return own if b.tottime[own] - a.tottime[own] >= value("part.most") * gained else below
    if below >= 0:
        return below
    if (above := changed_above(s)) >= 0:
        return above
    for origin in s.origins.found:
        if origin.from_code:
            return origin.row
    return s.movement.changed_row


def _code_place(case: Case) -> str:
    row = code_row(case)
    table = case.signals.table
    if row < 0 or not table.keys[row].path:
        return ""
    line = int(table.line[row])
    return f"{table.keys[row].path}:{line}" if line else table.keys[row].path


def uncalled_row(signals: Signals) -> int:
    """Return the row of the longest function that the baseline defines but did not call, or −1."""
    table = signals.table
    rows = np.flatnonzero(table.candidate.present & table.uncalled)
    return int(rows[table.candidate.cumtime[rows].argmax()]) if len(rows) else -1


def _uncalled_part(case: Case) -> float | None:
    """Return the part of the lost time in this function with callees, less what one like it held before."""
    table, row, lost = case.signals.table, uncalled_row(case.signals), case.account.program_s
    if lost <= 0:
        return None
    if row < 0:
        return 0.0
    held = float(table.baseline.cumtime[~table.candidate.present & table.uncalled].max(initial=0.0))
    # Functions have the time of all ranks, of which each lost as much.
    added = float(table.candidate.cumtime[row]) / max(1, case.now.mains) - held / max(1, case.before.mains)
    return min(1.0, max(0.0, added) / lost)


def _uncalled_same(case: Case) -> bool | None:
    """Return whether this function, or the one that it is defined in, has the same source on both sides."""
    table, row = case.signals.table, uncalled_row(case.signals)
    if row < 0 or table.same_source[row] is not None:
        return None if row < 0 else table.same_source[row]
    outer = table.keys[row].outer
    return next((same for same, key in zip(table.same_source, table.keys, strict=True) if key == outer), None)


def _most_added(case: Case) -> str:
    """Return the function with most of the added time, if functions added most of the lost time; else nothing."""
    moved = case.signals.movement
    most = value("part.most")
    if moved.top_part < most or moved.top_gain < most * moved.top_part * case.account.program_s:
        return ""
    return case.signals.table.shown(moved.top_row)


def _of_top(part: Callable[[Signals, int], Value]) -> Callable[[Case], Value]:
    """Return a reading of the function with most of the added time, ``None`` without one."""

    def of(case: Case) -> Value:
        row = case.signals.movement.top_row
        return None if row < 0 else part(case.signals, row)

    return of


def _may_wait(s: Signals, row: int) -> bool:
    key = s.table.keys[row]
    return key.root == SITE or (key.root == BUILTIN and not only_computes(key.qualname))


def _gained(s: Signals, row: int) -> float | None:
    whole = s.movement.busy_total
    return s.movement.top_gain / whole if whole > 0 else None


def most_calls(case: Case) -> Part | None:
    """Return the function with most of the time of added calls; ``None`` where none has most of it."""
    found = case.account.bucket("work")
    most = found.parts[0] if found.parts else None
    return most if most is not None and most.seconds >= value("part.most") * found.seconds > 0 else None


def _by_library(case: Case) -> bool | None:
    """Return whether functions outside of the project make most of the added calls of that function."""
    most, calls = most_calls(case), case.signals.calls
    if most is None or calls is None:
        return None
    added = np.where(calls.callee == most.row, calls.candidate.ncalls - calls.baseline.ncalls, 0)
    others = ~case.signals.table.in_roots(PROJECT)[calls.caller]
    return bool(added[others].sum() >= value("part.most") * added.sum() > 0)


def work_origin(case: Case) -> Origin | None:
    """Return where most changed calls come from, of those that change the total in its direction."""
    less = case.account.program_s < 0
    found = case.signals.origins.found
    return next((one for one in found if not one.from_code and (one.seconds < 0) is less), None)


CODE_AND_CALLS: Mapping[str, Reading] = {
    "calls.factor": Reading("factor", "calls of the same functions, weighted by time", _calls),
    "calls.same": Reading(
        "bool",
        "functions that matter are called equally often",
        _same_calls,
        (
            less("calls.factor", "work.calls"),
            more("calls.factor", "work.fewer"),
            less("account.work-of-baseline", "work.of-baseline"),
            more("account.work-of-baseline", "work.less-of-baseline"),
            more("calls.known", "calls.known"),
        ),
    ),
    "calls.differ": Reading(
        "bool",
        "calls differ: by exact counts, or over their whole interval",
        lambda c: _same_calls(c) is False,
    ),
    "calls.undecided": Reading(
        "bool",
        "calls of a side are not all counted, and may or may not differ",
        lambda c: not c.signals.exact and _same_calls(c) is None,
    ),
    "calls.known": Reading(
        "share",
        "part of the CPU time, or of its growth if smaller, in functions whose calls are known well enough",
        calls_known,
    ),
    "calls.traced": Reading(
        "bool",
        "neither side was sampled: what is not counted are calls that no profiler is told of",
        lambda c: c.before.traced and c.now.traced,
    ),
    "calls.low": Reading(
        "factor", "lower limit of the 95 % interval of calls.factor", lambda c: c.signals.movement.calls_low
    ),
    "calls.high": Reading("factor", "upper limit of that interval", lambda c: c.signals.movement.calls_high),
    "calls.everywhere": Reading(
        "share",
        "part of the time in functions whose calls changed",
        lambda c: c.signals.movement.calls_changed,
    ),
    "ranges.factor": Reading(
        "factor",
        "count of the NVTX range that takes longest",
        of_known(ranges_repeated, lambda found: found.factor),
    ),
    "ranges.alike": Reading(
        "share",
        "part of the innermost ranges' time in ranges whose counts changed alike",
        of_known(ranges_repeated, lambda found: found.share),
    ),
    "ranges.of-growth": Reading(
        "share",
        "part of these ranges' growth that their counts explain",
        of_known(ranges_repeated, lambda found: found.of_growth),
    ),
    "ranges.part": Reading("share", "part of the lost time that so many more ranges take", _ranges_part),
    "code.subject": Reading(
        "text", "the function whose code changed", lambda c: c.signals.table.shown(code_row(c))
    ),
    "code.place": Reading("text", "file and line of code.subject", _code_place),
    "revision": Reading("text", "revision of the candidate's source", lambda c: c.now.revision or None),
    "revision-before": Reading(
        "text", "revision of the baseline's source", lambda c: c.before.revision or None
    ),
    "code.source-known": Reading(
        "bool",
        "the source of a function that matters is known to differ",
        lambda c: c.signals.movement.changed_row >= 0 or c.signals.movement.below_row >= 0,
    ),
    "code.above": Reading(
        "bool",
        "a function whose source changed calls, directly or not, the one with most of the added time",
        lambda c: changed_above(c.signals) >= 0,
    ),
    "code.loop": Reading(
        "bool",
        "one function calls others more often each time it runs, and its source is not known",
        lambda c: any(o.from_code for o in c.signals.origins.found),
    ),
    "code.other-callee": Reading(
        "bool",
        "this function calls one that it did not call before",
        lambda c: any(o.from_code and not o.before for o in c.signals.origins.found),
    ),
    "code.new": Reading(
        "bool",
        "the function whose code changed is new",
        lambda c: code_row(c) >= 0 and c.signals.table.match[code_row(c)] == "new",
    ),
    "ranges.name": Reading(
        "text",
        "the range of ranges.factor",
        lambda c: "" if (found := ranges_repeated(c)) is None else found.key.name,
    ),
    "work.subject": Reading(
        "text",
        "the function from which the changed calls come",
        lambda c: c.signals.table.shown(-1 if (origin := work_origin(c)) is None else origin.row),
    ),
    "work.most": Reading(
        "text",
        "function with most of the time of added calls",
        lambda c: None if (most := most_calls(c)) is None else most.name,
    ),
    "work.by-library": Reading("bool", "code outside of the project makes most of them", _by_library),
    "work.function": Reading(
        "text",
        "the function with most of the added time",
        _most_added,
    ),
    "uncalled.part": Reading(
        "share",
        "part of the lost time in a function that the baseline defines but spends no time in, and its callees",
        _uncalled_part,
    ),
    "uncalled.same": Reading(
        "bool",
        "uncalled.function, or the function that it is defined in, has the same source on both sides",
        _uncalled_same,
    ),
    "uncalled.function": Reading(
        "text",
        "the function of uncalled.part",
        lambda c: c.signals.table.shown(uncalled_row(c.signals)),
    ),
    "function.part": Reading(
        "share", "part of all added time in function.subject", lambda c: c.signals.movement.top_part
    ),
    "function.gain": Reading(
        "share", "added time of function.subject, as a part of the baseline's CPU time", _of_top(_gained)
    ),
    "function.of-lost": Reading(
        "share",
        "added time of function.subject, as a part of the lost time",
        lambda case: of_lost(case.account, case.signals.movement.top_gain / max(1, case.now.mains)),
    ),
    "function.apart": Reading(
        "factor",
        "change per call of function.subject over that of all functions",
        _of_top(lambda s, row: float(s.table.per_call_ratio[row]) / math.exp(s.movement.ratio)),
    ),
    "function.calls": Reading(
        "count",
        "calls of function.subject, on the side with fewer",
        _of_top(lambda s, row: int(min(s.table.baseline.ncalls[row], s.table.candidate.ncalls[row]))),
    ),
    "function.source-known": Reading(
        "bool",
        "the sources of function.subject are known",
        _of_top(lambda s, row: s.table.same_source[row] is not None),
    ),
    "function.of-project": Reading(
        "bool",
        "function.subject is of the project",
        _of_top(lambda s, row: s.table.keys[row].root == PROJECT),
    ),
    "function.may-wait": Reading(
        "bool",
        "function.subject is of an installed library, or native: it may have threads of its own, or wait",
        _of_top(_may_wait),
    ),
    "function.native": Reading(
        "bool", "function.subject is native", _of_top(lambda s, row: s.table.keys[row].root == BUILTIN)
    ),
    "function.subject": Reading(
        "text",
        "the function that added most time",
        lambda c: c.signals.table.shown(c.signals.movement.top_row),
    ),
}
