"""The lines of functions: summed over runs, of native functions, on both sides, in files, reports and masks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.target import SEEDS
from profkit.api.source_lines import with_text
from profkit.capture.mapped_tables import MappedTables
from profkit.capture.source import SourceFile
from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.identity.function_keys import function_keys
from profkit.measure.line_times import FunctionLines, SeenLine, seen_lines
from profkit.measure.selected_processes import select
from profkit.model import FunctionKey, Line, Process, Run, Slice, Thread
from profkit.report import terminal
from profkit.report.brief import brief_diff
from profkit.report.diffdoc import diff_document
from profkit.report.jsondoc import diff_object
from profkit.report.lines import line_sections
from profkit.report.safety import Masker
from profkit.verdict.named_lines import lines_of_verdict
from tests import report_builders as build
from tests.builders import Row, captured, profile

SOURCE = "def f(n):\n    # slow\n    for i in range(n):\n        work(i)\n"
HASH = SourceFile(SOURCE).hash(1, "f")
ROWS = [Row("/p/a.py", 1, "f", tottime=1.0, source=HASH), Row("~", 0, "<built-in method g>", tottime=2.0)]
KEY = FunctionKey("project", "a.py", "f")


def run(*lines: Line, slices: tuple[Slice, ...] = ()) -> Run:
    return Run("a.prof", (Process(threads=(Thread(profile(ROWS), lines=lines, slices=slices),)),))


def lines_of(row: int, *runs: Run) -> tuple[SeenLine, ...]:
    chosen = [select(one) for one in runs]
    p = chosen[0].profile
    places = [np.arange(len(p), dtype=np.int32)] * len(runs)
    return seen_lines(chosen, places, p, function_keys(p, chosen[0].roots), row)


def seen(
    line: int, share: float = 1.0, source: str = HASH, first: int = 1, file: str = "/p/a.py"
) -> SeenLine:
    return SeenLine(KEY, "f", file, first, source, line, share, 50, share)


def test_lines_of_all_runs_with_the_native_functions_that_they_call() -> None:
    one = run(Line(0, 0, 3, 0.5, 50), Line(1, 0, 4, 0.3, 30), Line(0, 0, 2, 0.01, 1))
    other = run(Line(0, 0, 3, 0.1, 10))
    found = lines_of(0, one, other)
    assert [(line.line, line.samples) for line in found] == [(3, 60), (4, 30)], "0.01 s of 0.91 is no line"
    assert found[0].share == pytest.approx(0.6 / 0.91)
    (native,) = lines_of(1, one)
    assert (native.line, native.name, native.share) == (4, "f", 1.0)


def test_a_line_is_paired_by_its_place_in_the_same_source() -> None:
    below = seen(13, first=11)
    unknown = seen(3, source="")
    assert FunctionLines("f", (seen(3),), (below,)).before(below) is not None
    assert FunctionLines("f", (seen(3, source="another"),), (below,)).before(below) is None
    assert FunctionLines("f", (unknown,), (unknown,)).before(unknown) is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (run(Line(0, 2, 4, 0.25, 7)), "lines points outside its 2 rows"),
        (run(slices=(Slice(2, 5, 9, 0.25),)), "slices points outside its 2 rows"),
        *((run(slices=(Slice(0, 9, end, 0.25),)), "slices has a slice without length") for end in (9, 5)),
    ],
)
def test_wrong_lines_and_slices_are_refused(tmp_path: Path, wrong: Run, problem: str) -> None:
    write_run(tmp_path / "a.prof", wrong)
    with pytest.raises(FormatError, match=problem):
        load_run(tmp_path / "a.prof")


def test_the_tables_of_a_process_have_lines_of_its_own_functions() -> None:
    file = MappedTables((SEEDS / "tables" / "sampled").read_bytes())
    main = file.threads(None, {}, {})[0]
    found, slices = main.lines, main.slices
    assert len(found.line)
    assert len(slices.function)
    assert (slices.begin_ns < slices.end_ns).all()
    names = {file.codes.name[i] for i in found.within.tolist()}
    assert "walk" in names
    assert not any(file.functions.own[i] for i in (*found.function.tolist(), *found.within.tolist()))
    assert (found.line > 0).all()
    assert (found.seconds > 0).all()


def test_the_function_that_a_verdict_names() -> None:
    diff = build.code_change()
    subject = diff.verdict.subject
    row = diff.table.name.index(subject)
    asked: list[int] = []

    def lines(at: int) -> FunctionLines:
        asked.append(at)
        return FunctionLines(subject, (), (seen(3, share=1e6),))

    found = lines_of_verdict(diff.verdict, diff.account, diff.table.name, lines)
    assert found is not None
    assert asked == [row]
    few = FunctionLines("f", (), (seen(3, share=1e-9),))
    none = lines_of_verdict(diff.verdict, diff.account, diff.table.name, lambda at: few)
    assert none is None, "so little explains nothing"
    assert lines_of_verdict(replace(diff.verdict, cause="contention"), diff.account, (), lines) is None


def test_reports_say_them_and_masked_ones_have_no_text() -> None:
    secret = replace(seen(3, 0.9), text="login('hunter2')", file="/home/ann/a.py")
    both = FunctionLines("f", (seen(3, 0.4),), (secret, seen(4, 0.1)))
    diff = replace(build.code_change(), lines=both)
    for document in (brief_diff(diff), diff_document(diff)):
        text = terminal.render(document)
        assert "a.py:3" in text
        assert "40.0 → 90.0 %" in text
        assert "hunter2" in text
    assert len(terminal.render(brief_diff(diff)).splitlines()) <= 30
    assert diff_object(diff)["lines"]["candidate"][0]["text"] == "login('hunter2')"
    masked = Masker([]).diff(diff)
    everything = terminal.render(diff_document(masked)) + json.dumps(diff_object(masked))
    assert "hunter2" not in everything
    assert "ann" not in repr(masked.lines)
    assert "a.py:3" in everything
    assert "40.0 → 90.0 %" in everything


def test_lines_of_another_source_stand_by_themselves() -> None:
    (section,) = line_sections(FunctionLines("f", (seen(9, source="before"),), (seen(3),)))
    assert len(section.blocks) == 2
    assert line_sections(None) == []


def test_the_text_is_that_of_the_source_which_ran(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(SOURCE)

    def text(started: str, line: int = 4, source: str = HASH, file: str = str(path)) -> str:
        lines = FunctionLines("f", (), (seen(line, source=source, file=file),))
        whole = captured(profile(ROWS), wall=1.0, run=1.0, wait=0.0)
        whole = replace(whole, manifest=replace(whole.manifest, started=started))
        return with_text(lines, (), (whole,)).candidate[0].text

    later = "2999-01-01T00:00:00+00:00"
    assert text(later) == "work(i)"
    assert text("2001-01-01T00:00:00+00:00") == "", "it was written after the run began"
    assert text("") == ""
    assert text(later, source="0" * 16) == ""
    assert text(later, line=99) == ""
    assert text(later, file="a.py") == ""
