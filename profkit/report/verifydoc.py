"""An advice that was tried → `Document` or JSON: predicted against measured, and both commands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from profkit.report.document import Bullets, Document, Facts, Section, laid_out
from profkit.report.jsonvalues import dumps, members, plain
from profkit.report.text import clean
from profkit.report.wording.studies import tried_notes, tried_verdict
from profkit.study.verify import Change, Tried
from profkit.verdict.types import Advice


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """An advice, what it changed in the command, and the effect."""

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
            Section("", (tried_verdict(self.tried, self.advice.predicted_gain_s),)),
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
                    "predicted_gain_s=advice.predicted_gain_s "
                    "gain_s=tried.gain_s before_s=tried.before_median_s after_s=tried.after_median_s "
                    "speedup=tried.ratio.value speedup_low=tried.ratio.low speedup_high=tried.ratio.high "
                    "before_runs_s=tried.before_s after_runs_s=tried.after_s disturbed=tried.disturbed "
                    "problem=tried.problem? stopped=tried.stopped",
                    argv=None if self.change.edit else plain(self.change.changed),
                ),
            }
        )
