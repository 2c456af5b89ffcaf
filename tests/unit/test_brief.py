"""What a terminal shows unless the whole report is asked for: the answer, on one screen."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

import profkit
from profkit.report import terminal
from profkit.report.brief import brief_diff
from profkit.report.document import Document, Table, VerdictBlock
from profkit.report.renderers import Terminal
from profkit.verdict.types import Diff
from tests import report_builders as build
from tests.unit.test_report_renderers import many

SAMPLES = Path(__file__).resolve().parents[2] / "sample_profiles"
RUNS = sorted(SAMPLES.glob("*/*.prof"))
PAIRS = [pair for pair in itertools.permutations(RUNS, 2) if pair[0].parent == pair[1].parent]
DIFFS = [
    *(build.contended(), build.quiet(), build.code_change(), build.undecided()),
    *(build.unfinished(), build.several_causes(), build.unmatched(), many(3000)),
]


def head(diff: Diff) -> VerdictBlock:
    (block,) = [b for s in brief_diff(diff).sections for b in s.blocks if isinstance(b, VerdictBlock)]
    return block


def tables(document: Document) -> list[Table]:
    return [b for s in document.sections for b in s.blocks if isinstance(b, Table)]


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair[0].parent.name}-{pair[0].stem}-{pair[1].stem}"
)
def test_a_real_comparison_fits_on_one_screen(pair: tuple[Path, Path]) -> None:
    text = profkit.diff(*pair).report(Terminal(brief=True))
    lines = text.splitlines()
    assert len(lines) <= 30
    assert lines[0][:1] in "✗✓?"
    # Only what is to be pasted is wider than the terminal, and it stands last.
    wide = [line for line in lines if len(line) > 80]
    assert all(line.startswith("    ") for line in wide)
    (last,) = [at for at, line in enumerate(lines) if "--full prints the whole report" in line]
    assert all(line.startswith("    ") for line in lines[last + 1 :])


def test_every_kind_of_comparison_fits() -> None:
    for diff in DIFFS:
        assert len(terminal.render(brief_diff(diff)).splitlines()) <= 30


def test_the_functions_of_a_run_that_failed_are_not_compared() -> None:
    first, *rest = brief_diff(build.unfinished()).sections
    assert {type(block).__name__ for block in first.blocks} <= {"VerdictBlock", "Note"}
    assert all(section.title.startswith("What to do next") for section in rest if section.blocks)


def test_the_headline_says_how_much_slower() -> None:
    assert head(build.contended()).headline == (
        "3.09× slower, 3.21 → 9.93 s: resource contention by other processes"
    )
    assert head(build.quiet()).headline == "No change beyond the noise: 3.96 → 4.00 s"


def test_no_lost_time_is_no_alarm() -> None:
    diff = build.contended()
    alike = replace(diff, account=build.account(3.21, 3.25, queue=0.04))
    assert head(alike).tone == "unsure"
    assert head(alike).headline.startswith("1.01× slower")
    same = replace(diff, account=build.account(3.21, 3.21))
    assert head(same).headline.startswith("No slower, 3.21 → 3.21 s: resource contention")
    assert head(diff).tone == "bad"


def test_two_starved_runs_are_no_good_news() -> None:
    diff = build.quiet()
    assert head(diff).tone == "good"
    waited = {"both.lacked-cpus": True}
    starved = replace(diff, verdict=replace(diff.verdict, numbers={**diff.verdict.numbers, **waited}))
    assert head(starved).tone == "unsure"
    assert head(starved).headline == "No change, but both runs lacked CPUs: 3.96 → 4.00 s"


def test_functions_are_listed_where_they_matter() -> None:
    functions = tables(brief_diff(build.contended()))[-1]
    assert functions.columns[0].title == "function"
    change = [row.cells[1] for row in functions.rows]
    seconds = [abs(after - before) for before, after in change]  # type: ignore[misc, union-attr]
    assert seconds == sorted(seconds, reverse=True)
    assert len(functions.rows) <= 5
    # Where nothing changed no function matters.
    assert all(table.columns[0].title != "function" for table in tables(brief_diff(build.quiet())))
