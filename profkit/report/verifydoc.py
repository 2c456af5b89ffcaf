"""An advice that was tried → `Document` or JSON: predicted against measured, and both commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from profkit.report.document import Bullets, Document, Facts, Section, laid_out
from profkit.report.jsonvalues import dumps, members
from profkit.report.text import clean
from profkit.report.wording.studies import tried_notes, tried_verdict
from profkit.study.verify import Tried
from profkit.verdict.types import Advice


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """An advice and its effect; `changed` is the command with the advice, or `edit` the edited line."""

    tried: Tried
    advice: Advice
    number: int
    command: tuple[str, ...]
    changed: tuple[str, ...]
    variables: Mapping[str, str]
    edit: str
    recorded_s: float

    def document(self, rows: int) -> Document:
        facts = Facts(
            (
                ("as it was", clean(shlex.join(self.command))),
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
        if self.edit:
            return self.edit
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(self.variables.items()))
        return settings + shlex.join(self.changed)

    def json(self, rows: int) -> str:
        return dumps(
            {
                "schema": "profkit.verify/1",
                "outcome": self.tried.outcome,
                "advice": {"number": self.number, **members(self.advice, "kind cures?")},
                **members(
                    self,
                    "command argv=changed? env=variables edit? recorded_s predicted_gain_s=advice.predicted_gain_s "
                    "gain_s=tried.gain_s before_s=tried.before_median_s after_s=tried.after_median_s "
                    "speedup=tried.ratio.value speedup_low=tried.ratio.low speedup_high=tried.ratio.high "
                    "before_runs_s=tried.before_s after_runs_s=tried.after_s disturbed=tried.disturbed "
                    "problem=tried.problem? stopped=tried.stopped",
                ),
            }
        )
