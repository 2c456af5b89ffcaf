"""Evidence of changed calls, code and cost per call: of functions and of NVTX ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from profkit.compare.origins import Origin
from profkit.verdict.evidence.producing import Found, Producers
from profkit.verdict.readings.code_and_calls import (
    code_row,
    most_calls,
    ranges_repeated,
    uncalled_row,
    work_origin,
)
from profkit.verdict.readings.function_times import waited_row
from profkit.verdict.readings.library_code import jit_compiling, new_code
from profkit.verdict.rule import Case
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence, Value

#: Table rows that are searched for a function with changed calls.
LOOKED_AT = 20
#: Functions with longer loops that are shown.
LOOPS_SHOWN = 3


def _calls(case: Case, reading: str, numbers: Mapping[str, Value]) -> Evidence:
    factor = case.signals.movement.calls_factor
    return Evidence("calls", "factor", 1.0, factor, value("work.calls"), reading, numbers=numbers)


def _calls_known(case: Case) -> Found:
    yield Evidence(
        "calls.known",
        "share",
        None,
        case.read("calls.known"),
        value("calls.known"),
        "known-within",
        numbers={"within": value("calls.half-width")},
    )


def _calls_between(case: Case) -> Found:
    """Return the interval of the calls' factor, over functions with well-known calls."""
    low, high = case.read("calls.low"), case.read("calls.high")
    if low is not None and high is not None:
        yield _calls(case, "between", {"low": low, "high": high})


def _ranges_count(case: Case) -> Found:
    if (found := ranges_repeated(case)) is not None:
        yield Evidence(
            "range.count",
            "count",
            *found.counts,
            value("work.calls") * found.counts[0],
            "times",
            subject=found.key.name,
            numbers={"factor": found.factor},
        )


def _started(case: Case) -> Found:
    before, after = case.read("started.processes-before"), case.read("started.processes")
    if before or after:
        yield Evidence("started.processes", "count", before, after)
    before, after = case.read("started.threads-before"), case.read("started.threads")
    if before or after:
        yield Evidence("started.threads", "count", before, after)


def _origins(case: Case, found: Sequence[Origin | None]) -> Found:
    """Return where most changed calls come from: calls of a function per call of its caller."""
    table = case.signals.table
    for origin in filter(None, found[:1]):
        yield Evidence(
            "origin",
            "count",
            origin.before,
            origin.after,
            reading="per-call-of",
            subject=table.shown(origin.callee),
            numbers={"caller": table.shown(origin.row), "calls": origin.calls},
        )


def _loops(case: Case) -> Found:
    """Return the calls that functions make whose loops got longer, those with most added calls first."""
    loops, table = case.signals.loops, case.signals.table
    for row, before, after in zip(loops.rows[:LOOPS_SHOWN], *loops.made, strict=False):
        yield Evidence("loop", "count", before, after, subject=table.shown(row))


def _top_calls(case: Case) -> Found:
    """Return the calls of the function that changed most in seconds and was called differently."""
    table = case.signals.table
    shown = case.signals.origins.ratios.changed
    for row in range(min(len(table), LOOKED_AT)):
        before, after = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
        if not shown[row] or table.waits(row):
            continue
        if before and after and abs(math.log(after / before)) > math.log(value("work.calls")):
            yield Evidence(
                "function.calls",
                "count",
                before,
                after,
                subject=table.shown(row),
                reading="times",
                numbers={"factor": after / before},
            )
            return


def _of_function(case: Case, row: int, part: str, reading: str) -> Found:
    if row < 0:
        return
    table = case.signals.table
    yield Evidence(
        "function.self-time",
        "s",
        float(table.baseline.tottime[row]),
        float(table.candidate.tottime[row]),
        subject=table.shown(row),
        reading=reading,
        numbers={"share": case.read(part)},
    )


def _function_calls(case: Case, row: int) -> Found:
    if row < 0:
        return
    table = case.signals.table
    ratios = case.signals.origins.ratios
    if not ratios.weighed[row]:
        return
    before, after = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
    reading = "same" if before == after else "changed" if ratios.changed[row] else "not-clearly"
    yield Evidence("function.calls", "count", before, after, subject=table.shown(row), reading=reading)


def _code_source(case: Case) -> Found:
    row = code_row(case)
    if row < 0:
        return
    table = case.signals.table
    added = int(table.added_lines[row])
    usual = "source-lines" if added else "source-changed"
    reading = {"new": "source-new", "gone": "source-gone"}.get(table.match[row], usual)
    numbers: dict[str, Value] = {"lines": added} if added else {}
    subject = table.shown(row)
    yield Evidence("function.source", "text", subject=subject, reading=reading, numbers=numbers)


def _function_per_call(case: Case, row: int) -> Found:
    if row < 0:
        return
    own = float(case.signals.table.per_call_ratio[row])
    if math.isfinite(own) and math.isfinite(case.signals.movement.ratio):
        yield Evidence(
            "function.per-call",
            "factor",
            1.0,
            own,
            subject=case.signals.table.shown(row),
            reading="median-of-all",
            numbers={"factor": math.exp(case.signals.movement.ratio)},
        )


def _per_call(case: Case) -> Found:
    moved = case.signals.movement
    if math.isfinite(moved.ratio):
        yield Evidence(
            "per-call",
            "factor",
            1.0,
            math.exp(moved.ratio),
            reading="scatter-over-functions",
            numbers={"spread": moved.spread},
        )


def _library(case: Case) -> Found:
    """Return the time in code of libraries that only the candidate ran."""
    library, seconds = new_code(case.signals.table)
    if library:
        yield Evidence("library.new", "s", 0.0, seconds, subject=library)


def _jit(case: Case) -> Found:
    package, before, after = jit_compiling(case.signals.table)
    if package:
        yield Evidence("jit", "s", before, after, subject=package)


CHANGED_FUNCTIONS: Producers = {
    "calls": lambda case: [_calls(case, "calls-of-same-functions", {})],
    "calls-everywhere": lambda case: [
        Evidence(
            "calls.share", "share", None, case.signals.movement.calls_changed, reading="waiting-left-out"
        )
    ],
    "calls-known": _calls_known,
    "calls-between": _calls_between,
    "ranges-count": _ranges_count,
    "started": _started,
    "origin": lambda case: _origins(case, [work_origin(case)]),
    "origin-in-code": lambda case: _origins(case, [o for o in case.signals.origins.found if o.from_code]),
    "loops": _loops,
    "top-calls": _top_calls,
    "code-function": lambda case: _of_function(case, code_row(case), "account.code", "code-part"),
    "code-calls": lambda case: _function_calls(case, code_row(case)),
    "code-source": _code_source,
    "waited-function": lambda case: _of_function(case, waited_row(case), "account.waits", "waits-part"),
    "per-call-function": lambda case: _function_per_call(case, code_row(case)),
    "top-function": lambda case: _of_function(
        case, case.signals.movement.top_row, "function.part", "of-gains"
    ),
    "uncalled-function": lambda case: _of_function(
        case, uncalled_row(case.signals), "uncalled.part", "uncalled-part"
    ),
    "top-function-calls": lambda case: _function_calls(case, case.signals.movement.top_row),
    "added-calls": lambda case: _function_calls(case, -1 if (most := most_calls(case)) is None else most.row),
    "top-function-per-call": lambda case: _function_per_call(case, case.signals.movement.top_row),
    "per-call": _per_call,
    "library": _library,
    "jit": _jit,
}
