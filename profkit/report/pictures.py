"""Results → the figures of a page, and the JSON from which its script draws; only renderers that draw request them.

Times have three digits (six where a function matters, for its differences); counts and ranks are exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from profkit.compare.call_table import CallSide
from profkit.compare.function_table import side_table
from profkit.compare.result_types import SideTable
from profkit.compare.stack_table import (
    StackSide,
    StackTable,
    placed_paths,
    stacks_of_pairs,
    stacks_of_paths,
)
from profkit.measure.iterations import IterationModel
from profkit.measure.selected_processes import select
from profkit.model import FunctionKey, Run
from profkit.model.arrays import Bools, Floats, Index, Ints
from profkit.report.figures import Figures, Slope, Slopes
from profkit.report.functions import ranked_run, seconds_by, working
from profkit.report.text import clean, shorten_middle, shorten_start
from profkit.report.timeline import timeline
from profkit.report.waits import waits
from profkit.report.wording.functions import display_name, location, match_text, moved_text
from profkit.verdict.types import Diff

#: Functions that get a label: with fewer, sentences say as much; more cannot be told apart at a glance.
LEAST_LABELS, MOST_LABELS = 6, 12
#: Functions up to this rank on either side are drawn faintly; rankings are compared by them.
FAINT_RANKS = 50


def slopes(diff: Diff) -> Slopes | None:
    """Return the functions to draw, without waits; ``None`` if fewer than `LEAST_LABELS` moved."""
    table, by = diff.table, diff.ranking.by
    before, after = table.baseline, table.candidate
    times = seconds_by(before, by), seconds_by(after, by)
    marked = working(table, table.anomalous)
    if len(marked) < LEAST_LABELS:
        return None
    most = float(np.abs(times[1] - times[0])[marked].max(initial=0.0)) or 1.0
    labelled = marked[:MOST_LABELS]
    near = ((before.rank > 0) & (before.rank <= FAINT_RANKS)) | (
        (after.rank > 0) & (after.rank <= FAINT_RANKS)
    )
    near[labelled] = False
    # On a side that may have missed a function, it has no rank.
    near &= (before.present & after.present) | table.one_sided
    rows = np.concatenate([labelled, working(table, near)])

    def line(place: int, row: int) -> Slope:
        was, now = float(times[0][row]), float(times[1][row])
        named = place < len(labelled)
        return Slope(
            display_name(table.name[row]),
            int(before.rank[row]) or None,
            int(after.rank[row]) or None,
            was,
            now,
            "" if not named else "bad" if now > was else "good",
            abs(now - was) / most if named else 0.0,
        )

    lines = tuple(line(place, row) for place, row in enumerate(rows.tolist()))
    return Slopes(lines, by, len(marked) - len(labelled))


#: Share of the self time from which a function's times have six digits.
FINE_SHARE = 1e-3
#: Most characters of a name, a path or a reason.
LONGEST_NAME = 300
#: Most pairs of caller and callee; a report of 10,000 functions then stays below 1 MB.
MOST_CALLS = 7000


class Written(str):
    """Text that is JSON already."""

    __slots__ = ()


def diff_figures(diff: Diff, baseline: Run, candidate: Run) -> Figures:
    """Return a comparison's figures; states and timeline are those of the given runs."""
    sides = (("baseline", baseline), ("candidate", candidate))
    table, calls = diff.table, diff.calls
    moved = np.flatnonzero(table.anomalous).tolist()
    working = (i for i in moved if table.candidate.present[i] and not table.waits(i))
    both = (table.baseline, table.candidate)
    functions, place = _functions(
        table.keys, table.file, table.name, table.line, both, by=diff.ranking.by, marked=table.anomalous
    )
    functions["start"] = next((int(place[row]) for row in working), -1)
    functions["match"] = {
        str(place[row]): match for row, match in enumerate(table.match) if match_text(match)
    }
    functions["reason"] = {
        str(place[row]): shorten_middle(clean(moved_text(table, row)), LONGEST_NAME) for row in moved
    }
    functions["ratio"] = _factors(table.per_call_ratio[np.argsort(place)])
    if table.by_share:
        # A sampled side has no call counts.
        functions["uncounted"] = True
    pairs = None if calls is None else (calls.caller, calls.callee, (calls.baseline, calls.candidate))
    waited = all(side.wait is not None for side in both)
    stacks = None if pairs is None else diff.stacks or stacks_of_pairs(*pairs, both)
    return Figures(
        functions,
        None if pairs is None else _calls(*pairs, place),
        None if stacks is None else _stacks(stacks, waited, _iterations(diff.iterations), place),
        timeline(sides),
        slopes(diff),
        waits(sides),
    )


def run_figures(run: Run, by: str) -> Figures:
    found = ranked_run(run, by, edges=True)
    profile, edges = found.profile, found.profile.edges
    n = len(profile)
    rank = np.empty(n, np.int64)
    rank[found.order] = np.arange(1, n + 1)
    side = side_table(profile, np.arange(n), rank, profile.tottime, by, active=True)
    functions, place = _functions(
        found.keys,
        [profile.strings[i] for i in profile.file.tolist()],
        [profile.function(row)[0] for row in range(n)],
        profile.line,
        (side,),
        by=by,
        marked=np.zeros(n, np.bool_),
    )
    each = (profile.tottime / np.maximum(profile.ncalls, 1))[np.argsort(place)]
    # In picoseconds: a call may take a few nanoseconds. From 1000 s on, tables show whole seconds.
    functions["each"] = _seconds(1e3 * each, np.where(each < 999.5, 3, 6))
    calls = stacks = None
    if edges is not None:
        order = np.lexsort((edges.caller, edges.callee))
        columns = CallSide(edges.ncalls[order], edges.tottime[order], edges.cumtime[order])
        pairs = edges.caller[order], edges.callee[order], (columns,)
        traced = placed_paths(select(run, edges=False))
        table = stacks_of_pairs(*pairs, (side,)) if traced is None else stacks_of_paths(((traced,),))
        calls = _calls(*pairs, place)
        stacks = None if table is None else _stacks(table, profile.wait is not None, (None,), place)
    sides = (("", run),)
    return Figures(functions, calls, stacks, timeline(sides), waits=waits(sides))


def page_json(figures: Figures) -> str:
    members = {name: getattr(figures, name) for name in ("functions", "calls", "stacks", "timeline")}
    return _json({name: member for name, member in members.items() if member})


def _functions(
    keys: Sequence[FunctionKey],
    files: Sequence[str],
    names: Sequence[str],
    lines: Iterable[int],
    sides: Sequence[SideTable],
    *,
    by: str,
    marked: Bools,
) -> tuple[dict[str, Any], Ints]:
    """Return the functions of one or two sides as columns, and the index of each row in them.

    `start`, `match` and `reason` are those of a single run, where no function moved.
    """
    after, before = sides[-1], sides[0] if len(sides) > 1 else None
    # Order by the candidate's rank, which then need not be written; functions that it lacks come last.
    order = np.lexsort((after.rank, after.rank == 0))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    places, roots, at = _places(keys, files)
    fine = marked.copy()
    for side in sides:
        fine |= side.active >= FINE_SHARE * side.active.sum()
    digits = np.where(fine[order], 6, 3)
    members = {
        "by": by,
        "start": -1,
        "present": int((after.rank > 0).sum()),
        "places": [shorten_start(text, LONGEST_NAME) for text in places],
        "roots": roots,
        "names": [shorten_middle(display_name(names[i]), LONGEST_NAME) for i in order.tolist()],
        "place": at[order].tolist(),
        "line": np.fromiter(lines, np.int32, len(order))[order].tolist(),
        "marked": np.flatnonzero(marked[order]).tolist(),
        "match": {},
        "reason": {},
        "after": _columns(after, order, digits, None),
        "before": None if before is None else _columns(before, order, digits, after),
    }
    return members, place


def _places(keys: Sequence[FunctionKey], files: Sequence[str]) -> tuple[list[str], list[str], Index]:
    """Return distinct files relative to their roots, the root of each, and the file index of each row."""
    known: dict[tuple[str, str, str], int] = {}
    # The file counts only where the key has no path, as for built-in and generated code.
    rows = ((key.root, key.path, "" if key.path else file) for key, file in zip(keys, files, strict=True))
    place = np.fromiter((known.setdefault(row, len(known)) for row in rows), np.int32, len(keys))
    places = [location(FunctionKey(root, path, ""), file, 0) for root, path, file in known]
    return places, [clean(root) for root, _, _ in known], place


def _columns(side: SideTable, order: Ints, digits: Ints, other: SideTable | None) -> dict[str, Any]:
    """Return one side's columns; counts of the baseline are differences from the candidate's, mostly 0."""
    calls = side.ncalls if other is None else side.ncalls - other.ncalls
    members: dict[str, Any] = {
        "ncalls": calls[order].tolist(),
        "tottime": _seconds(side.active[order], digits),
        "cumtime": _seconds(side.cumtime[order], digits),
        # Exact, since shares are computed from them.
        "total": float(side.active.sum()),
        "most": float(side.cumtime.max(initial=0.0)),
    }
    if other is not None:
        members["rank"] = side.rank[order].tolist()
    if side.wait is not None and side.wait.any():
        members["wait"] = _seconds(side.wait[order])
    if side.calls_low is not None and side.calls_high is not None:
        known = {"estimated": side.calls_low < side.calls_high, "unknown": np.isnan(side.calls_low)}
        members |= {name: np.flatnonzero(rows[order]).tolist() for name, rows in known.items() if rows.any()}
    return members


def _calls(caller: Index, callee: Index, sides: Sequence[CallSide], place: Ints) -> dict[str, Any]:
    """Return the heaviest pairs; each of the `left_out` others takes at most `left_out_s` seconds."""
    heavy = np.maximum.reduce([side.cumtime for side in sides])
    keep = heavy > 0
    if int(keep.sum()) > MOST_CALLS:
        keep[np.argsort(-heavy, kind="stable")[MOST_CALLS:]] = False

    def pairs(side: CallSide, other: CallSide | None) -> dict[str, Any]:
        calls = side.ncalls if other is None else side.ncalls - other.ncalls
        return {"ncalls": calls[keep].tolist(), "cumtime": _seconds(side.cumtime[keep])}

    return {
        "caller": place[caller[keep]].tolist(),
        "callee": place[callee[keep]].tolist(),
        "after": pairs(sides[-1], None),
        "before": pairs(sides[0], sides[-1]) if len(sides) > 1 else None,
        "left_out": int((~keep).sum()),
        "left_out_s": float(heavy[~keep].max(initial=0.0)),
    }


def _iterations(models: tuple[IterationModel | None, IterationModel | None]) -> tuple[int | None, int | None]:
    """Return the iterations of both sides, including those left out of the statistics."""
    before, after = models
    if before is None or after is None:
        return None, None
    counts = before.count + before.left_out, after.count + after.left_out
    return counts if min(counts) > 0 else (None, None)


def _stacks(table: StackTable, waits: bool, iterations: Sequence[int | None], place: Ints) -> dict[str, Any]:
    """Return calling contexts; `waits`: waiting was measured; the script divides by `iterations`."""
    sides = [_stack_side(side, count) for side, count in zip(table.sides, iterations, strict=True)]
    return {
        "depth": table.depth.tolist(),
        "row": np.where(table.row >= 0, place[table.row], -1).tolist(),
        "again": np.flatnonzero(table.again).tolist(),
        "measured": table.measured,
        "waits": waits,
        "after": sides[-1],
        "before": sides[0] if len(sides) > 1 else None,
    }


def _stack_side(side: StackSide, iterations: int | None) -> dict[str, Any]:
    members = {
        "ncalls": np.rint(side.ncalls).astype(np.int64).tolist(),
        "own": _seconds(side.own, 4),
        "iterations": iterations,
    }
    for name, part in (("queued", side.queued), ("blocked", side.blocked)):
        shares = np.divide(part, side.own, where=side.own > 0, out=np.zeros(len(part))).clip(0, 1)
        if shares.any():
            members[name] = _shares(shares)
    return members


# Numbers and texts ---------------------------------------------------------------------------------------------


def _json(value: Any, name: str = "") -> str:
    """Return ASCII JSON without ``<``, ``>`` or ``&``, safe in a ``script``; records drop ``None`` fields."""
    if isinstance(value, Written):
        return value
    if isinstance(value, np.ndarray):
        write = _ARRAYS.get(name)
        return _list(value.tolist()) if write is None else write(value)
    if is_dataclass(value):
        # These counts are written beside the figure.
        members = {f.name: getattr(value, f.name) for f in fields(value) if not f.name.endswith("left_out")}
        value = {name: member for name, member in members.items() if member is not None}
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_json(key)}:{_json(item, key)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return _list(_json(item, name) for item in value)
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _list(values: Iterable[Any]) -> Written:
    return Written("[" + ",".join(map(str, values)) + "]")


def _seconds(values: Floats, digits: int | Ints = 3) -> Written:
    """Write nanoseconds with so many digits: 1.2345 s is ``123e7``, or with six ``123450e4``."""
    nanoseconds = np.where(np.isfinite(values), values, 0.0) * 1e9
    size = np.maximum(np.abs(nanoseconds), 0.5)
    power = np.maximum(np.floor(np.log10(size)) + 1 - digits, 0).astype(np.int64)
    whole = np.rint(nanoseconds / 10.0**power).astype(np.int64)
    return _list(
        f"{digit}e{tens}" if tens > 1 and digit else digit * 10**tens
        for digit, tens in zip(whole.tolist(), power.tolist(), strict=True)
    )


def _factors(values: Floats) -> Written:
    """Write factors with the decimals that tables show; unknown is −1."""

    def text(value: float) -> str:
        if not np.isfinite(value):
            return "-1"
        if 0 < value < 0.01:
            return f"{min(value, 0.0099):.2g}"
        return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"

    return _list(map(text, values.tolist()))


def _shares(values: Floats) -> Written:
    """Write hundredths as whole numbers; unknown is −1."""
    known = np.isfinite(values)
    return _list(np.where(known, np.rint(100 * np.where(known, values, 0.0)), -1).astype(np.int64).tolist())


def _tenths(values: Floats) -> Written:
    """Write numbers with at most one decimal; unknown is −1."""
    return _list(f"{v:.1f}".removesuffix(".0") if np.isfinite(v) else -1 for v in values.tolist())


def _microseconds(values: Floats) -> Written:
    """Write whole microseconds, finer than a pixel at any zoom."""
    return _list(np.rint(values * 1e6).astype(np.int64).tolist())


#: How arrays of a timeline are written, by field.
_ARRAYS: Mapping[str, Callable[[Floats], str]] = {
    "running": _shares,
    "queued": _shares,
    "gpu": _shares,
    "runnable": _tenths,
    "begin": _microseconds,
    "took": _microseconds,
}
