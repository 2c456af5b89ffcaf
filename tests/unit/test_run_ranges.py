"""NVTX ranges in the run file and in the reports."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.model import Process, Ranges, Run, RunSet
from profkit.model.columns import column_dtypes
from profkit.report.diffdoc import diff_document
from profkit.report.jsondoc import diff_object
from profkit.report.markdown import render
from profkit.report.showdoc import show_document
from profkit.verdict.diagnosis import diagnose as diff
from tests.run_files import npy, rewritten
from tests.unit.test_ranges import ranges_of, spread

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def steps(factor: float = 1.0, name: str = "step") -> Ranges:
    part = spread(name, factor)
    return replace(part, monotonic_ns=5, realtime_ns=7, lost=1, folded=2, unmatched=3)


def run_of(*ranges: Ranges | None) -> Run:
    return Run("run.prof", tuple(Process(pid=i, ranges=part) for i, part in enumerate(ranges, 1)))


def assert_same(a: Ranges | None, b: Ranges | None) -> None:
    assert (a is None) == (b is None)
    if a is None or b is None:
        return
    for column in column_dtypes(Ranges):
        one, two = getattr(a, column), getattr(b, column)
        if column in ("name", "domain", "category"):
            assert [a.strings[i] for i in one] == [b.strings[i] for i in two]
        else:
            assert one.dtype == two.dtype
            assert one.tolist() == two.tolist()
    for field in ("monotonic_ns", "realtime_ns", "lost", "folded", "unmatched"):
        assert getattr(a, field) == getattr(b, field)


def test_ranges_of_every_process_come_back(tmp_path: Path) -> None:
    nested = ranges_of([("außen", 0.0, 4.0, -1), ("innen", 1.0, None, 0), ("", 2.0, 2.0, -1)], domain="lib")
    run = run_of(nested, None, steps(), ranges_of([]))
    write_run(tmp_path / "run.prof", run)
    found = load_run(tmp_path / "run.prof")
    assert len(found.processes) == 4
    for process, original in zip(found.processes, run.processes, strict=True):
        assert_same(process.ranges, original.ranges)


def test_a_run_without_ranges_has_none_of_their_members(tmp_path: Path) -> None:
    write_run(tmp_path / "run.prof", run_of(None))
    with zipfile.ZipFile(tmp_path / "run.prof") as archive:
        assert not [name for name in archive.namelist() if name.startswith("ranges/")]
        assert "ranges" not in json.loads(archive.read("processes.json"))[0]
    assert load_run(tmp_path / "run.prof").processes[0].ranges is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run file with ranges."""
    write_run(tmp_path / "run.prof", run_of(steps()))
    return tmp_path / "run.prof"


@pytest.mark.parametrize(
    ("member", "values", "says"),
    [
        ("ranges/end_ns.npy", None, "missing"),
        ("ranges/parent.npy", np.zeros(3, np.int32), "different lengths"),
        ("ranges/parent.npy", np.full(40, 40, np.int32), "inside a later one"),
        ("ranges/name.npy", np.full(40, 9, np.int32), "name points outside"),
        ("ranges/kind.npy", np.full(40, 3, np.uint8), "kind points outside"),
        ("ranges/kind.npy", np.full(40, 1, np.int64), "not an array of up to"),
        ("ranges/string_offsets.npy", np.array([0, 99], np.int64), "does not fit"),
    ],
)
def test_damaged_columns_are_one_line(path: Path, member: str, values: np.ndarray | None, says: str) -> None:
    rewritten(path, {member: None if values is None else npy(values)})
    with pytest.raises(FormatError, match=says):
        load_run(path)


def checked(name: str, value: dict[str, object]) -> dict[str, object]:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(value)
    return value


def test_diff_as_json() -> None:
    sides = (
        RunSet("a", (run_of(steps(1.0), ranges_of([("gone", 0.0, 1.0, -1)])),)),
        RunSet("b", (run_of(steps(3.0)),)),
    )
    shown = checked("diff-2", diff_object(diff(*sides)))
    step, gone = shown["ranges"]  # type: ignore[misc]
    assert (step["name"], step["median_ratio"], step["slower"]) == ("step", pytest.approx(3.0), 1.0)
    assert step["baseline"]["count"] == step["candidate"]["count"] == 40
    assert (gone["candidate"], gone["slower"]) == (None, None)


def test_only_the_ranges_of_the_chosen_process_are_compared() -> None:
    a, b = (
        RunSet("a", (run_of(steps(), steps(name="other")),)),
        RunSet("b", (run_of(steps(), steps(name="other")),)),
    )
    assert [change.key.name for change in diff(a, b, process="pid:2").ranges] == ["other"]


def test_a_replicate_without_ranges_does_not_count_as_zero() -> None:
    a, b = RunSet("a", (run_of(steps()), run_of(None))), RunSet("b", (run_of(steps()),))
    (change,) = diff(a, b).ranges
    assert change.total_ratio == 1.0


def test_show_for_people() -> None:
    leaky = ranges_of(
        [("step", 0.0, 1.0, -1), ("load", 0.0, 0.5, 0), ("left", 1.0, None, -1), ("", 2.0, 3.0, -1)]
    )
    text = render(show_document(run_of(leaky, steps(name="epoch"))))
    section = text[text.index("NVTX ranges") :]
    assert "(no name)" in section
    assert "load" in section
    assert "50.0 %" in section
    assert "3 ends had no beginning" in section
    assert "began but never ended" in section


def test_diff_for_people_marks_what_hardly_overlaps() -> None:
    a, b = (
        RunSet("a", (run_of(steps(1.0), steps(1.0, "same")),)),
        RunSet("b", (run_of(steps(3.0), steps(1.0, "same")),)),
    )
    text = render(diff_document(diff(a, b)))
    section = text[text.index("NVTX ranges whose total changed most") :]
    (step,) = [line for line in section.splitlines() if "step" in line]
    (same,) = [line for line in section.splitlines() if "same" in line]
    assert "3.00×" in step
    assert ("●" in step, "●" in same) == (True, False)
    assert "50.0 %" in same
