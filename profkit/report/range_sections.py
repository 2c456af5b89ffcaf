"""NVTX ranges in both reports: tables for a `Document`, rows for JSON; `measure.range_stats` sums them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profkit.measure.range_functions import InsideRanges, RangeFunctions
from profkit.measure.range_stats import RangeChange, RangeKey, RangeRow
from profkit.report import units
from profkit.report.document import Column, Pair, Row, Section, Table
from profkit.report.jsonvalues import json_text
from profkit.report.text import clean
from profkit.report.wording import cut_note, display_name, location

#: Part of the ranges of one name that are longer (1) from which the two runs hardly overlap; the table marks
#: those rows. Two equal runs have 0.5.
HARDLY_OVERLAP = 0.9


def range_sections(
    rows: Sequence[RangeRow], unmatched: int, limit: int, period_s: float | None = None
) -> list[Section]:
    """Return the ranges of one run, at most `limit` rows (0: all).

    `unmatched` counts ends without a beginning, over all processes; `period_s` is the time between two
    readings of a thread's waiting (``None``: no readings).
    """
    if not rows:
        return []
    shown = rows[:limit] if limit else rows
    columns = (
        Column("range", "name"),
        Column("domain", "text", 6),
        Column("count", "count"),
        Column("total", "seconds"),
        Column("median", "seconds"),
        Column("p95", "seconds", 2),
        Column("CPU queue", "seconds", 5),
        Column("queued", "share", 1),
        Column("of parent", "share", 1),
        Column("parent", "text", 3),
        Column("unbalanced", "count", 4),
    )
    notes = [cut_note(len(shown), len(rows), "ranges")]
    if any(row.unbalanced for row in shown):
        notes.append("Unbalanced: began but never ended; their time is in no column.")
    if period_s is not None and any(row.wait_s is not None for row in shown):
        notes.append(
            f"Queued: share of the ranges' time in which their thread waited for a CPU, from readings every "
            f"{units.seconds(period_s)}; right for many ranges together, not for a single shorter one."
        )
    if unmatched:
        one = "1 end had" if unmatched == 1 else f"{unmatched:,} ends had"
        notes.append(f"{one} no beginning.")
    cells = tuple(Row(_cells(row)) for row in shown)
    table = Table(columns, cells, " ".join(note for note in notes if note))
    return [Section("NVTX ranges", (table.without_empty(),))]


def _cells(row: RangeRow) -> tuple[str | int | float | None, ...]:
    timed = row.median_s is not None
    return (
        _label(row.key),
        clean(row.key.domain),
        row.count,
        row.total_s if timed else None,
        row.median_s,
        row.p95_s,
        row.wait_s,
        row.wait_share,
        row.share_of_parent,
        "" if row.parent is None else _label(row.parent),
        row.unbalanced or None,
    )


def _label(key: RangeKey) -> str:
    name = clean(key.name) or "(no name)"
    return f"{name} (mark)" if key.mark else name


#: Functions that are listed for one range, and the share (1) of its time from which they are worth a row.
MOST_INSIDE = 5
SMALL_INSIDE = 0.02


def inside_sections(rows: Sequence[RangeRow], inside: InsideRanges, limit: int) -> list[Section]:
    """Return which functions ran inside the ranges of one run, for at most `limit` ranges (0: all)."""
    known = [
        (row.key, found) for row in rows if (found := inside.of(row.key)) is not None and found.functions
    ]
    if not known:
        return []
    shown = known[:limit] if limit else known
    columns = (
        Column("range", "name"),
        Column("opened by", "path", 2),
        Column("function inside", "name"),
        Column("self time", "seconds"),
        Column("of range", "share"),
        Column("calls", "count", 3),
        Column("CPU queue", "seconds", 1),
        Column("where", "path", 4),
    )
    table = []
    for key, found in shown:
        worth = [f for f in found.functions[:MOST_INSIDE] if f.share >= SMALL_INSIDE] or found.functions[:1]
        by = ", ".join(display_name(opener.name) for opener in found.opened_by)
        for i, function in enumerate(worth):
            table.append(
                Row(
                    (
                        _label(key) if i == 0 else "",
                        by if i == 0 else "",
                        display_name(function.name),
                        function.tottime,
                        function.share,
                        function.ncalls or None,
                        function.wait,
                        location(function.key, function.file, function.line),
                    )
                )
            )
    note = (
        f"Up to {MOST_INSIDE} functions of each range with at least {units.share(SMALL_INSIDE)} of its time, "
        f"ranges inside it included. {cut_note(len(shown), len(known), 'ranges')}"
    )
    return [Section("Functions inside NVTX ranges", (Table(columns, tuple(table), note.strip()),))]


def change_sections(changes: Sequence[RangeChange], limit: int) -> list[Section]:
    """Return a comparison's ranges, greatest change of total time first, at most `limit` rows (0: all)."""
    if not changes:
        return []
    shown = changes[:limit] if limit else changes
    columns = (
        Column("range", "name"),
        Column("domain", "text", 7),
        Column("baseline", "seconds"),
        Column("candidate", "seconds"),
        Column("median", "factor"),
        Column("p95", "factor", 2),
        Column("longer", "share", 1),
        Column("queued", "share", 3),
        Column("count", "count", 4),
        Column("share of parent", "share", 5),
    )
    rows = tuple(_change_row(change) for change in shown)
    notes = [cut_note(len(shown), len(changes), "ranges")]
    if any(change.slower is not None for change in shown):
        notes.append(
            "Longer: how often a range of the candidate takes longer than one of the baseline; 50 % is even."
        )
    if any(row.wait_share is not None for c in shown for row in (c.baseline, c.candidate) if row is not None):
        notes.append("Queued: share of the ranges' time in which their thread waited for a CPU.")
    if any(row.marked for row in rows):
        notes.append(f"● hardly overlap: beyond {units.share(HARDLY_OVERLAP)} either way.")
    table = Table(columns, rows, " ".join(note for note in notes if note))
    return [Section("NVTX ranges whose total changed most", (table.without_empty(),))]


def _change_row(change: RangeChange) -> Row:
    a, b = change.baseline, change.candidate
    slower = change.slower
    apart = slower is not None and not 1 - HARDLY_OVERLAP < slower < HARDLY_OVERLAP
    share_a, share_b = (None if row is None else row.share_of_parent for row in (a, b))
    wait_a, wait_b = (None if row is None else row.wait_share for row in (a, b))
    cells = (
        _label(change.key),
        clean(change.key.domain),
        None if a is None or a.median_s is None else a.total_s,
        None if b is None or b.median_s is None else b.total_s,
        change.median_ratio,
        change.p95_ratio,
        slower,
        None if wait_a is None and wait_b is None else Pair(wait_a, wait_b),
        Pair(None if a is None else a.count, None if b is None else b.count),
        None if share_a is None and share_b is None else Pair(share_a, share_b),
    )
    tone = "" if not apart or slower is None else "bad" if slower > 0.5 else "good"
    return Row(cells, apart, tone)


def range_objects(rows: Sequence[RangeRow], inside: InsideRanges, limit: int) -> list[dict[str, Any]]:
    """Return the rows of ``ranges`` in ``profkit.show/2``."""
    return [
        {**_named(row.key), **_numbers(row), **_inside(inside.of(row.key), limit)}
        for row in (rows[:limit] if limit else rows)
    ]


def _inside(found: RangeFunctions | None, limit: int) -> dict[str, Any]:
    if found is None:
        return {"opened_by": None, "functions_total": None, "functions": None}
    return {
        "opened_by": [
            {
                "name": json_text(opener.name),
                "file": json_text(opener.file),
                "line": opener.line,
                "root": opener.key.root,
                "path": json_text(opener.key.path),
                "count": opener.count,
            }
            for opener in found.opened_by
        ],
        "functions_total": len(found.functions),
        "functions": [
            {
                "name": json_text(function.name),
                "file": json_text(function.file),
                "line": function.line,
                "root": function.key.root,
                "path": json_text(function.key.path),
                "ncalls": function.ncalls,
                "tottime": function.tottime,
                "share": function.share,
                "wait": function.wait,
                "blocked": function.blocked,
            }
            for function in (found.functions[:limit] if limit else found.functions)
        ],
    }


def change_objects(changes: Sequence[RangeChange], limit: int) -> list[dict[str, Any]]:
    """Return the rows of ``ranges`` in ``profkit.diff/1``."""
    return [
        {
            "name": json_text(change.key.name),
            "domain": json_text(change.key.domain),
            "baseline": None if change.baseline is None else _numbers(change.baseline),
            "candidate": None if change.candidate is None else _numbers(change.candidate),
            "median_ratio": change.median_ratio,
            "p95_ratio": change.p95_ratio,
            "total_ratio": change.total_ratio,
            "slower": change.slower,
        }
        for change in (changes[:limit] if limit else changes)
    ]


def _named(key: RangeKey) -> dict[str, Any]:
    return {
        "name": json_text(key.name),
        "domain": json_text(key.domain),
        "kind": "mark" if key.mark else "range",
    }


def _numbers(row: RangeRow) -> dict[str, Any]:
    return {
        "count": row.count,
        "total_s": row.total_s,
        "median_s": row.median_s,
        "p95_s": row.p95_s,
        "parent": None if row.parent is None else json_text(row.parent.name),
        "share_of_parent": row.share_of_parent,
        "wait_s": row.wait_s,
        "wait_share": row.wait_share,
        "unbalanced": row.unbalanced,
        "names": row.names,
    }
