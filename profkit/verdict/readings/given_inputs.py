"""What both sides were given: sources, data and command."""

from __future__ import annotations

import math
from collections.abc import Mapping

from profkit.compare.comparability import without_directories
from profkit.identity.lookup_columns import rows_where
from profkit.measure.side_facts import SideFacts
from profkit.verdict.readings.code_and_calls import changed_above
from profkit.verdict.readings.known_values import factor, growth_of
from profkit.verdict.rule import Case, Reading, more
from profkit.verdict.thresholds import value


def _words(side: SideFacts) -> tuple[str, ...]:
    return without_directories(side.command, of_data=False)


def larger_inputs(a: SideFacts, b: SideFacts) -> tuple[tuple[str, float, float], ...]:
    """Return sizes by which the candidate worked on more data: (which, bytes before, after)."""
    found = []
    for name, before, after, throughout in (
        ("memory.peak", a.memory_bytes, b.memory_bytes, _more_memory_throughout(a, b)),
        ("bytes.read", a.read_bytes, b.read_bytes, False),
    ):
        if before and after and _larger(before, after, throughout):
            found.append((name, before, after))
    return tuple(found)


def _larger(before: float, after: float, throughout: bool) -> bool:
    factor = value("input.larger-throughout") if throughout else value("input.larger")
    return after >= factor * before and after - before >= value("input.larger-bytes")


def _more_memory_throughout(a: SideFacts, b: SideFacts) -> bool:
    """Return whether each of several repeats needed more memory than every run of the other side."""
    several = min(a.runs, b.runs) >= value("repeats.least")
    return several and (b.memory_least or 0.0) > (a.memory_most or math.inf)


def _alike(case: Case) -> float | None:
    loops = case.signals.loops
    return len(loops.rows) / (len(loops.rows) + loops.shorter) if loops.rows else None


def _power(case: Case) -> float | None:
    loops = case.signals.loops
    return case.signals.log_slowdown / math.log(loops.factor) if loops.rows else None


GIVEN_INPUTS: Mapping[str, Reading] = {
    "loops.functions": Reading(
        "count",
        "functions called as often as before that call others more often",
        lambda c: float(len(c.signals.loops.rows)),
    ),
    "loops.factor": Reading(
        "factor",
        "calls that these functions make, median over them",
        lambda c: c.signals.loops.factor,
    ),
    "loops.alike": Reading(
        "share", "part of the functions called as often, with other loops, whose loops are longer", _alike
    ),
    "loops.power": Reading("factor", "ln of the slow-down over ln of loops.factor", _power),
    "loops.subject": Reading(
        "text",
        "the function of loops.functions with most added calls",
        lambda c: c.signals.table.shown(c.signals.loops.rows[0] if c.signals.loops.rows else -1),
    ),
    "sources.same": Reading(
        "bool",
        "sources are known, and no function that matters has changed",
        lambda c: (
            c.signals.movement.changed_row < 0
            and c.signals.movement.below_row < 0
            and changed_above(c.signals) < 0
            and bool(rows_where(c.signals.table.same_source, bool).any())
        ),
    ),
    "input.larger": Reading(
        "bool",
        "more memory or more bytes read",
        lambda c: bool(larger_inputs(c.before, c.now)),
        (
            more("memory.growth", "input.larger"),
            more("memory.growth", "input.larger-throughout"),
            more("memory.added", "input.larger-bytes"),
            more("read.growth", "input.larger"),
            more("read.added", "input.larger-bytes"),
        ),
    ),
    "memory.growth": Reading(
        "factor",
        "growth of the memory; the lower threshold applies if each of several repeats needed more",
        lambda c: factor(c.before.memory_bytes, c.now.memory_bytes),
    ),
    "memory.added": growth_of("bytes", "added memory", lambda side: side.memory_bytes),
    "read.growth": Reading(
        "factor", "growth of the bytes read", lambda c: factor(c.before.read_bytes, c.now.read_bytes)
    ),
    "read.added": growth_of("bytes", "additional bytes read", lambda side: side.read_bytes),
    "command.differs": Reading(
        "bool",
        "the command lines differ, apart from the places of interpreter and script",
        lambda c: bool(c.before.command and c.now.command) and _words(c.before) != _words(c.now),
    ),
}
