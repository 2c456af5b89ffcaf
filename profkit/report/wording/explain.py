"""``--explain`` in words: every rule with its conditions, values, thresholds, margins and results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from profkit.report.document import Bullets, Section, Table
from profkit.report.listed import Listed, Of
from profkit.report.wording.evidence import value_text
from profkit.verdict.rule import Reading, Rule
from profkit.verdict.thresholds import THRESHOLDS, value
from profkit.verdict.types import Checked, Finding

_HOW = (
    "A rule holds if all that it requires is known, all its conditions hold, one group of each set of "
    "alternatives holds, and no rule that it yields to holds."
)
_WHICH = (
    "The verdict is the finding with the largest bucket of the account; the order below decides between "
    "nearly equal ones."
)
#: Most conditions of rules that hold, and most rules that do not, on the first screen.
_CONDITIONS, _NEAREST = 8, 12
_SIGNS = {">=": "≥", "<=": "≤", "is": "is", "not": "is not", "known": "known"}


def explain_sections(
    rules: Sequence[Rule],
    readings: Mapping[str, Reading],
    checks: Sequence[Checked],
    findings: Sequence[Finding],
) -> list[Section]:
    """Return how each rule was evaluated, in order; those of `findings` are marked."""
    held = {finding.rule for finding in findings}
    by_id = {rule.id: rule for rule in rules}
    sections = [Section("How the rules were evaluated", (Bullets((_HOW, _WHICH)),))]
    inside = [check for check in checks if check.part == "reading"]
    for name, group in _by_rule(checks).items():
        rule = by_id[name]
        title = f"{'✓' if name in held else '–'} {name}: {rule.cause}{', holds' if name in held else ''}"
        sections.append(Section(title, (_table(group, readings, rule.about),)))
    inner = Section("Comparisons made inside readings", (_table(inside, readings),))
    return [*sections, inner, _chosen(findings), _others(checks)]


def brief_explanation(
    rules: Sequence[Rule],
    readings: Mapping[str, Reading],
    checks: Sequence[Checked],
    findings: Sequence[Finding],
) -> list[Section]:
    """Return the rules that hold, and what the others lack, least first."""
    by_id = {rule.id: rule for rule in rules}
    of_rules = _by_rule(checks)
    held = [finding.rule for finding in findings if finding.rule in by_id]
    sections, room = [], _CONDITIONS
    for name in held:
        met = [
            check for check in of_rules.get(name, ()) if check.held and check.part not in ("unless", "doubts")
        ]
        met = sorted(met, key=lambda check: check.part == "requires")[:room]
        room -= len(met)
        title = f"{name}: {by_id[name].cause}, holds"
        sections.append(Section(title, (_table(met, readings, by_id[name].about),)))
    lacking = {
        name: lacks for name, of_one in of_rules.items() if name not in held and (lacks := _lacks(of_one))
    }
    order = sorted(lacking, key=lambda name: len(lacking[name]))
    nearest = Listed(order, _NEAREST, left_out="{left} other rules lack as much or more.")
    table = nearest.table(
        Of("rule", lambda name: name),
        Of("cause", lambda name: by_id[name].cause, "text", 1),
        Of("lacks", lambda name: _lack(lacking[name][0]), "prose"),
        Of("more", lambda name: f"+{len(lacking[name]) - 1}" * (len(lacking[name]) > 1)),
        notes=(nearest.cut, "--full --explain lists every condition of every rule."),
    )
    sections.append(Section("Rules that do not hold, nearest first", (table,)))
    return sections


def _by_rule(checks: Sequence[Checked]) -> dict[str, list[Checked]]:
    found: dict[str, list[Checked]] = {}
    for check in checks:
        if check.part != "reading":
            found.setdefault(check.rule, []).append(check)
    return found


def _lacks(checks: Sequence[Checked]) -> list[Checked]:
    """Return what a rule lacks to hold; of alternatives, one condition of the nearest group."""
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
    """Return which finding is named, and how its confidence is made up."""
    named = value("confidence.named")
    note = (
        f"The first finding stands unless another exceeds it by {value('findings.about-equal'):g} "
        f"(findings.about-equal). A finding stated below {named:g} (confidence.named) is not named; one "
        f"doubted below {value('confidence.shown'):g} (confidence.shown) has no figure; two causes at once "
        f"multiply the confidence by {value('confidence.together'):g} (confidence.together)."
    )
    table = Listed(findings).table(
        Of("finding", lambda f: f.rule),
        Of("part × confidence", lambda f: _number(_weight(f)), "text", 1),
        Of("below the first", lambda f: _number(_weight(findings[0]) - _weight(f)), "text", 1),
        Of("stated", lambda f: _number(_stated(f)), "text", 1),
        Of("margin", lambda f: f"{_stated(f) - named:+.3g}", "text", 1),
        Of("doubted", lambda f: "" if f.doubt is None else _number(f.doubt), "text", 1),
        Of("left with others", lambda f: _number(f.left), "text", 1),
        Of("confidence", lambda f: _number(f.confidence) if f.calibrated else "not shown", "text", 1),
        notes=(note,),
    )
    return Section("How the finding was chosen", (table,))


def _weight(finding: Finding) -> float:
    return finding.severity * finding.confidence / finding.left


def _stated(finding: Finding) -> float:
    return finding.stated if finding.doubt is None else finding.doubt


def _others(checks: Sequence[Checked]) -> Section:
    """Return the thresholds that no condition above names: noise, and those inside readings."""
    said = {check.threshold_id for check in checks}
    table = Listed(one for one in THRESHOLDS.values() if one.id not in said).table(
        Of("threshold", lambda one: one.id),
        Of("value", lambda one: value_text(one.unit, one.value), "text", 1),
        Of("from", lambda one: one.provenance, "prose"),
    )
    return Section("Thresholds behind the readings", (table,))


def _number(found: float) -> str:
    return "" if math.isnan(found) else f"{found:.3f}"


def _table(checks: Iterable[Checked], readings: Mapping[str, Reading], about: str = "") -> Table:
    return Listed(checks).table(
        Of("", lambda check: "✓" if check.held else "–"),
        Of("condition", lambda check: _condition(check, readings), "prose"),
        Of("value", lambda check: value_text("bool" if check.part == "unless" else check.unit, check.value)),
        Of("threshold", lambda check: "" if check.part == "unless" else _threshold(check)),
        Of("margin", lambda check: "" if math.isnan(check.margin) else f"{check.margin:+.3g}", "text", 1),
        notes=(about,),
    )


def _condition(check: Checked, readings: Mapping[str, Reading]) -> str:
    if check.part == "unless":
        return f"unless {check.reading} holds"
    where = f"{check.choice}.{check.group} " if check.group else ""
    if check.part == "doubts":
        where = f"doubt {check.choice}: "
    elif check.part == "reading":
        where = f"{check.rule} ← "
    return f"{where}{check.reading}: {readings[check.reading].about}"


def _threshold(check: Checked) -> str:
    if not check.threshold_id:
        sign = _SIGNS[check.operator]
        return sign if check.operator == "known" else f"{sign} so"
    return f"{_wanted(check)} ({check.threshold_id})"


def _wanted(check: Checked) -> str:
    return f"{_SIGNS[check.operator]} {value_text(THRESHOLDS[check.threshold_id].unit, check.threshold)}"
