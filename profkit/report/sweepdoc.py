"""`Results` of a study → `Document` or JSON: the best setting, all settings, and how two parameters go together."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass

from profkit.report import units
from profkit.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    HeatCell,
    HeatMap,
    Row,
    Section,
    Table,
)
from profkit.report.wording import LACKED, interval_text, study_notes, study_verdict
from profkit.study.cells import Cell, Results
from profkit.study.space import UNSET, Space

__all__ = ["SweepReport"]

#: Ratio to the best from which a cell of the heat map is as bad as it gets, at least: noise shall not look like much.
LEAST_SCALE = 1.5


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A study of settings.

    Attributes
    ----------
    study
        Its figures.
    space
        What was varied in which command.
    directory
        Where its runs are.
    """

    study: Results
    space: Space
    directory: str

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        study = self.study
        sections = [Section("", (study_verdict(study),))]
        heat = _heat(study)
        if heat is not None:
            sections.append(Section("Time by setting", (heat,), role="account"))
        sections.append(Section("Settings, fastest first", (_table(study, rows),), role="account"))
        notes = study_notes(study)
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        use = self._use()
        if use:
            sections.append(Section("What to do next", use, role="advice"))
        return Document("profkit sweep", tuple(sections))

    def _use(self) -> tuple[Block, ...]:
        """The command with the best setting, and the comparison with the baseline."""
        if self.study.best is None:
            return ()
        setting = self.study.cells[self.study.best].setting
        return (Bullets((_shell(self.space, setting),), commands=True),)

    def json(self, rows: int) -> str:
        """See `profkit.report.reports.Report`: all settings, whatever `rows` is."""
        study = self.study
        document = {
            "schema": "profkit.sweep/1",
            "command": list(self.space.command),
            "parameters": [
                {"name": p.name, "environment": p.environment, "values": list(p.values)} for p in study.parameters
            ],
            "baseline": study.baseline,
            "best": study.best,
            "spread": _number(study.spread),
            "cells": [_cell_json(study, cell) for cell in study.cells],
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _cell_json(study: Results, cell: Cell) -> dict[str, object]:
    names = [parameter.name for parameter in study.parameters]
    return {
        "setting": dict(zip(names, cell.setting, strict=True)),
        "times_s": list(cell.times),
        **{
            name: _number(getattr(cell, field))
            for name, field in (
                ("median_s", "median"),
                ("low_s", "low"),
                ("high_s", "high"),
                ("speedup", "speedup"),
                ("efficiency", "efficiency"),
                ("cores", "cores"),
                ("queue_share", "queue_share"),
                ("blocked_share", "blocked_share"),
            )
        },
        "cause": cell.cause or None,
        "kind": cell.kind or None,
        "best": cell.best,
        "failed": cell.failed,
        "disturbed": cell.disturbed,
        "problem": cell.problem or None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _shell(space: Space, setting: tuple[str, ...]) -> str:
    """Return the command of a setting for a shell."""
    words = [
        f"{parameter.name}={shlex.quote(value)}"
        for parameter, value in zip(space.parameters, setting, strict=True)
        if parameter.environment and value != UNSET
    ]
    removed = [
        word
        for parameter, value in zip(space.parameters, setting, strict=True)
        if parameter.environment and value == UNSET
        for word in ("-u", parameter.name)
    ]
    prefix = ["env", *removed] if removed else []
    return " ".join([*prefix, *words, shlex.join(space.command_of(setting))])


def _table(study: Results, limit: int) -> Table:
    """All settings, the fastest first; those that may be the best are marked."""
    order = sorted(
        study.cells, key=lambda cell: (not math.isfinite(cell.median), cell.median if cell.times else 0.0)
    )
    shown = order[:limit] if limit else order
    columns = (
        *(Column(parameter.name, "text") for parameter in study.parameters),
        Column("median", "seconds"),
        Column("95 % interval", "text", 2),
        Column("speed-up", "factor"),
        Column("efficiency", "share", 4),
        Column("cores", "text", 3),
        Column("queued", "share", 1),
        Column("blocked", "share", 5),
        Column("lacks", "text", 2),
        Column("runs", "count", 3),
    )
    rows = tuple(
        Row(
            (
                *cell.setting,
                _known(cell.median),
                interval_text(cell),
                _known(cell.speedup),
                _known(cell.efficiency),
                f"{cell.cores:.1f}" if math.isfinite(cell.cores) else None,
                _known(cell.queue_share),
                _known(cell.blocked_share),
                _lacks(cell),
                len(cell.times),
            ),
            marked=cell.best,
        )
        for cell in shown
    )
    note = "● may be the best setting: these runs cannot tell it apart from the fastest."
    if len(shown) < len(order):
        note += f" {len(order) - len(shown)} slower settings are not listed."
    return Table(columns, rows, note).without_empty()


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _lacks(cell: Cell) -> str:
    if not cell.times and cell.failed:
        return "did not end well"
    return LACKED.get((cell.cause, cell.kind)) or LACKED.get((cell.cause, ""), "")


def _heat(study: Results) -> HeatMap | None:
    """The two parameters with the most values against each other; of the others, the best combination."""
    varied = sorted(
        (i for i, parameter in enumerate(study.parameters) if len(parameter.values) > 1),
        key=lambda i: -len(study.parameters[i].values),
    )
    if len(varied) < 2:
        return None
    down, across = sorted(varied[:2])
    rows, columns = study.parameters[down], study.parameters[across]
    cells: dict[tuple[str, str], Cell] = {}
    for cell in study.cells:
        if cell.times:
            key = cell.setting[down], cell.setting[across]
            if key not in cells or cell.median < cells[key].median:
                cells[key] = cell
    if not cells:
        return None
    medians = [cell.median for cell in cells.values()]
    least, scale = min(medians), math.log(max(max(medians) / min(medians), LEAST_SCALE))

    def shown(row: str, column: str) -> HeatCell:
        cell = cells.get((row, column))
        if cell is None:
            return HeatCell("–")
        return HeatCell(units.seconds(cell.median), math.log(cell.median / least) / scale, cell.best)

    note = "Median times; ● may be the best." + (
        " Of the other parameters, the best combination is shown." if len(varied) > 2 else ""
    )
    return HeatMap(
        f"{rows.name} ↓  {columns.name} →",
        columns.values,
        tuple((row, tuple(shown(row, column) for column in columns.values)) for row in rows.values),
        note,
    )
