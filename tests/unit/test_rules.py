"""Rules as data: how one is evaluated, and that all that they name exists, and is named.

A threshold, a reading or a producer that nothing asks for is dead; one that is missing fails at run time.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from profkit.measure.side_facts import no_side
from profkit.report import terminal
from profkit.report.brief import brief_diff
from profkit.report.diffdoc import diff_document
from profkit.report.document import Bullets, Section, Table
from profkit.report.jsondoc import diff_object
from profkit.report.wording.explain import explain_sections
from profkit.verdict import evidence
from profkit.verdict.account import BUCKETS, CAPTURE, GPU, PAUSES, RUN_BUCKETS, Account
from profkit.verdict.advice import producers as advice_producers
from profkit.verdict.alone import READINGS_ALONE
from profkit.verdict.calibration import STEPS, confidence
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.readings import PARTS, READINGS
from profkit.verdict.rule import Condition, Judged, Reading, Rule, doubted, evaluate, less, more, no, yes
from profkit.verdict.rules import RULES, RULES_ALONE, RULES_OF_ESTIMATES
from profkit.verdict.thresholds import THRESHOLDS, value
from profkit.verdict.types import CAUSES, NO_HARM, UNITS, Diff, Finding, Value
from tests.programs import one_side, program, training
from tests.shared import succeeded
from tests.verdict_sources import calls, constants, sources

ROOT = Path(__file__).resolve().parents[2]
#: Decides what a verdict says.
WORDING = ROOT / "profkit" / "report" / "wording" / "verdicts.py"
LISTS = {
    "comparison": ((*RULES, *RULES_OF_ESTIMATES), READINGS, (*BUCKETS, *PAUSES, GPU, CAPTURE)),
    "alone": (RULES_ALONE, READINGS_ALONE, (*RUN_BUCKETS, *PAUSES, GPU)),
}
EVERY = [(kind, rule) for kind, (rules, _, _) in LISTS.items() for rule in rules]


def conditions(rule: Rule) -> Iterator[Condition]:
    yield from rule.conditions
    for groups in rule.alternatives:
        for group in groups:
            yield from group
    for group, _ in rule.doubts:
        yield from group


def readings_of(rule: Rule) -> set[str]:
    """Every reading that a rule names."""
    named = {condition.reading for condition in conditions(rule)} | {*rule.requires, *rule.numbers}
    return named | ({rule.kind, rule.part, rule.strength, rule.subject} - {""})


def asked(method: str) -> dict[str, set[str]]:
    """Constant words that each module of the room calls a function or method of this name with; f-strings too."""
    found: dict[str, set[str]] = {}
    for name, tree in sources().items():
        for node in calls(tree, method):
            word = node.args[0] if node.args else None
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                found.setdefault(name, set()).add(word.value)
            elif isinstance(word, ast.JoinedStr):
                (before,) = (part.value for part in word.values if isinstance(part, ast.Constant))
                found.setdefault(name, set()).add(f"{before}*")
    return found


class TestData:
    @pytest.mark.parametrize("kind", LISTS)
    def test_ids_are_unique_and_a_rule_yields_only_to_rules_before_it(self, kind: str) -> None:
        before: set[str] = set()
        for rule in LISTS[kind][0]:
            assert rule.id not in before
            assert set(rule.unless) <= before, rule.id
            before.add(rule.id)

    @pytest.mark.parametrize(("kind", "rule"), EVERY, ids=lambda v: getattr(v, "id", v))
    def test_what_a_rule_names_exists(self, kind: str, rule: Rule) -> None:
        _, readings, buckets = LISTS[kind]
        assert readings_of(rule) <= set(readings)
        assert rule.cause in CAUSES
        assert rule.bucket in (*buckets, "")
        # What costs time has a bucket that says how much.
        assert bool(rule.bucket) == (rule.cause not in NO_HARM)
        assert set(rule.evidence) <= set(evidence.PRODUCERS)
        assert set(rule.advice) <= set(advice_producers.PRODUCERS)
        assert 0 < rule.confidence <= 1
        assert all(0 < left < rule.confidence for _, left in rule.doubts)
        for condition in conditions(rule):
            unit = readings[condition.reading].unit
            if condition.operator in (">=", "<="):
                assert THRESHOLDS[condition.threshold].unit == unit, condition
            else:
                assert condition.operator in ("is", "not")
                assert (condition.threshold, unit) == ("", "bool"), condition

    def test_every_reading_is_asked_for(self) -> None:
        words = asked("read")
        makers = ("evidence/", "advice/")
        shared = set().union(*(found for name, found in words.items() if name.startswith(makers)))
        named = {kind: set().union(*map(readings_of, rules)) for kind, (rules, _, _) in LISTS.items()}
        of_case = named["comparison"] | shared | words.get("judge.py", set()) | compared_by(READINGS)
        of_run = named["alone"] | shared | words.get("alone.py", set()) | compared_by(READINGS_ALONE)
        assert set(READINGS) - of_case == set()
        assert set(READINGS_ALONE) - of_run == set()
        # A producer that both lists share asks of one run only what that has.
        known = set(READINGS) | set(READINGS_ALONE)
        assert set().union(*words.values()) <= known

    def test_no_two_parts_hold_a_reading_of_one_name(self) -> None:
        assert len(READINGS) == sum(map(len, PARTS))

    def test_every_threshold_is_compared_with(self) -> None:
        in_rules = {c.threshold for _, rule in EVERY for c in conditions(rule)} - {""}
        in_code = set().union(*asked("value").values())
        in_code |= constants(ast.parse(WORDING.read_text(encoding="utf-8"))) & set(THRESHOLDS)
        by_readings = {
            c.threshold for r in (READINGS, READINGS_ALONE) for one in r.values() for c in one.compares
        }
        assert f"noise.{BUCKETS[0]}" in THRESHOLDS
        (family,) = (word for word in in_code if word.endswith("*"))
        assert family == "noise.*"
        named = in_rules | {f"noise.{bucket}" for bucket in (*BUCKETS, *PAUSES, GPU)} | (in_code - {family})
        # What a reading is said to compare with it compares with, or the learnt model does.
        assert by_readings <= named | {"starved.holds"}
        assert named | entered_by_name() == set(THRESHOLDS)

    def test_no_rule_compares_with_a_number_of_its_own(self) -> None:
        for name, tree in sources().items():
            if not name.startswith("rules/"):
                continue
            # Confidences are the only ones.
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                    assert 0 < node.value <= 1, name

    def test_units_are_known_and_used(self) -> None:
        units = {threshold.unit for threshold in THRESHOLDS.values()}
        units |= {reading.unit for readings in (READINGS, READINGS_ALONE) for reading in readings.values()}
        made = (node for tree in sources().values() for node in calls(tree, "Evidence"))
        units |= {node.args[1].value for node in made if isinstance(node.args[1], ast.Constant)}
        assert units == set(UNITS)

    def test_every_producer_is_used(self) -> None:
        by_rules = {name for _, rule in EVERY for name in rule.evidence}
        assert by_rules | tuples_given_to("produce") == set(evidence.PRODUCERS)
        assert len(evidence.PRODUCERS) == sum(map(len, evidence.PARTS))
        by_rules = {name for _, rule in EVERY for name in rule.advice}
        assert by_rules | tuples_given_to("advise") == set(advice_producers.PRODUCERS)

    def test_a_library_is_found_by_the_name_that_is_imported(self, tmp_path: Path) -> None:
        """That is what a profile knows: pip knows ``yaml`` as PyYAML."""
        (tmp_path / "importedname").mkdir()
        case = SimpleNamespace(read=lambda name: "importedname")
        (found,) = advice_producers.PRODUCERS["compare-libraries"](case, 1.0)
        assert found.argv[-1] == "importedname", "reports mask the last word"
        command = [sys.executable, *found.argv[1:]]
        assert str(tmp_path) in succeeded(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}).stdout

    def test_thresholds_say_where_they_come_from(self) -> None:
        for threshold in THRESHOLDS.values():
            assert math.isfinite(threshold.value)
            assert threshold.provenance
        with pytest.raises(KeyError):
            value("no such threshold")

    def test_every_cause_but_inconclusive_has_a_rule(self) -> None:
        assert {rule.cause for rule in RULES} == set(CAUSES) - {"inconclusive"}


def compared_by(readings: Mapping[str, Reading]) -> set[str]:
    return {condition.reading for reading in readings.values() for condition in reading.compares}


def entered_by_name() -> set[str]:
    """Thresholds whose number stands in `profkit.measure`, which compares with it."""
    tree = sources()["thresholds.py"]
    rows = [node.elts for node in ast.walk(tree) if isinstance(node, ast.Tuple) and len(node.elts) == 4]
    return {
        str(row[0].value)
        for row in (*rows, *(node.args for node in calls(tree, "_convention")))
        if isinstance(row[0], ast.Constant)
        and any(isinstance(part, ast.Attribute) for part in ast.walk(row[1]))
    }


def tuples_given_to(function: str) -> set[str]:
    """Names in tuples that the room's code calls a function with."""
    return {
        element.value
        for tree in sources().values()
        for node in calls(tree, function)
        for argument in node.args[:1]
        if isinstance(argument, ast.Tuple)
        for element in argument.elts
        if isinstance(element, ast.Constant)
    }


class TestCalibration:
    @pytest.mark.parametrize("arm", STEPS)
    def test_it_is_of_rules_that_exist_and_rises(self, arm: str) -> None:
        rules = RULES_ALONE if arm == "alone" else (*RULES, *RULES_OF_ESTIMATES)
        strengths = {rule.id: rule.strength for rule in rules}
        for rule, found in STEPS[arm].items():
            at, shares = zip(*found, strict=True)
            # A rule without a strength has one share.
            assert strengths[rule] or len(found) == 1, rule
            assert at[0] == -math.inf, rule
            assert list(at) == sorted(at), rule
            assert list(shares) == sorted(shares), rule
            assert all(0 < share < 1 for share in shares), rule

    @pytest.mark.parametrize(
        ("rule", "doubt", "strength", "more", "expected"),
        [
            # The share of the step that the strength reached.
            *(("a", None, strength, (), (0.6, True)) for strength in (0.4, math.nan)),
            ("a", None, 0.5, (), (0.9, True)),
            # A doubt is the most that is left; it raises nothing.
            ("a", 0.85, 0.5, (), (0.85, True)),
            ("a", 0.85, 0.4, (), (0.6, True)),
            ("a", 0.85, 0.5, (0.9,), (pytest.approx(0.765), True)),
            # What is doubted much, or is not in the table, has no figure.
            ("a", 0.6, 0.5, (), (0.6, False)),
            ("no-such-rule", None, 0.9, (), (0.97, False)),
        ],
    )
    def test_what_is_said_of_confidence(
        self, rule: str, doubt: float | None, strength: float, more: tuple[float, ...], expected: object
    ) -> None:
        steps = {"a": ((-math.inf, 0.6), (0.5, 0.9))}
        assert confidence(rule, 0.97, doubt, strength, steps, *more) == expected


def test_the_page_of_rules_is_up_to_date() -> None:
    path = ROOT / "docs" / "rules.py"
    spec = importlib.util.spec_from_file_location("docs_rules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert module.page() == written, "run `python docs/rules.py`"
    assert all(f"`{rule.id}`" in written for _, rule in EVERY)


# How a rule is evaluated, and ``--explain``: every condition with its value, threshold and margin

OF_UNITS = {
    "a": Reading("share", "part of something", lambda case: None),
    "b": Reading("cores", "cores of something", lambda case: None),
    "c": Reading("bool", "something is so", lambda case: None),
    "d": Reading("s", "seconds of something", lambda case: None),
}
RULE = Rule(
    *("busy", "contention", "something is busy"),
    requires=("d",),
    unless=("other",),
    conditions=(more("a", "wait.much"),),
    alternatives=(
        ((less("b", "others"),), (more("a", "part.most"), yes("c"))),
        ((yes("c"),), (no("c"),)),
    ),
)


def given(values: Mapping[str, Value]) -> Judged:
    """A case whose readings have these values."""
    readings = {
        name: replace(reading, of=lambda case, name=name: values.get(name))
        for name, reading in OF_UNITS.items()
    }
    return Judged(no_side(), no_side(), Account(0.0, 0.0, ()), readings)


#: Just holds: the thresholds are 0.15 and 0.5 of `a`, and 0.25 of `b`.
HOLDS: Mapping[str, Value] = {"a": 0.15, "b": 0.25, "c": True, "d": 0.0}
OTHER_GROUP: Mapping[str, Value] = {"a": 0.5, "b": 0.26}


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ({}, True),
        ({"c": False}, True),
        # What is required must be known, whatever it is.
        ({"d": False}, True),
        ({"d": None}, False),
        ({"a": 0.14}, False),
        ({"b": 0.26}, False),
        # Of each set of alternatives one group must hold whole.
        (OTHER_GROUP, True),
        ({**OTHER_GROUP, "b": None}, True),
        ({**OTHER_GROUP, "a": 0.49}, False),
        ({**OTHER_GROUP, "c": False}, False),
        # What is not known holds nothing, not even that it is not so.
        ({"c": None}, False),
        *(({name: unknown}, False) for name in "ab" for unknown in (None, math.nan)),
    ],
)
def test_when_a_rule_holds(values: Mapping[str, Value], holds: bool) -> None:
    values = {**HOLDS, **values}
    assert evaluate(RULE, given(values), frozenset())[0] == holds
    assert not evaluate(RULE, given(values), frozenset({"other"}))[0]


def test_the_greatest_doubt_counts() -> None:
    doubts = (((yes("c"),), 0.6), ((yes("c"), more("a", "part.most")), 0.3))
    rule = Rule("r", "faster", "…", doubts=doubts)
    assert doubted(rule, given({"c": True, "a": 0.4})) == 0.6
    assert doubted(rule, given({"c": True, "a": 0.9})) == 0.3
    assert doubted(rule, given({"c": False})) is None


@pytest.fixture(scope="module")
def found() -> Diff:
    """A comparison of a program with twice the steps."""
    return diff(one_side(program(training())), one_side(program(training(200))))


def sections(values: Mapping[str, Value], held: frozenset[str] = frozenset()) -> list[Section]:
    holds, checks = evaluate(RULE, given(values), held)
    findings = [Finding("busy", "contention", 0.9)] if holds else []
    return explain_sections((RULE,), OF_UNITS, checks, findings)


def rows(section: Section) -> list[tuple[object, ...]]:
    (table,) = section.blocks
    assert isinstance(table, Table)
    return [row.cells for row in table.rows]


def test_a_rule_that_holds() -> None:
    about, rule, *_ = sections({"a": 0.2, "b": 0.1, "c": True, "d": 1.5})
    assert isinstance(about.blocks[0], Bullets)
    assert rule.title == "✓ busy: contention, holds"
    assert rows(rule) == [
        ("✓", "d: seconds of something", "1.50 s", "known", ""),
        ("✓", "unless other holds", "no", "", ""),
        ("✓", "a: part of something", "20.0 %", "≥ 15.0 % (wait.much)", "+0.05"),
        ("✓", "1.1 b: cores of something", "0.10 cores", "≤ 0.25 cores (others)", "+0.15"),
        ("–", "1.2 a: part of something", "20.0 %", "≥ 50.0 % (part.most)", "-0.3"),
        ("✓", "1.2 c: something is so", "yes", "is so", ""),
        ("✓", "2.1 c: something is so", "yes", "is so", ""),
        ("–", "2.2 c: something is so", "yes", "is not so", ""),
    ]
    (table,) = rule.blocks
    assert isinstance(table, Table)
    assert table.note == "something is busy"


def test_a_rule_that_does_not_and_what_is_not_known() -> None:
    _, rule, *_ = sections({"a": 0.1}, frozenset({"other"}))
    assert rule.title == "– busy: contention"
    assert rows(rule)[:4] == [
        ("–", "d: seconds of something", "–", "known", ""),
        ("–", "unless other holds", "yes", "", ""),
        ("–", "a: part of something", "10.0 %", "≥ 15.0 % (wait.much)", "-0.05"),
        ("–", "1.1 b: cores of something", "–", "≤ 0.25 cores (others)", ""),
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
    found = explain_sections((RULE,), OF_UNITS, [], [doubted, other])
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
