"""What importing took, by package, of one run and of two sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.measure.import_table import MATTER_PART, ImportedPackage, Imports, matters
from profkit.report import units
from profkit.report.document import Pair, Section
from profkit.report.jsonvalues import members
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.verdict.types import Diff

#: Part of the longest import, or of the greatest change, below which a package gets no row.
LEAST_PART = 0.05
#: Packages on the first screen.
BRIEF = 3
_Row = tuple[ImportedPackage | None, ImportedPackage | None]


def import_sections(found: Imports | None, limit: int) -> list[Section]:
    if found is None or not found.matter:
        return []
    least = LEAST_PART * max((row.seconds for row in found.packages), default=0.0)
    others = found.seconds > found.main_s
    table = Listed((row for row in found.packages if row.seconds >= least or not limit), limit).table(
        Of("package", lambda row: clean(row.package), "name"),
        Of("seconds", lambda row: row.seconds, "seconds"),
        Of("main process", lambda row: row.main_s, "seconds", 1, there=others),
        Of("processes", lambda row: row.processes, "count", 2, there=others),
        notes=(_note(units.seconds(found.seconds), others),),
    )
    return [Section("Imports", (table,))]


def import_line(found: Imports | None) -> str:
    if found is None or not found.matter:
        return ""
    longest = (f"{clean(row.package)} {units.seconds(row.seconds)}" for row in found.packages[:BRIEF])
    return f"Imports took {units.seconds(found.seconds)}: {', '.join(longest)}."


def import_change_sections(diff: Diff, limit: int) -> list[Section]:
    """Return the table of two sides, greatest change first; empty if imports matter on neither."""
    if not any(side is not None and side.matter for side in diff.imports):
        return []
    was, now = _totals(diff)
    rows = _paired(diff)
    least = LEAST_PART * max((max(map(_seconds, row)) for row in rows), default=0.0)
    others = any(side is not None and side.seconds > side.main_s for side in diff.imports)

    def both(name: str) -> Callable[[_Row], Pair]:
        return lambda row: Pair(*(0 if one is None else getattr(one, name) for one in row))

    table = Listed((row for row in rows if max(map(_seconds, row)) >= least or not limit), limit).table(
        Of("package", lambda row: clean(_package(row)), "name"),
        Of("baseline", lambda row: None if row[0] is None else row[0].seconds, "seconds"),
        Of("candidate", lambda row: None if row[1] is None else row[1].seconds, "seconds"),
        Of("change", lambda row: Pair(*map(_seconds, row)), "change"),
        Of("main process", both("main_s"), "change", 2, there=others),
        Of("processes", both("processes"), "count", 1, there=others),
        notes=(_note(f"{units.seconds(was)} → {units.seconds(now)}", others),),
    )
    return [Section("Imports", (table,))]


def import_change_line(diff: Diff) -> str:
    """Return the greatest changes in a line; empty if they explain little of the wall difference."""
    was, now = _totals(diff)
    account = diff.account
    part = abs(now - was) >= MATTER_PART * abs(account.candidate_s - account.baseline_s)
    if not (part and matters(now - was, account.baseline_s)):
        return ""
    most = [f"{clean(_package(row))} {units.change(*map(_seconds, row))}" for row in _paired(diff)[:BRIEF]]
    return f"Imports took {units.seconds(was)} → {units.seconds(now)}{': ' if most else ''}{', '.join(most)}."


def import_changes_object(diff: Diff) -> dict[str, Any] | None:
    """Return two sides' imports as JSON, greatest change first; ``None`` if neither has any."""
    if diff.imports == (None, None):
        return None
    return {
        **_sides(diff.imports, "seconds main_s"),
        "packages": [
            {"package": _package(row), **_sides(row, "seconds main_s processes")} for row in _paired(diff)
        ],
    }


def _sides(sides: tuple[object, object], names: str) -> dict[str, Any]:
    both = zip(("baseline", "candidate"), sides, strict=True)
    return {name: None if side is None else members(side, names) for name, side in both}


def _note(took: str, others: bool) -> str:
    summed = " over all processes, which may import at the same time" if others else ""
    return f"Importing took {took}{summed}. A package's seconds include what it imports, so that packages overlap."


def _totals(diff: Diff) -> tuple[float, float]:
    before, after = (0.0 if side is None else side.seconds for side in diff.imports)
    return before, after


def _paired(diff: Diff) -> list[_Row]:
    before, after = (
        {} if side is None else {row.package: row for row in side.packages} for side in diff.imports
    )
    rows: list[_Row] = [(before.get(package), after.get(package)) for package in {**before, **after}]
    return sorted(rows, key=lambda row: -abs(_seconds(row[1]) - _seconds(row[0])))


def _package(row: _Row) -> str:
    return next(one.package for one in row if one is not None)


def _seconds(one: ImportedPackage | None) -> float:
    return 0.0 if one is None else one.seconds
