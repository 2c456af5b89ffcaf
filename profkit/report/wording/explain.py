"""``--explain`` in words: every rule with its conditions, values, thresholds, margins and results."""

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
#: Conditions of rules that hold, and rules that do not, that have a row on a terminal.
_CONDITIONS, _NEAREST = 8, 12
_SIGNS = {">=": "≥", "<=": "≤", "is": "is", "not": "is not", "known": "known"}


def explain_sections(
    rules: Sequence[Rule],
    readings: Mapping[str, Reading],
    checks: Sequence[Checked],
    findings: Sequence[Finding],
) -> list[Section]:
    """Return how each rule was evaluated, in evaluation order; rules of `findings` are marked."""
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


def brief_explanation(
    rules: Sequence[Rule],
    readings: Mapping[str, Reading],
    checks: Sequence[Checked],
    findings: Sequence[Finding],
) -> list[Section]:
    """Return the rule that decided, and what the others lack, least first."""
    by_id = {rule.id: rule for rule in rules}
    of_rules: dict[str, list[Checked]] = {}
    for check in checks:
        if check.part != "reading":
            of_rules.setdefault(check.rule, []).append(check)
    held = [finding.rule for finding in findings if finding.rule in by_id]
    sections, room = [], _CONDITIONS
    for name in held:
        met = [
            check for check in of_rules.get(name, ()) if check.held and check.part not in ("unless", "doubts")
        ]
        met = sorted(met, key=lambda check: check.part == "requires")[:room]
        room -= len(met)
        if met:
            rows = tuple(_row(check, readings) for check in met)
            title = f"{name}: {by_id[name].cause}, holds"
            sections.append(Section(title, (Table(_COLUMNS, rows, clean(by_id[name].about)),)))
    lacking = {
        name: lacks for name, of_one in of_rules.items() if name not in held and (lacks := _lacks(of_one))
    }
    order = sorted(lacking, key=lambda name: len(lacking[name]))
    columns = (
        Column("rule", "text"),
        Column("cause", "text", 1),
        Column("lacks", "prose"),
        Column("more", "text"),
    )
    rows = tuple(
        Row(
            (
                name,
                by_id[name].cause,
                _lack(lacking[name][0]),
                f"+{len(lacking[name]) - 1}" * (len(lacking[name]) > 1),
            )
        )
        for name in order[:_NEAREST]
    )
    others = len(order) - len(rows)
    note = f"{others} other rules lack as much or more. " if others > 0 else ""
    note += "--full --explain lists every condition of every rule."
    sections.append(Section("What does not hold, nearest first", (Table(columns, rows, note),)))
    return sections


def _lacks(checks: Sequence[Checked]) -> list[Checked]:
    """Return what a rule lacks to hold; of alternatives, a condition of the group that lacks least."""
    lacks = [
        check for check in checks if not check.held and check.part in ("requires", "unless", "conditions")
    ]
    for choice in sorted({check.choice for check in checks if check.part == "alternatives"}):
        groups: dict[int, list[Checked]] = {}
        for check in checks:
            if check.part == "alternatives" and check.choice == choice:
                groups.setdefault(check.group, []).extend([] if check.held else [check])
        lacks += min(groups.values(), key=len)[:1]
    return lacks


def _lack(check: Checked) -> str:
    if check.part == "unless":
        return f"{check.reading} holds"
    if check.operator == "known":
        return f"{check.reading} is not known"
    found = f"{check.reading}: {value_text(check.unit, check.value)}"
    return f"{found}, not {_wanted(check)}" if check.threshold_id else found


def _chosen(findings: Sequence[Finding]) -> Section:
    """Which finding is named, and how its confidence is made up."""
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
    """Thresholds not named by any condition above: noise, and those behind measured values."""
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
    if not check.threshold_id:
        sign = _SIGNS[check.operator]
        return sign if check.operator == "known" else f"{sign} so"
    return f"{_wanted(check)} ({check.threshold_id})"


def _wanted(check: Checked) -> str:
    return f"{_SIGNS[check.operator]} {value_text(THRESHOLDS[check.threshold_id].unit, check.threshold)}"
