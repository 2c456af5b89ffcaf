"""What was tried → `Document` or JSON: settings, pairs of parameters, and an advice."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, replace

from profkit.measure.intervals import Estimate
from profkit.report.doctordoc import launch_block, launch_object
from profkit.report.document import (
    Bullets,
    Document,
    Facts,
    HeatCell,
    HeatMap,
    Section,
    Table,
    Waterfall,
    laid_out,
)
from profkit.report.jsonvalues import dumps, json_number, members, plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.report.wording.accounts import waterfall
from profkit.report.wording.studies import (
    LACKED,
    confirmed_verdict,
    figure,
    interval_text,
    study_notes,
    study_verdict,
    tried_notes,
    tried_verdict,
)
from profkit.study.launch import Launch
from profkit.study.setting_results import Cell, Results, gain
from profkit.study.space import UNSET, Space
from profkit.study.verify import Change, Tried
from profkit.verdict.account import Account
from profkit.verdict.types import Advice

#: Least ratio to the best that gets the worst colour of the heat map, so that noise looks small.
LEAST_SCALE = 1.5


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A study of settings; `compared` is the command that compares the advised one with the baseline."""

    study: Results
    space: Space
    compared: tuple[str, ...] = ()

    def document(self, rows: int) -> Document:
        study = self.study
        better = None if study.advised == study.baseline else study.advised
        return laid_out(
            "profkit sweep",
            Section("", (study_verdict(study),)),
            *_settings(study, rows),
            Section("What to do next", _next(self.space, study, better, self.compared), role="advice"),
        )

    def json(self, rows: int) -> str:
        return dumps({"schema": "profkit.sweep/1", **_study(self.study, self.space)})


@dataclass(frozen=True, slots=True)
class TuneReport:
    """A search for the best setting; `study` holds all trials.

    `confirmed` holds the best settings and the default, run again in turn; `account` is where the default
    loses time (``None`` without profiles of both).
    """

    study: Results
    space: Space
    confirmed: Results | None = None
    account: Account | None = None
    compared: tuple[str, ...] = ()
    launch: Launch | None = None

    def document(self, rows: int) -> Document:
        last, again = self.confirmed or self.study, self.confirmed
        better = None if last.cells[last.baseline].best else last.advised
        lost: tuple[Waterfall, ...] = ()
        if better is not None and self.account is not None:
            lost = (replace(waterfall(self.account), sides=("advised", "default")),)
        return laid_out(
            "profkit tune",
            Section("", (confirmed_verdict(again, _gain(again)) if again else study_verdict(self.study),)),
            Section("What the default loses", lost, role="account"),
            Section("Run again, in turn", (_table(again, rows),) if again else (), role="account"),
            *_settings(self.study, rows),
            Section(
                "What to do next",
                (
                    *_next(self.space, last, better, self.compared),
                    *([launch_block(self.launch)] if self.launch else []),
                ),
                role="advice",
            ),
        )

    def json(self, rows: int) -> str:
        confirmed = self.confirmed and {
            **_study(self.confirmed, self.space),
            **members(_gain(self.confirmed), "gain=value gain_low=low gain_high=high"),
        }
        return dumps(
            {
                "schema": "profkit.tune/1",
                **_study(self.study, self.space),
                "confirmed": confirmed,
                "launch": self.launch and launch_object(self.launch),
            }
        )


def _gain(study: Results) -> Estimate:
    return Estimate(math.nan) if study.advised is None else gain(study, study.baseline, study.advised)


def _settings(study: Results, rows: int) -> tuple[Section, ...]:
    return (
        Section("By setting", _heat(study), role="account"),
        Section("Settings, best first", (_table(study, rows),), role="account"),
        Section("Notes", (Bullets(tuple(study_notes(study))),)),
    )


def _study(study: Results, space: Space) -> dict[str, object]:
    return members(
        study,
        "command parameters objective=objective.text maximise=objective.maximise baseline best advised spread cells",
        command=plain(space.command),
        cells=[_cell(study, cell) for cell in study.cells],
    )


def _cell(study: Results, cell: Cell) -> dict[str, object]:
    names = [parameter.name for parameter in study.parameters]
    return members(
        cell,
        "setting values=times median low high speedup efficiency cores queue_share blocked_share cause? kind? best "
        "failed ended_early disturbed problem?",
        setting=plain(dict(zip(names, cell.setting, strict=True))),
    )


def _next(
    space: Space, study: Results, advised: int | None, compared: tuple[str, ...]
) -> tuple[Bullets, ...]:
    if advised is None:
        return ()
    commands = (_shell(space, study.cells[advised].setting), *([shlex.join(compared)] if compared else []))
    return (Bullets(commands, commands=True),)


def _shell(space: Space, setting: tuple[str, ...]) -> str:
    pairs = zip(space.parameters, setting, strict=True)
    variables = [(parameter.name, value) for parameter, value in pairs if parameter.environment]
    words = [f"{name}={shlex.quote(value)}" for name, value in variables if value != UNSET]
    removed = [word for name, value in variables if value == UNSET for word in ("-u", name)]
    prefix = ["env", *removed] if removed else []
    return " ".join([*prefix, *words, shlex.join(space.command_of(setting))])


def _best_first(study: Results) -> list[Cell]:
    sign = -1.0 if study.objective.maximise else 1.0
    return sorted(study.cells, key=lambda cell: (not cell.times, sign * cell.median if cell.times else 0.0))


def _table(study: Results, limit: int) -> Table:
    def parameter(at: int) -> Of[Cell]:
        return Of(study.parameters[at].name, lambda cell: cell.setting[at])

    return Listed(_best_first(study), limit, left_out="{left} slower settings are not listed.").table(
        *map(parameter, range(len(study.parameters))),
        Of(
            "median" if study.objective.seconds else "figure",
            lambda cell: figure(study, cell.median) if cell.times else None,
        ),
        Of("95 % interval", lambda cell: interval_text(study, cell), "text", 2),
        Of("speed-up", lambda cell: json_number(cell.speedup), "factor"),
        Of("efficiency", lambda cell: json_number(cell.efficiency), "share", 4),
        Of("cores", lambda cell: f"{cell.cores:.1f}" if math.isfinite(cell.cores) else None, "text", 3),
        Of("queued", lambda cell: json_number(cell.queue_share), "share", 1),
        Of("blocked", lambda cell: json_number(cell.blocked_share), "share", 5),
        Of("lacks", _lacks, "text", 2),
        Of("runs", lambda cell: len(cell.times), "count", 3),
        notes=("● may be the best setting: these runs cannot tell it apart from the fastest.",),
        marked=lambda cell: cell.best,
    )


def _lacks(cell: Cell) -> str:
    if not cell.times and cell.failed:
        return "failed"
    if not cell.times and cell.ended_early:
        return "ended early"
    return LACKED.get((cell.cause, cell.kind)) or LACKED.get((cell.cause, ""), "")


def _heat(study: Results) -> tuple[HeatMap, ...]:
    """Return the two parameters with most values against each other, at the best of the others."""
    varied = sorted(
        (i for i, parameter in enumerate(study.parameters) if len(parameter.values) > 1),
        key=lambda i: -len(study.parameters[i].values),
    )
    if len(varied) < 2:
        return ()
    down, across = sorted(varied[:2])
    rows, columns = study.parameters[down], study.parameters[across]
    order = _best_first(study)
    # The last of several cells of one place is the best.
    cells = {(cell.setting[down], cell.setting[across]): cell for cell in reversed(order) if cell.times}
    # A search tries few combinations: values never tried get no row, and a map of holes is left out.
    down_values = [value for value in rows.values if any(key[0] == value for key in cells)]
    across_values = [value for value in columns.values if any(key[1] == value for key in cells)]
    if (
        2 * len(cells) < len(down_values) * len(across_values)
        or min(len(down_values), len(across_values)) < 2
    ):
        return ()
    best, medians = order[0].median, [cell.median for cell in cells.values()]
    scale = math.log(max(max(medians) / min(medians), LEAST_SCALE))

    def shown(row: str, column: str) -> HeatCell:
        cell = cells.get((row, column))
        if cell is None:
            return HeatCell("–")
        return HeatCell(figure(study, cell.median), abs(math.log(cell.median / best)) / scale, cell.best)

    note = "Medians; ● may be the best." + (
        " Of the other parameters, the best combination is shown." if len(varied) > 2 else ""
    )
    lines = tuple((row, tuple(shown(row, column) for column in across_values)) for row in down_values)
    return (HeatMap(f"{rows.name} ↓  {columns.name} →", tuple(across_values), lines, note),)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    tried: Tried
    advice: Advice
    number: int
    change: Change
    recorded_s: float

    def document(self, rows: int) -> Document:
        facts = Facts(
            (
                ("as it was", clean(shlex.join(self.change.command))),
                ("with the advice", clean(self._with_advice())),
            )
        )
        return laid_out(
            "profkit verify",
            Section("", (tried_verdict(self.tried, self.advice.predicted_gain_s, self.advice.least_gain_s),)),
            Section("What was run", (facts,), role="account"),
            Section("Notes", (Bullets(tuple(tried_notes(self.tried, self.recorded_s))),)),
        )

    def _with_advice(self) -> str:
        change = self.change
        if change.edit:
            return change.edit
        settings = "".join(f"{n}={shlex.quote(value)} " for n, value in sorted(change.variables.items()))
        return settings + shlex.join(change.changed)

    def json(self, rows: int) -> str:
        return dumps(
            {
                "schema": "profkit.verify/1",
                "outcome": self.tried.outcome,
                "advice": {"number": self.number, **members(self.advice, "kind cures?")},
                **members(
                    self,
                    "command=change.command argv env=change.variables edit=change.edit? recorded_s "
                    "predicted_gain_s=advice.predicted_gain_s least_gain_s=advice.least_gain_s "
                    "gain_s=tried.gain_s before_s=tried.before.median after_s=tried.after.median "
                    "speedup=tried.ratio.value speedup_low=tried.ratio.low speedup_high=tried.ratio.high "
                    "before_runs_s=tried.before.times after_runs_s=tried.after.times disturbed=tried.disturbed "
                    "problem=tried.after.problem? stopped=tried.stopped",
                    argv=None if self.change.edit else plain(self.change.changed),
                ),
            }
        )
