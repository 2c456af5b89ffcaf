"""CPU time, and what the times of functions show: their order, scatter, lost slices, signs of starvation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from profkit.compare.process_calls import Started, started
from profkit.compare.signals import Signals
from profkit.identity.lookup_columns import rows_where
from profkit.measure.function_orders import log_ratios
from profkit.measure.waits_by_name import also_computes, of_interpreter, waits_outside
from profkit.verdict.readings.known_values import of_known
from profkit.verdict.rule import Case, Reading, more
from profkit.verdict.thresholds import value


def worst_mover(signals: Signals) -> int:
    """Return the row of the function that changed most beyond noise, except waits; −1 if none did."""
    rows: list[int] = signals.table.anomalous.nonzero()[0].tolist()
    return next((row for row in rows if not signals.table.waits(row)), -1)


def periodic(case: Case) -> bool:
    """Return whether lost slices have one length beyond a scheduler's tick, as if a timer stopped it."""
    found = case.signals.lumps
    return (
        found.count >= value("lumps.fewest")
        and found.alike >= value("lumps.alike")
        and found.median_s >= value("lumps.ticks")
    )


def _started(case: Case) -> Started | None:
    return None if case.signals.table.by_share or not case.signals.exact else started(case.signals.table)


def _waited_outside(case: Case) -> float | None:
    table, lost = case.signals.table, case.account.program_s
    if lost <= 0:
        return None
    rows = rows_where(table.name, waits_outside)
    return float(table.candidate.tottime[rows].sum() - table.baseline.tottime[rows].sum()) / lost


def waited_row(case: Case) -> int:
    """Return the row of the function that waits by design and gained most; −1 where none gained."""
    table = case.signals.table
    gained = table.candidate.tottime - table.baseline.tottime
    for row in np.argsort(-gained, kind="stable").tolist():
        if gained[row] <= 0:
            break
        if table.waits(row):
            return int(row)
    return -1


def _beyond_slices(case: Case) -> float | None:
    """Return the part of the added time in native functions of Python that cost far more than the others.

    All that has one thread loses slices in proportion to its CPU time, but for what reads and writes files.
    """
    table, signals = case.signals.table, case.signals
    a, b = table.baseline, table.candidate
    added = np.maximum(b.tottime - a.tottime, 0.0)
    if not added.sum() > 0:
        return None
    least = math.log(value("starved.beyond")) + max(0.0, signals.movement.ratio)
    rows = (a.ncalls > 0) & (b.ncalls > 0) & rows_where(table.name, of_interpreter)
    rows &= log_ratios(a.tottime, a.ncalls, b.tottime, b.ncalls) >= least
    files = [
        row for row in np.flatnonzero(rows).tolist() if table.waits(row) or also_computes(table.name[row])
    ]
    rows[files] = False
    return float(added[rows].sum() / added.sum())


FUNCTION_TIMES: Mapping[str, Reading] = {
    "cpu.part": Reading(
        "share", "part of ln of the slow-down that is CPU time", lambda c: c.signals.cpu_part
    ),
    "order.moved": Reading(
        "bool", "the order of functions moved beyond the noise", lambda c: c.signals.ranking.reordered
    ),
    "order.tv": Reading(
        "share", "time that moved to other functions", lambda c: c.signals.ranking.total_variation
    ),
    "order.any": Reading(
        "bool",
        "a function, or time between functions, moved beyond the noise",
        lambda c: c.signals.moved or worst_mover(c.signals) >= 0,
    ),
    "functions": Reading("bool", "there are functions", lambda c: len(c.signals.table) > 0),
    "repeats.noisier": Reading(
        "factor",
        "mean over functions of ln of the ratio of their scatters over repeats",
        lambda c: c.signals.noisier,
    ),
    "repeats.known": Reading(
        "bool", "the scatter over repeats is known", lambda c: math.isfinite(c.signals.noisier)
    ),
    "lumps.periodic": Reading(
        "bool",
        "the lost slices have one length, as if a timer stopped the program",
        periodic,
        (
            more("lumps.count", "lumps.fewest"),
            more("lumps.alike", "lumps.alike"),
            more("lumps.median", "lumps.ticks"),
        ),
    ),
    "lumps.long": Reading(
        "bool",
        "the lost slices are longer than a scheduler gives to others",
        lambda c: c.signals.lumps.median_s > value("lumps.period"),
        (more("lumps.median", "lumps.period"),),
    ),
    "lumps.count": Reading("count", "time slices that short functions lost", lambda c: c.signals.lumps.count),
    "lumps.alike": Reading(
        "share", "part of the lost slices near their median length", lambda c: c.signals.lumps.alike
    ),
    "lumps.median": Reading("s", "median length of lost slices", lambda c: c.signals.lumps.median_s),
    "started.any": Reading(
        "bool",
        "a side started processes or threads, or is a rank: it may wait for its own program",
        of_known(_started, lambda found: found.any),
    ),
    "started.growth": Reading(
        "factor",
        "growth of the number of processes or threads started",
        of_known(_started, lambda found: found.growth),
    ),
    "started.processes": Reading(
        "count", "processes started", of_known(_started, lambda found: found.processes[1])
    ),
    "started.processes-before": Reading(
        "count", "started in the baseline", of_known(_started, lambda found: found.processes[0])
    ),
    "started.threads": Reading(
        "count", "threads started", of_known(_started, lambda found: found.threads[1])
    ),
    "started.threads-before": Reading(
        "count", "started in the baseline", of_known(_started, lambda found: found.threads[0])
    ),
    "waits.outside": Reading(
        "share",
        "part of the lost time in functions that wait for a socket, storage or a file's lock",
        _waited_outside,
    ),
    "waited.function": Reading(
        "text",
        "the function that waits by design and added most time",
        lambda c: c.signals.table.shown(waited_row(c)),
    ),
    "starved.holds": Reading(
        "bool",
        "the weighted signs of lost time slices are beyond the learnt threshold",
        lambda c: c.signals.starved.holds,
        (more("starved.probability", "starved.holds"),),
    ),
    "starved.probability": Reading(
        "share",
        "probability of starvation by the signs of lost time slices",
        lambda c: c.signals.starved.probability,
    ),
    "starved.beyond": Reading(
        "share",
        "part of the added time in native functions of Python whose cost per call grew by several times the factor "
        "of all functions: lost slices cost all of them about the same",
        _beyond_slices,
    ),
    "starved.one-function": Reading(
        "bool",
        "one function has most of the added time and no other lost a slice",
        lambda c: c.signals.movement.top_part > value("one-function.part") and c.signals.signs["hits"] <= 0,
        (more("function.part", "one-function.part"),),
    ),
}
