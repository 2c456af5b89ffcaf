"""``--explain``: every condition of every rule, with its value, its threshold, its margin, and whether it held."""

from __future__ import annotations

import math

import pytest

from profkit.report import terminal
from profkit.report.brief import brief_diff
from profkit.report.diffdoc import diff_document
from profkit.report.document import Bullets, Section, Table
from profkit.report.jsondoc import diff_object
from profkit.report.wording.explain import explain_sections
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.readings import READINGS
from profkit.verdict.rule import Reading, Rule, evaluate, less, more, yes
from profkit.verdict.rules import RULES
from profkit.verdict.thresholds import THRESHOLDS
from profkit.verdict.types import Diff, Finding
from tests.programs import one_side, program, training

UNITS = {
    "a": Reading("share", "part of something", lambda case: None),
    "b": Reading("cores", "cores of something", lambda case: None),
    "c": Reading("bool", "something is so", lambda case: None),
}
RULE = Rule(
    *("busy", "contention", "something is busy"),
    requires=("c",),
    unless=("other",),
    conditions=(more("a", "wait.much"), yes("c")),
    alternatives=(((less("b", "others"),), (more("a", "part.most"), yes("c"))),),
)


@pytest.fixture(scope="module")
def found() -> Diff:
    """A comparison of a program with twice the steps."""
    return diff(one_side(program(training())), one_side(program(training(200))))


def sections(values: dict[str, float | bool | None], held: frozenset[str] = frozenset()) -> list[Section]:
    holds, checks = evaluate(RULE, values.get, UNITS, held)
    findings = [Finding("busy", "contention", 0.9)] if holds else []
    return explain_sections((RULE,), UNITS, checks, findings)


def rows(section: Section) -> list[tuple[object, ...]]:
    (table,) = section.blocks
    assert isinstance(table, Table)
    return [row.cells for row in table.rows]


def test_a_rule_that_holds() -> None:
    about, rule, *_ = sections({"a": 0.2, "b": 0.1, "c": True})
    assert isinstance(about.blocks[0], Bullets)
    assert rule.title == "✓ busy: contention, holds"
    assert rows(rule) == [
        ("✓", "c: something is so", "yes", "known", ""),
        ("✓", "unless other holds", "no", "", ""),
        ("✓", "a: part of something", "20.0 %", "≥ 15.0 % (wait.much)", "+0.05"),
        ("✓", "c: something is so", "yes", "is so", ""),
        ("✓", "1.1 b: cores of something", "0.10 cores", "≤ 0.25 cores (others)", "+0.15"),
        ("–", "1.2 a: part of something", "20.0 %", "≥ 50.0 % (part.most)", "-0.3"),
        ("✓", "1.2 c: something is so", "yes", "is so", ""),
    ]
    (table,) = rule.blocks
    assert isinstance(table, Table)
    assert table.note == "something is busy"


def test_a_rule_that_does_not_and_what_is_not_known() -> None:
    _, rule, *_ = sections({"a": 0.1}, frozenset({"other"}))
    assert rule.title == "– busy: contention"
    assert rows(rule)[:4] == [
        ("–", "c: something is so", "–", "known", ""),
        ("–", "unless other holds", "yes", "", ""),
        ("–", "a: part of something", "10.0 %", "≥ 15.0 % (wait.much)", "-0.05"),
        ("–", "c: something is so", "–", "is so", ""),
    ]


def test_reports_list_every_rule_in_order_and_every_condition(found: Diff) -> None:
    document = diff_document(found, explain=True)
    titles = [section.title for section in document.sections]
    rules = [title[2:].partition(":")[0] for title in titles if title[:2] in ("✓ ", "– ")]
    assert rules == [rule.id for rule in RULES]
    assert [title for title in titles if title.startswith("✓ ")] == ["✓ call-counts: workload-change, holds"]
    # Before the advice: what one does next stays last.
    assert titles.index("How the rules were evaluated") < titles.index("What to do next")
    assert "How the rules were evaluated" not in [s.title for s in diff_document(found).sections]
    lines = sum(len(rows(section)) for section in document.sections if section.title[:2] in ("✓ ", "– "))
    of_rules = [check for check in found.verdict.checks if check.part != "reading"]
    assert lines == len(of_rules) < len(found.verdict.checks)
    text = terminal.render(document, width=160)
    assert "calls.factor: calls of the same functions, weighted by time" in text
    assert "≥ 1.10× (work.calls)" in text


def test_every_threshold_is_printed_with_what_was_compared(found: Diff) -> None:
    sections = {s.title: s for s in diff_document(found, explain=True).sections}
    compared = {check.threshold_id for check in found.verdict.checks} - {""}
    behind = {row[0] for row in rows(sections["Thresholds behind the readings"])}
    assert not compared & behind
    assert compared | behind == set(THRESHOLDS)
    inside = rows(sections["Comparisons made inside readings"])
    assert len(inside) == sum(len(reading.compares) for reading in READINGS.values())
    (fixed,) = (row for row in inside if str(row[1]).startswith("machine.same ← machine.part"))
    assert fixed[3] == "≤ 50.0 % (part.most)"


def test_what_a_confidence_is_made_from() -> None:
    doubted = Finding("busy", "contention", 0.68, 0.9, stated=0.97, doubt=0.85, left=0.8, calibrated=True)
    other = Finding("other", "blocked", 0.4, 0.5, stated=0.4)
    found = explain_sections((RULE,), UNITS, [], [doubted, other])
    (section,) = (one for one in found if one.title.startswith("How the finding"))
    first, second = rows(section)
    assert first == ("busy", "0.765", "0.000", "0.850", "+0.35", "0.850", "0.800", "0.680")
    assert second == ("other", "0.200", "0.565", "0.400", "-0.1", "", "1.000", "not shown")


def test_json_has_the_numbers(found: Diff) -> None:
    checks = diff_object(found, explain=True)["checks"]
    (check,) = (c for c in checks if c["rule"] == "call-counts" and c["threshold_id"] == "work.calls")
    assert check["value"] == pytest.approx(found.verdict.numbers["calls.factor"])
    assert check["margin"] == pytest.approx(check["value"] - 1.1)
    assert (check["part"], check["choice"], check["group"], check["held"]) == ("alternatives", 1, 1, True)
    assert {c["reading"] for c in checks if c["part"] != "unless"} <= set(READINGS)
    assert all(c["margin"] is None or math.isfinite(c["margin"]) for c in checks)


def test_a_terminal_has_what_decided_and_what_the_others_lack(found: Diff) -> None:
    document = brief_diff(found, explain=True)
    assert len(terminal.render(document, width=80).splitlines()) <= 60
    _, holds, others = document.sections
    assert holds.title == "call-counts: workload-change, holds"
    assert {cells[0] for cells in rows(holds)} == {"✓"}
    lacking = rows(others)
    assert "call-counts" not in [rule for rule, *_ in lacking]
    more = [int(str(count).removeprefix("+") or 0) for *_, count in lacking]
    assert more == sorted(more)
