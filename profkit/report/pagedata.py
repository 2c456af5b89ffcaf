"""Figures → the JSON that a page's script draws from: columns, numbers as short as their digits allow.

Times have three digits, as displayed (six where a function matters, so that differences are right); counts
and ranks are exact. Nothing in the text looks like markup, so it can stand in a ``script`` element.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.compare.call_table import CallSide
from profkit.compare.stack_table import StackSide
from profkit.report.figures import (
    CallGraph,
    FunctionColumns,
    FunctionTable,
    ProcessStates,
    StackGraph,
    Timeline,
    TimelineSide,
    Track,
)
from profkit.report.text import shorten_middle, shorten_start

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Share of the self time from which a function's times are written with six digits.
FINE_SHARE = 1e-3
#: Characters of a name, a path or a reason from which a part is left out.
LONGEST_NAME = 300


def page_json(
    functions: FunctionTable | None,
    calls: CallGraph | None,
    stacks: StackGraph | None,
    timeline: Timeline | None,
) -> str:
    """Return what the page's script needs, for use inside ``<script type="application/json">``."""
    members = []
    if functions is not None:
        # By the candidate's rank, which then need not be written; what it lacks comes last.
        order = np.lexsort((functions.after.rank, functions.after.rank == 0))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        members.append(f'"functions":{_functions(functions, order, place)}')
        if calls is not None:
            members.append(f'"calls":{_calls(calls, place)}')
        if stacks is not None:
            members.append(f'"stacks":{_stacks(stacks, place)}')
    if timeline is not None:
        members.append(f'"timeline":[{",".join(map(_side, timeline.sides))}]')
    return "{" + ",".join(members) + "}"


def _text(value: object) -> str:
    """JSON in ASCII, in which no tag, comment or line separator can begin."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"


def _list(values: Iterable[Any]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def _seconds(values: Floats, fine: npt.NDArray[np.bool_] | None = None, most: int = 6) -> str:
    """Nanoseconds with three digits, `most` where `fine`: ``1.2345`` s is ``123e7``, or ``123450e4``."""
    nanoseconds = np.where(np.isfinite(values), values, 0.0) * 1e9
    size = np.maximum(np.abs(nanoseconds), 0.5)
    digits = 3 if fine is None else np.where(fine, most, 3)
    power = np.maximum(np.floor(np.log10(size)) + 1 - digits, 0).astype(np.int64)
    whole = np.rint(nanoseconds / 10.0**power).astype(np.int64)
    return _list(
        f"{digit}e{tens}" if tens > 1 and digit else digit * 10**tens
        for digit, tens in zip(whole.tolist(), power.tolist(), strict=True)
    )


def _shares(values: Floats) -> str:
    """Hundredths as whole numbers; −1: not known."""
    known = np.isfinite(values)
    return _list(np.where(known, np.rint(100 * np.where(known, values, 0.0)), -1).astype(np.int64).tolist())


def _functions(table: FunctionTable, order: Ints, place: Ints) -> str:
    sides = (table.after,) if table.before is None else (table.before, table.after)
    fine = table.marked.copy()
    for side in sides:
        fine |= side.tottime >= FINE_SHARE * side.tottime.sum()
    fine = fine[order]
    members = {
        "by": _text(table.by),
        "start": str(int(place[table.start]) if table.start >= 0 else -1),
        "present": str(int((table.after.rank > 0).sum())),
        "places": _text([shorten_start(place, LONGEST_NAME) for place in table.places]),
        "roots": _text(table.roots),
        "names": _text([shorten_middle(table.names[i], LONGEST_NAME) for i in order.tolist()]),
        "place": _list(table.place[order].tolist()),
        "line": _list(table.line[order].tolist()),
        "marked": _list(np.flatnonzero(table.marked[order]).tolist()),
        "match": _text({str(int(place[row])): match for row, match in table.match.items()}),
        "reason": _text(
            {
                str(int(place[row])): shorten_middle(reason, LONGEST_NAME)
                for row, reason in table.reason.items()
            }
        ),
        "after": _columns(table.after, order, fine, None),
        "before": "null" if table.before is None else _columns(table.before, order, fine, table.after),
    }
    if table.uncounted:
        members["uncounted"] = "true"
    return _object(members)


def _columns(
    columns: FunctionColumns, order: Ints, fine: npt.NDArray[np.bool_], other: FunctionColumns | None
) -> str:
    """One side; the baseline's counts are differences from the candidate's, most of them 0."""
    calls = columns.ncalls if other is None else columns.ncalls - other.ncalls
    members = {
        "ncalls": _list(calls[order].tolist()),
        "tottime": _seconds(columns.tottime[order], fine),
        "cumtime": _seconds(columns.cumtime[order], fine),
        # Exact, since shares are made of them.
        "total": repr(float(columns.tottime.sum())),
        "most": repr(float(columns.cumtime.max(initial=0.0))),
    }
    if other is not None:
        members["rank"] = _list(columns.rank[order].tolist())
    if columns.wait is not None and columns.wait.any():
        members["wait"] = _seconds(columns.wait[order])
    for name, rows in (("estimated", columns.estimated), ("unknown", columns.unknown)):
        if rows is not None and rows.any():
            members[name] = _list(np.flatnonzero(rows[order]).tolist())
    return _object(members)


def _calls(graph: CallGraph, place: Ints) -> str:
    return _object(
        {
            "caller": _list(place[graph.caller].tolist()),
            "callee": _list(place[graph.callee].tolist()),
            "after": _pair(graph.after, None),
            "before": "null" if graph.before is None else _pair(graph.before, graph.after),
            "left_out": str(graph.left_out),
            "left_out_s": repr(graph.left_out_s),
        }
    )


def _pair(columns: CallSide, other: CallSide | None) -> str:
    calls = columns.ncalls if other is None else columns.ncalls - other.ncalls
    return _object({"ncalls": _list(calls.tolist()), "cumtime": _seconds(columns.cumtime)})


def _stacks(graph: StackGraph, place: Ints) -> str:
    table = graph.table
    rows = np.where(table.row >= 0, place[table.row], -1)
    sides = [_stack_side(side, count) for side, count in zip(table.sides, graph.iterations, strict=True)]
    return _object(
        {
            "depth": _list(table.depth.tolist()),
            "row": _list(rows.tolist()),
            "again": _list(np.flatnonzero(table.again).tolist()),
            "measured": _text(table.measured),
            "waits": _text(graph.waits),
            "after": sides[-1],
            "before": sides[0] if len(sides) > 1 else "null",
        }
    )


def _stack_side(side: StackSide, iterations: int | None) -> str:
    members = {
        "ncalls": _list(np.rint(side.ncalls).astype(np.int64).tolist()),
        "own": _seconds(side.own, np.ones(len(side.own), np.bool_), 4),
        "iterations": _text(iterations),
    }
    for name, part in (("queued", side.queued), ("blocked", side.blocked)):
        shares = np.divide(part, side.own, where=side.own > 0, out=np.zeros(len(part))).clip(0, 1)
        if shares.any():
            members[name] = _shares(shares)
    return _object(members)


def _side(side: TimelineSide) -> str:
    members = {
        "label": _text(side.label),
        "seconds": repr(float(side.seconds)),
        "tracks": "[" + ",".join(map(_track, side.tracks)) + "]",
        "processes": "[" + ",".join(map(_states, side.processes)) + "]",
        "cpus": _text(side.cpus),
    }
    if side.runnable is not None:
        members["runnable"] = _tenths(side.runnable)
    if side.gpu is not None:
        members["gpu"] = _shares(side.gpu)
    return _object(members)


def _tenths(values: Floats) -> str:
    """Numbers with at most one decimal; −1: not known."""
    return _list(f"{v:.1f}".removesuffix(".0") if np.isfinite(v) else -1 for v in values.tolist())


def _track(track: Track) -> str:
    members = {
        "label": _text(track.label),
        "names": _text([shorten_middle(name, LONGEST_NAME) for name in track.name]),
        "name": _list(track.range_name.tolist()),
        "depth": _list(track.depth.tolist()),
        # Microseconds: finer than a pixel of any zoom that is offered.
        "begin": _list(np.rint(track.begin_s * 1e6).astype(np.int64).tolist()),
        "took": _list(np.rint((track.end_s - track.begin_s) * 1e6).astype(np.int64).tolist()),
        "left_out": str(track.left_out),
    }
    return _object(members)


def _states(states: ProcessStates) -> str:
    members = {
        "label": _text(states.label),
        "running": _shares(states.running),
        "queued": _shares(states.queued),
    }
    if states.functions is not None:
        members["functions"] = _track(states.functions)
    return _object(members)
