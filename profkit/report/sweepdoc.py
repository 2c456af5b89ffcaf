"""`Results` of a study → `Document` or JSON: the best setting, all settings, and pairs of parameters."""

from __future__ import annotations

import json
import math
import operator
import shlex
from dataclasses import dataclass, replace

from profkit.measure.intervals import Estimate
from profkit.report.document import (
    Bullets,
    Column,
    Document,
    HeatCell,
    HeatMap,
    Row,
    Section,
    Table,
)
from profkit.report.wording import (
    LACKED,
    confirmed_verdict,
    figure,
    interval_text,
    study_notes,
    study_verdict,
    waterfall,
)
from profkit.study.cells import Cell, Results, gain
from profkit.study.space import UNSET, Space
from profkit.verdict.account import Account

#: Ratio to the best from which a cell of the heat map is as bad as it gets, at least: noise shall not look like much.
LEAST_SCALE = 1.5
#: Numbers of a cell, which are null where they are not known.
_FIGURES = ("median", "low", "high", "speedup", "efficiency", "cores", "queue_share", "blocked_share")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A study of settings; `compared` is the command that compares the advised setting with the baseline."""

    study: Results
    space: Space
    compared: tuple[str, ...] = ()

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        study = self.study
        sections = [Section("", (study_verdict(study),)), *_settings(study, rows)]
        if study.advised is not None and study.advised != study.baseline:
            commands = _next(self.space, study.cells[study.advised].setting, self.compared)
            sections.append(Section("What to do next", (Bullets(commands, commands=True),), role="advice"))
        return Document("profkit sweep", tuple(sections))

    def json(self, rows: int) -> str:
        """Return the JSON: all settings, whatever `rows` is."""
        document = {"schema": "profkit.sweep/1", **_study_json(self.study, self.space)}
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class TuneReport:
    """A search for the best setting; `study` holds the figures of all trials.

    `confirmed` are figures of the best settings and the default, repeated in turn (``None``: not done).
    `account` is where the default loses time against the advised setting (``None`` without profiles of both);
    `compared` is the command that compares them.
    """

    study: Results
    space: Space
    confirmed: Results | None = None
    account: Account | None = None
    compared: tuple[str, ...] = ()

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        last = self.confirmed or self.study
        if self.confirmed is None:
            verdict = study_verdict(self.study)
        else:
            verdict = confirmed_verdict(self.confirmed, _gain(self.confirmed))
        sections = [Section("", (verdict,))]
        better = last.advised is not None and not last.cells[last.baseline].best
        if better and self.account is not None:
            lost = replace(waterfall(self.account), sides=("advised", "default"))
            sections.append(Section("What the default loses", (lost,), role="account"))
        if self.confirmed is not None:
            title = "Run again, in turn"
            sections.append(Section(title, (_table(self.confirmed, rows),), role="account"))
        sections += _settings(self.study, rows)
        if better and last.advised is not None:
            commands = _next(self.space, last.cells[last.advised].setting, self.compared)
            sections.append(Section("What to do next", (Bullets(commands, commands=True),), role="advice"))
        return Document("profkit tune", tuple(sections))

    def json(self, rows: int) -> str:
        """Return the JSON: all settings, whatever `rows` is."""
        document: dict[str, object] = {"schema": "profkit.tune/1", **_study_json(self.study, self.space)}
        document["confirmed"] = None
        if self.confirmed is not None:
            gain = _gain(self.confirmed)
            document["confirmed"] = {
                **_study_json(self.confirmed, self.space),
                "gain": _number(gain.value),
                "gain_low": _number(gain.low),
                "gain_high": _number(gain.high),
            }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _gain(study: Results) -> Estimate:
    return Estimate(math.nan) if study.advised is None else gain(study, study.baseline, study.advised)


def _settings(study: Results, rows: int) -> list[Section]:
    heat = _heat(study)
    sections = [] if heat is None else [Section("By setting", (heat,), role="account")]
    sections.append(Section("Settings, best first", (_table(study, rows),), role="account"))
    notes = study_notes(study)
    if notes:
        sections.append(Section("Notes", (Bullets(tuple(notes)),)))
    return sections


def _study_json(study: Results, space: Space) -> dict[str, object]:
    return {
        "command": list(space.command),
        "parameters": [
            {"name": p.name, "environment": p.environment, "values": list(p.values)} for p in study.parameters
        ],
        "objective": study.objective.text,
        "maximise": study.objective.maximise,
        "baseline": study.baseline,
        "best": study.best,
        "advised": study.advised,
        "spread": _number(study.spread),
        "cells": [_cell_json(study, cell) for cell in study.cells],
    }


def _cell_json(study: Results, cell: Cell) -> dict[str, object]:
    names = [parameter.name for parameter in study.parameters]
    return {
        "setting": dict(zip(names, cell.setting, strict=True)),
        "values": list(cell.times),
        **{name: _number(getattr(cell, name)) for name in _FIGURES},
        "cause": cell.cause or None,
        "kind": cell.kind or None,
        "best": cell.best,
        "failed": cell.failed,
        "ended_early": cell.ended_early,
        "disturbed": cell.disturbed,
        "problem": cell.problem or None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _next(space: Space, setting: tuple[str, ...], compared: tuple[str, ...]) -> tuple[str, ...]:
    command = _shell(space, setting)
    return (command, shlex.join(compared)) if compared else (command,)


def _shell(space: Space, setting: tuple[str, ...]) -> str:
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
    """All settings, fastest first; those that may be the best are marked."""
    sign = -1.0 if study.objective.maximise else 1.0
    order = sorted(study.cells, key=lambda cell: (not cell.times, sign * cell.median if cell.times else 0.0))
    shown = order[:limit] if limit else order
    columns = (
        *(Column(parameter.name, "text") for parameter in study.parameters),
        Column("median" if study.objective.seconds else "figure", "text"),
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
                figure(study, cell.median) if cell.times else None,
                interval_text(study, cell),
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
    if not cell.times and cell.ended_early:
        return "ended early"
    return LACKED.get((cell.cause, cell.kind)) or LACKED.get((cell.cause, ""), "")


def _heat(study: Results) -> HeatMap | None:
    """The two parameters with most values against each other, at the best combination of the others."""
    varied = sorted(
        (i for i, parameter in enumerate(study.parameters) if len(parameter.values) > 1),
        key=lambda i: -len(study.parameters[i].values),
    )
    if len(varied) < 2:
        return None
    down, across = sorted(varied[:2])
    rows, columns = study.parameters[down], study.parameters[across]
    cells: dict[tuple[str, str], Cell] = {}
    better = operator.gt if study.objective.maximise else operator.lt
    for cell in study.cells:
        if cell.times:
            key = cell.setting[down], cell.setting[across]
            if key not in cells or better(cell.median, cells[key].median):
                cells[key] = cell
    # A search tries a few combinations: values that it never tried have no row, and a map of holes shows nothing.
    down_values = [value for value in rows.values if any(key[0] == value for key in cells)]
    across_values = [value for value in columns.values if any(key[1] == value for key in cells)]
    if (
        2 * len(cells) < len(down_values) * len(across_values)
        or min(len(down_values), len(across_values)) < 2
    ):
        return None
    medians = [cell.median for cell in cells.values()]
    best = max(medians) if study.objective.maximise else min(medians)
    scale = math.log(max(max(medians) / min(medians), LEAST_SCALE))

    def shown(row: str, column: str) -> HeatCell:
        cell = cells.get((row, column))
        if cell is None:
            return HeatCell("–")
        return HeatCell(figure(study, cell.median), abs(math.log(cell.median / best)) / scale, cell.best)

    note = "Medians; ● may be the best." + (
        " Of the other parameters, the best combination is shown." if len(varied) > 2 else ""
    )
    return HeatMap(
        f"{rows.name} ↓  {columns.name} →",
        tuple(across_values),
        tuple((row, tuple(shown(row, column) for column in across_values)) for row in down_values),
        note,
    )
