"""An advice that was tried → `Document` or JSON: predicted against measured, and the two commands."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from profkit.report.document import Bullets, Document, Facts, Section
from profkit.report.text import clean
from profkit.report.wording.tried import tried_notes, tried_verdict
from profkit.study.verify import Tried
from profkit.verdict.types import Advice


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """An advice, and its measured effect.

    `number`: of the advice in the report of the run.
    `command`, `changed`: as recorded, and with the advice (empty where a line is edited).
    `edit`: place and text of the edited line; empty without one.
    `recorded_s`: seconds of the recorded run.
    """

    tried: Tried
    advice: Advice
    number: int
    command: tuple[str, ...]
    changed: tuple[str, ...]
    variables: Mapping[str, str]
    edit: str
    recorded_s: float

    def document(self, rows: int, *, figures: bool = False) -> Document:
        """See `profkit.report.reports.Report`."""
        facts = Facts(
            (
                ("as it was", clean(shlex.join(self.command))),
                ("with the advice", clean(self._with_advice())),
            )
        )
        sections = [
            Section("", (tried_verdict(self.tried, self.advice.predicted_gain_s),)),
            Section("What was run", (facts,), role="account"),
        ]
        notes = tried_notes(self.tried, self.recorded_s)
        if notes:
            sections.append(Section("Notes", (Bullets(tuple(notes)),)))
        return Document("profkit verify", tuple(sections))

    def _with_advice(self) -> str:
        if self.edit:
            return self.edit
        settings = "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(self.variables.items()))
        return settings + shlex.join(self.changed)

    def json(self, rows: int) -> str:
        """See `profkit.report.reports.Report`."""
        tried = self.tried
        document = {
            "schema": "profkit.verify/1",
            "outcome": tried.outcome,
            "advice": {"number": self.number, "kind": self.advice.kind, "cures": self.advice.cures or None},
            "command": list(self.command),
            "argv": list(self.changed) or None,
            "env": dict(self.variables),
            "edit": self.edit or None,
            "recorded_s": _number(self.recorded_s),
            "predicted_gain_s": _number(self.advice.predicted_gain_s),
            "gain_s": _number(tried.gain_s),
            "before_s": _number(tried.before_median_s),
            "after_s": _number(tried.after_median_s),
            "speedup": _number(tried.ratio.value),
            "speedup_low": _number(tried.ratio.low),
            "speedup_high": _number(tried.ratio.high),
            "before_runs_s": list(tried.before_s),
            "after_runs_s": list(tried.after_s),
            "disturbed": tried.disturbed,
            "problem": tried.problem or None,
            "stopped": tried.stopped,
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
