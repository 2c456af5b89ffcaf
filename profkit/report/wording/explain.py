"""``--explain`` in words: every rule with every condition, its value, its threshold, the margin, held or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from profkit.report.document import Bullets, Column, Row, Section, Table
from profkit.report.text import clean
from profkit.report.wording.evidence import value_text
from profkit.verdict.rule import Reading, Rule
from profkit.verdict.thresholds import THRESHOLDS, value
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
_COLUMNS = (
    Column("", "text"),
    Column("condition", "prose"),
    Column("value", "text"),
    Column("threshold", "text"),
    Column("margin", "text", 1),
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
    of_rules = [check for check in checks if check.part != "reading"]
    inside = [check for check in checks if check.part == "reading"]
    for name, group in groupby(of_rules, key=lambda check: check.rule):
        rule = by_id[name]
        rows = tuple(_row(check, readings) for check in group)
        title = f"{'✓' if name in held else '–'} {name}: {rule.cause}{', holds' if name in held else ''}"
        sections.append(Section(title, (Table(_COLUMNS, rows, clean(rule.about)),)))
    if inside:
        rows = tuple(_row(check, readings) for check in inside)
        sections.append(Section("What readings compare by themselves", (Table(_COLUMNS, rows),)))
    if findings:
        sections.append(_chosen(findings))
    sections.append(_others(checks))
    return sections


def _chosen(findings: Sequence[Finding]) -> Section:
    """Which finding is named, and what its confidence is made from."""
    columns = (
        Column("finding", "text"),
        Column("part × confidence", "text", 1),
        Column("less than the first", "text", 1),
        Column("stated", "text", 1),
        Column("margin", "text", 1),
        Column("doubted", "text", 1),
        Column("left beside others", "text", 1),
        Column("confidence", "text", 1),
    )
    weights = [f.severity * f.confidence / f.left for f in findings]
    named, rows = value("confidence.named"), []
    for finding, weight in zip(findings, weights, strict=True):
        stated = finding.stated if finding.doubt is None else finding.doubt
        rows.append(
            Row(
                (
                    finding.rule,
                    _number(weight),
                    _number(weights[0] - weight),
                    _number(stated),
                    f"{stated - named:+.3g}",
                    "" if finding.doubt is None else _number(finding.doubt),
                    _number(finding.left),
                    _number(finding.confidence) if finding.calibrated else "not shown",
                )
            )
        )
    note = (
        f"The first stands unless another is more by {value('findings.about-equal'):g} (findings.about-equal); "
        f"stated less than {named:g} (confidence.named) is not named, doubted below {value('confidence.shown'):g} "
        f"(confidence.shown) has no figure, and two causes at once leave {value('confidence.together'):g} "
        "(confidence.together)."
    )
    return Section("How the finding was chosen", (Table(columns, tuple(rows), note),))


def _others(checks: Sequence[Checked]) -> Section:
    """Thresholds that no condition above names: noise, and what stands behind what was measured."""
    said = {check.threshold_id for check in checks}
    columns = (Column("threshold", "text"), Column("value", "text", 1), Column("from", "prose"))
    rows = tuple(
        Row((one.id, value_text(one.unit, one.value), one.provenance))
        for one in THRESHOLDS.values()
        if one.id not in said
    )
    return Section("Thresholds behind the readings", (Table(columns, rows),))


def _number(found: float) -> str:
    return "" if math.isnan(found) else f"{found:.3f}"


def _row(check: Checked, readings: Mapping[str, Reading]) -> Row:
    where = f"{check.choice}.{check.group} " if check.group else ""
    if check.part == "doubts":
        where = f"doubt {check.choice}: "
    elif check.part == "reading":
        where = f"{check.rule} ← "
    if check.part == "unless":
        about, found, threshold = f"unless {check.reading} holds", value_text("bool", check.value), ""
    else:
        about = f"{where}{check.reading}: {readings[check.reading].about}"
        found = value_text(check.unit, check.value)
        threshold = _threshold(check)
    margin = "" if math.isnan(check.margin) else f"{check.margin:+.3g}"
    return Row(("✓" if check.held else "–", clean(about), found, threshold, margin))


def _threshold(check: Checked) -> str:
    sign = _SIGNS[check.operator]
    if not check.threshold_id:
        return sign if check.operator == "known" else f"{sign} so"
    return f"{sign} {value_text(THRESHOLDS[check.threshold_id].unit, check.threshold)} ({check.threshold_id})"
