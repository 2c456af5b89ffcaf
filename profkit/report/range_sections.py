"""NVTX ranges in both reports: sections of a `Document`, and rows of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profkit.measure.range_functions import InsideRanges, RangeFunction, RangeFunctions
from profkit.measure.range_stats import RangeChange, RangeKey, RangeRow
from profkit.model.surrogates import spelled_out
from profkit.report import units
from profkit.report.document import Pair, Section
from profkit.report.jsonvalues import members, plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.report.wording.functions import display_name, location

#: Probability (0 to 1) that a range of one side is longer from which rows are marked; equal runs have 0.5.
HARDLY_OVERLAP = 0.9


def range_sections(
    rows: Sequence[RangeRow], unmatched: int, limit: int, period_s: float | None = None
) -> list[Section]:
    """Return one run's ranges; `period_s` is the time between readings of a thread's waiting."""
    listed = Listed(rows, limit, "ranges")
    notes = [listed.cut]
    if any(row.unbalanced for row in listed.shown):
        notes.append("Unbalanced: began but never ended; their time is in no column.")
    if period_s is not None and any(row.wait_s is not None for row in listed.shown):
        notes.append(
            f"Queued: share of the ranges' time in which their thread waited for a CPU, from readings every "
            f"{units.seconds(period_s)}; accurate for many ranges together, not for a single shorter one."
        )
    if unmatched:
        notes.append(f"{units.counted(unmatched, 'end had', 'ends had')} no beginning.")
    table = listed.table(
        Of("range", lambda row: _label(row.key), "name"),
        Of("domain", lambda row: clean(row.key.domain), "text", 6),
        Of("count", lambda row: row.count, "count"),
        Of("total", _total, "seconds"),
        Of("median", lambda row: row.median_s, "seconds"),
        Of("p95", lambda row: row.p95_s, "seconds", 2),
        Of("CPU queue", lambda row: row.wait_s, "seconds", 5),
        Of("queued", lambda row: row.wait_share, "share", 1),
        Of("of parent", lambda row: row.share_of_parent, "share", 1),
        Of("parent", lambda row: "" if row.parent is None else _label(row.parent), "text", 3),
        Of("unbalanced", lambda row: row.unbalanced or None, "count", 4),
        notes=notes,
    )
    return [Section("NVTX ranges", (table,))]


def _total(row: RangeRow | None) -> float | None:
    return None if row is None or row.median_s is None else row.total_s


def _label(key: RangeKey) -> str:
    name = clean(key.name) or "(no name)"
    return f"{name} (mark)" if key.mark else name


#: Most functions listed for one range, and the share (0 to 1) of its time that makes one worth a row.
MOST_INSIDE = 5
SMALL_INSIDE = 0.02


def inside_sections(rows: Sequence[RangeRow], inside: InsideRanges, limit: int) -> list[Section]:
    known = [
        (row.key, found)
        for row in rows
        if (found := inside.get(row.key.pattern)) is not None and found.functions
    ]
    listed = Listed(known, limit, "ranges")
    most = min(MOST_INSIDE, limit // 2 or MOST_INSIDE)
    note = (
        f"Up to {most} functions of each range with at least {units.share(SMALL_INSIDE)} of its time, "
        "ranges inside it included."
    )
    table = Listed([one for key, found in listed.shown for one in _inside_rows(key, found, most)]).table(
        Of("range", lambda row: row[0], "name"),
        Of("opened by", lambda row: row[1], "path", 2),
        Of("function inside", lambda row: display_name(row[2].name), "name"),
        Of("self time", lambda row: row[2].tottime, "seconds"),
        Of("of range", lambda row: row[2].share, "share"),
        Of("calls", lambda row: row[2].ncalls or None, "count", 3),
        Of("CPU queue", lambda row: row[2].wait, "seconds", 1),
        Of("where", lambda row: location(row[2].key, row[2].file, row[2].line), "path", 4),
        notes=(note, listed.cut),
    )
    return [Section("Functions inside NVTX ranges", (table,))]


def _inside_rows(key: RangeKey, found: RangeFunctions, most: int) -> Iterator[tuple[str, str, RangeFunction]]:
    """Yield a range's functions that are worth a row, the first with the range's name and its openers."""
    worth = [f for f in found.functions[:most] if f.share >= SMALL_INSIDE] or found.functions[:1]
    by = ", ".join(display_name(opener.name) for opener in found.opened_by)
    for i, function in enumerate(worth):
        yield ("", "", function) if i else (_label(key), by, function)


def change_sections(changes: Sequence[RangeChange], limit: int) -> list[Section]:
    listed = Listed(changes, limit, "ranges")
    shown = listed.shown
    notes = [listed.cut]
    if any(change.slower is not None for change in shown):
        notes.append(
            "Longer: how often a range of the candidate takes longer than one of the baseline; 50 % is even."
        )
    if any(row.wait_share is not None for c in shown for row in (c.baseline, c.candidate) if row is not None):
        notes.append("Queued: share of the ranges' time in which their thread waited for a CPU.")
    if any(map(_tone, shown)):
        notes.append(
            f"● the two sides hardly overlap: more than {units.share(HARDLY_OVERLAP)} in one direction."
        )
    table = listed.table(
        Of("range", lambda change: _label(change.key), "name"),
        Of("domain", lambda change: clean(change.key.domain), "text", 7),
        Of("baseline", lambda change: _total(change.baseline), "seconds"),
        Of("candidate", lambda change: _total(change.candidate), "seconds"),
        Of("median", lambda change: change.median_ratio, "factor"),
        Of("p95", lambda change: change.p95_ratio, "factor", 2),
        Of("longer", lambda change: change.slower, "share", 1),
        Of("queued", lambda change: _both(change, "wait_share"), "share", 3),
        Of("count", lambda change: _both(change, "count"), "count", 4),
        Of("share of parent", lambda change: _both(change, "share_of_parent"), "share", 5),
        notes=notes,
        marked=lambda change: _tone(change) != "",
        tone=_tone,
    )
    return [Section("NVTX ranges whose total changed most", (table,))]


def _both(change: RangeChange, field: str) -> Pair:
    return Pair(
        *(None if row is None else getattr(row, field) for row in (change.baseline, change.candidate))
    )


def _tone(change: RangeChange) -> str:
    slower = change.slower
    if slower is None or 1 - HARDLY_OVERLAP < slower < HARDLY_OVERLAP:
        return ""
    return "bad" if slower > 0.5 else "good"


def range_objects(rows: Sequence[RangeRow], inside: InsideRanges, limit: int) -> list[dict[str, Any]]:
    """Return the rows of ``ranges`` in ``profkit.show/2``."""
    return [
        {
            **members(row, "name=key.name domain=key.domain"),
            "kind": "mark" if row.key.mark else "range",
            **_numbers(row),
            **_inside(inside.get(row.key.pattern), limit),
        }
        for row in rows[: limit or None]
    ]


def _inside(found: RangeFunctions | None, limit: int) -> dict[str, Any]:
    if found is None:
        return {"opened_by": None, "functions_total": None, "functions": None}
    return {
        "opened_by": plain(found.opened_by),
        "functions_total": len(found.functions),
        "functions": plain(found.functions[: limit or None]),
    }


def change_objects(changes: Sequence[RangeChange], limit: int) -> list[dict[str, Any]]:
    """Return the rows of ``ranges`` in ``profkit.diff/2``."""
    return [
        members(
            change,
            "name=key.name domain=key.domain baseline candidate median_ratio p95_ratio total_ratio slower",
            baseline=None if change.baseline is None else _numbers(change.baseline),
            candidate=None if change.candidate is None else _numbers(change.candidate),
        )
        for change in changes[: limit or None]
    ]


def _numbers(row: RangeRow) -> dict[str, Any]:
    return members(
        row,
        "count total_s median_s p95_s parent share_of_parent wait_s wait_share unbalanced names",
        parent=None if row.parent is None else spelled_out(row.parent.name),
    )
