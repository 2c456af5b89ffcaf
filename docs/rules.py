"""Writes docs/rules.md from the code: every threshold, every rule with its conditions, every reading.

python docs/rules.py            # writes it; a test asserts that it is up to date
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from profkit.report.wording.evidence import value_text
from profkit.verdict.alone import READINGS_ALONE
from profkit.verdict.readings import READINGS
from profkit.verdict.rule import Condition, Reading, Rule
from profkit.verdict.rules import RULES, RULES_ALONE, RULES_OF_ESTIMATES
from profkit.verdict.thresholds import THRESHOLDS

PAGE = Path(__file__).with_name("rules.md")
_SIGNS = {">=": "≥", "<=": "≤"}
_HEAD = """\
# The rules of the verdict

Written by `python docs/rules.py` from `profkit/verdict/rules` and `profkit/verdict/thresholds.py`; not edited by
hand. `profkit diff` and `profkit show` with `--full --explain` print the same conditions with the values of your
runs.

A rule holds if all that it requires is known, no rule that it yields to holds, all its conditions hold, and one group
of each set of alternatives holds. Rules are evaluated in this order; all that hold are findings. The verdict is the
finding with the greatest product of its confidence and the part of the lost time that its bucket of the
[account](account.md) explains; if two products differ by no more than 0.15, the first in this order wins. Findings
below 0.5 are not named, and no-change and faster only where no other cause holds. Confidence is the share of
labelled pairs in which the rule was right ([verdict.md](verdict.md)). A doubt limits it; if that leaves less than
0.7, no confidence is shown. Some readings make comparisons themselves: the tables of readings list them, and
`--full --explain` prints them with margins."""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield ""
    yield "## Rules of a comparison"
    yield from _rules(RULES)
    yield ""
    yield "## Rules of a comparison with estimates"
    yield ""
    yield "Evaluated after those above if a side was sampled, or if it is known what capture added."
    yield from _rules(RULES_OF_ESTIMATES)
    yield ""
    yield "## Rules of one run alone"
    yield from _rules(RULES_ALONE)
    yield ""
    yield "## Thresholds"
    yield ""
    yield "| id | value | unit | from |"
    yield "|---|---:|---|---|"
    for threshold in THRESHOLDS.values():
        value = value_text(threshold.unit, threshold.value)
        yield f"| `{threshold.id}` | {value} | {threshold.unit} | {threshold.provenance} |"
    yield ""
    yield "## Readings of a comparison"
    yield from _readings(READINGS)
    yield ""
    yield "## Readings of one run alone"
    yield from _readings(READINGS_ALONE)


def _rules(rules: tuple[Rule, ...]) -> Iterator[str]:
    for rule in rules:
        yield ""
        yield f"### `{rule.id}`: {rule.cause}"
        yield ""
        yield f"{rule.about[0].upper()}{rule.about[1:]}."
        yield ""
        if rule.bucket:
            part = f", with `{rule.part}`" if rule.part else ""
            yield f"- bucket: {rule.bucket}{part}"
        if rule.requires:
            yield f"- requires: {', '.join(f'`{name}`' for name in rule.requires)}"
        if rule.unless:
            yield f"- yields to: {', '.join(f'`{name}`' for name in rule.unless)}"
        for condition in rule.conditions:
            yield f"- {_condition(condition)}"
        for groups in rule.alternatives:
            yield "- one of:"
            yield from (f"  - {' and '.join(map(_condition, group))}" for group in groups)
        for group, confidence in rule.doubts:
            yield f"- confidence at most {confidence:g} if {' and '.join(map(_condition, group))}"


def _condition(condition: Condition) -> str:
    if condition.operator == "is":
        return f"`{condition.reading}`"
    if condition.operator == "not":
        return f"not `{condition.reading}`"
    threshold = THRESHOLDS[condition.threshold]
    value = value_text(threshold.unit, threshold.value)
    return f"`{condition.reading}` {_SIGNS[condition.operator]} {value} (`{condition.threshold}`)"


def _readings(readings: Mapping[str, Reading]) -> Iterator[str]:
    yield ""
    yield "| reading | unit | what it is | it compares |"
    yield "|---|---|---|---|"
    for name, reading in readings.items():
        inside = ", ".join(map(_condition, reading.compares))
        yield f"| `{name}` | {reading.unit} | {reading.about} | {inside} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
