"""Cost per call, and whether it is the machine that is slower."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from profkit.compare.result_types import SideTable
from profkit.identity.lookup_columns import rows_where
from profkit.measure import noise
from profkit.model.arrays import Bools, Floats
from profkit.verdict.machine_differences import (
    fixed_work,
    models_differ,
    one_machine,
    other_instructions,
)
from profkit.verdict.readings.code_and_calls import calls_known
from profkit.verdict.rule import Case, Reading, less, more
from profkit.verdict.slowing_settings import slowing
from profkit.verdict.thresholds import value

#: Native functions that do the same work at every program start: they read code and compile it.
_YARDSTICKS = frozenset(("<built-in method marshal.loads>", "<built-in method builtins.compile>"))


def _dearer(case: Case) -> float | None:
    """Return the part of the baseline's active time in functions dearer by ``per-call.dearer``."""
    if calls_known(case) < value("calls.known"):
        return None
    table = case.signals.table
    known = np.isfinite(table.per_call_ratio) & table.baseline.present & table.candidate.present
    whole = float(table.baseline.active[known].sum())
    if whole <= 0:
        return None
    dearer = known & (np.where(known, table.per_call_ratio, 0.0) >= value("per-call.dearer"))
    return float(table.baseline.active[dearer].sum()) / whole


def _dearer_functions(case: Case, rows: Bools, least_s: float) -> Floats:
    """Return the factors of the cost per call of those rows, called as often on both sides, above `least_s`."""
    table = case.signals.table
    a, b = table.baseline, table.candidate
    rows = rows & np.isfinite(table.per_call_ratio) & (a.ncalls == b.ncalls)
    factors: Floats = table.per_call_ratio[rows & (np.minimum(a.active, b.active) >= least_s)]
    return factors


def _python_factor(case: Case) -> float | None:
    """Return the median factor of functions in Python; data and libraries change most of them less than a CPU."""
    found = _dearer_functions(case, ~case.signals.table.native, value("machine.python-least"))
    return float(np.median(found)) if len(found) >= value("machine.functions") else None


def _several(case: Case) -> float:
    table = case.signals.table
    matter = table.baseline.share >= noise.MIN_SHARE
    return float((_dearer_functions(case, matter, 0.0) >= value("per-call.grown")).sum())


def _yardsticks(case: Case) -> tuple[float, float]:
    """Return the CPU seconds of the program start's own work, which is the same on both sides."""
    table = case.signals.table
    a, b = table.baseline, table.candidate
    rows = rows_where(table.name, _YARDSTICKS.__contains__) & (a.ncalls == b.ncalls) & (b.ncalls > 0)

    def ran(side: SideTable) -> float:
        queued = 0.0 if side.wait is None else side.wait[rows]
        return float((side.active[rows] - queued).sum())

    return ran(a), ran(b)


def _yardstick(case: Case) -> float | None:
    before, after = _yardsticks(case)
    return after / before if min(before, after) >= value("yardstick.least") else None


def _machine_part(case: Case) -> float | None:
    slower = max((one.beyond for one in fixed_work(case.before, case.now)), default=None)
    whole = _dearer_or_slower(case)
    return min(1.0, math.log(slower) / whole) if slower is not None and whole > 0 else None


def _dearer_or_slower(case: Case) -> float:
    """Return the log of the cost per call or of the whole time, whichever grew more."""
    moved = case.signals.movement.ratio
    return max(case.signals.log_slowdown, moved if math.isfinite(moved) else 0.0)


def _machine_as_fast(case: Case) -> bool:
    a, b = case.before, case.now
    known = fixed_work(a, b)
    whole = max(0.0, _dearer_or_slower(case))
    most, nearly = math.exp(value("part.most") * whole), math.exp(value("machine.unsure") * whole)
    # Byte code needs what any program needs of a CPU: if its time scatters, it is not known whether that was there.
    return (
        bool(known)
        and one_machine(a, b)
        and all(one.factor <= max(most, one.scatter) for one in known)
        and all(one.scatter <= nearly for one in known if one.measured and one.name.startswith("bytecode"))
    )


COST_PER_CALL: Mapping[str, Reading] = {
    "others.moved": Reading(
        "factor",
        "median factor of the cost per call over all functions, up or down",
        lambda c: math.exp(abs(c.signals.movement.ratio)),
    ),
    "per-call": Reading(
        "factor", "cost per call, median over functions", lambda c: math.exp(c.signals.movement.ratio)
    ),
    "per-call.everywhere": Reading(
        "share",
        "part of the active time in functions of both sides whose cost per call grew",
        _dearer,
    ),
    "per-call.functions": Reading(
        "count",
        "functions whose cost per call is known",
        lambda c: float(c.signals.movement.functions),
    ),
    "yardstick.known": Reading(
        "bool",
        "the slow-down of the start-up work, which is the same on both sides, is known",
        lambda c: _yardstick(c) is not None,
        (more("yardstick.seconds", "yardstick.least"),),
    ),
    "yardstick.seconds": Reading(
        "s", "start-up work on the side with less of it", lambda c: min(_yardsticks(c))
    ),
    "yardstick.apart": Reading(
        "factor",
        "cost per call over the slow-down of the start-up work",
        lambda c: math.exp(c.signals.movement.ratio) / known if (known := _yardstick(c)) else None,
    ),
    "spread": Reading(
        "factor", "scatter of ln of the cost per call over functions", lambda c: c.signals.movement.spread
    ),
    "machines.differ": Reading(
        "bool",
        "the CPUs' models or the instructions in use differ",
        lambda c: models_differ(c.before, c.now) or bool(other_instructions(c.before, c.now)),
    ),
    "models.differ": Reading("bool", "the CPUs' models differ", lambda c: models_differ(c.before, c.now)),
    "instructions.differ": Reading(
        "bool",
        "variables select another instruction set",
        lambda c: bool(other_instructions(c.before, c.now)),
    ),
    "settings.slow": Reading(
        "bool",
        "a setting that is known to slow programs down is on in the candidate only",
        lambda c: bool(slowing(c.before, c.now)),
    ),
    "settings.named": Reading(
        "text",
        "the first of these settings",
        lambda c: next(
            (
                {"-X": f"-X {after}", "tool": after}.get(name, name)
                for name, _, after in slowing(c.before, c.now)
            ),
            None,
        ),
    ),
    "machine.one": Reading(
        "bool", "both ran on one host, with the same instructions", lambda c: one_machine(c.before, c.now)
    ),
    "machine.known": Reading(
        "bool",
        "both runs timed the same fixed work and know its scatter",
        lambda c: any(one.measured for one in fixed_work(c.before, c.now)),
    ),
    "machine.part": Reading(
        "share",
        "part of ln of the slow-down that the most slowed fixed work shows too, beyond its scatter",
        _machine_part,
    ),
    "machine.python": Reading(
        "factor",
        "cost per call of functions in Python that are called as often as before, median",
        _python_factor,
    ),
    "per-call.several": Reading(
        "count", "functions that matter and are called as often as before, whose cost per call grew", _several
    ),
    "machine.same": Reading(
        "bool",
        "both ran on one host, which did fixed work as fast as before",
        _machine_as_fast,
        (less("machine.part", "part.most"),),
    ),
}
