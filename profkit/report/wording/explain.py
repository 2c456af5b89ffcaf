"""``--explain`` in words: every rule with every condition, its value, its threshold, the margin, held or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from profkit.report.document import Bullets, Column, Row, Section, Table
from profkit.report.text import clean
from profkit.report.wording.evidence import value_text
from profkit.verdict.rule import Reading, Rule
from profkit.verdict.thresholds import THRESHOLDS
from profkit.verdict.types import Checked, Finding

__all__ = ["explain_sections"]

_HOW = (
    "A rule holds where all that it requires is known, no rule that it yields to holds, all its conditions hold, and "
    "of each set of alternatives one group does."
)
_WHICH = (
    "The verdict is the finding with the largest bucket of the account; nearly equal ones are settled by the order "
    "below."
)
_SIGNS = {">=": "≥", "<=": "≤", "is": "is", "not": "is not", "known": "known"}


def explain_sections(
    rules: Sequence[Rule],
    readings: Mapping[str, Reading],
    checks: Sequence[Checked],
    findings: Sequence[Finding],
) -> list[Section]:
    """Lay out how each rule was evaluated, in the order in which they were evaluated.

    Parameters
    ----------
    rules, readings
        All of them.
    checks
        From the verdict.
    findings
        What held: their rules are marked.
    """
    held = {finding.rule for finding in findings}
    by_id = {rule.id: rule for rule in rules}
    sections = [
        Section(
            "How the rules were evaluated",
            (
                Bullets(
                    (
                        _HOW,
                        _WHICH,
                    )
                ),
            ),
        )
    ]
    for name, group in groupby(checks, key=lambda check: check.rule):
        rule = by_id[name]
        columns = (
            Column("", "text"),
            Column("condition", "prose"),
            Column("value", "text"),
            Column("threshold", "text"),
            Column("margin", "text", 1),
        )
        rows = tuple(_row(check, readings) for check in group)
        title = f"{'✓' if name in held else '–'} {name}: {rule.cause}{', holds' if name in held else ''}"
        sections.append(Section(title, (Table(columns, rows, clean(rule.about)),)))
    return sections


def _row(check: Checked, readings: Mapping[str, Reading]) -> Row:
    where = f"{check.choice}.{check.group} " if check.choice else ""
    if check.part == "unless":
        about, value, threshold = f"unless {check.reading} holds", value_text("bool", check.value), ""
    else:
        about = f"{where}{check.reading}: {readings[check.reading].about}"
        value = value_text(check.unit, check.value)
        threshold = _threshold(check)
    margin = "" if math.isnan(check.margin) else f"{check.margin:+.3g}"
    return Row(("✓" if check.held else "–", clean(about), value, threshold, margin))


def _threshold(check: Checked) -> str:
    sign = _SIGNS[check.operator]
    if not check.threshold_id:
        return sign if check.operator == "known" else f"{sign} so"
    return f"{sign} {value_text(THRESHOLDS[check.threshold_id].unit, check.threshold)} ({check.threshold_id})"
