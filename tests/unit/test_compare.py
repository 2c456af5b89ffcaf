"""Several runs or configurations: what is one row, what it is compared with, and what is said of it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.api.many_runs import read_compared
from profkit.formats.runfile import write_run
from profkit.model import Run
from tests.programs import program, training
from tests.rank_files import write_plain
from tests.shared import Capture, check_schema, refused


def at(run: Run, revision: str) -> Run:
    return replace(run, manifest=replace(run.manifest, git={"revision": revision * 40, "dirty": False}))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run as it was, one that queues behind others, and one whose code changed; three repeats of each."""
    directory = tmp_path_factory.mktemp("three")
    for name, kwargs, others in (
        ("clean", {}, 0.0),
        ("crowded", {"ratio": 0.6}, 1.5),
        ("changed", {"times": {"sharpen": 2.0}, "changed": {"sharpen": "another"}}, 0.0),
    ):
        (directory / name).mkdir()
        for i in range(3):
            made = program(training(slower=1 + 0.003 * i, **kwargs), others=others)
            write_run(directory / name / f"{i}.prof", made)
    return [directory / name for name in ("clean", "crowded", "changed")]


def test_each_row_has_its_wall_its_account_and_its_verdict(three: list[Path]) -> None:
    result = read_compared(three)
    study = result.study
    clean, crowded, changed = study.rows
    assert [row.runs for row in study.rows] == [3, 3, 3]
    assert (study.reference, study.best, clean.cause) == (0, 0, "")
    assert (crowded.cause, crowded.kind) == ("contention", "external-load")
    assert (changed.cause, changed.slowdown.value > 1.2) == ("code-change", True)
    for row in study.rows:
        assert row.low_s < row.median_s < row.high_s
        assert sum(row.buckets) == pytest.approx(row.median_s, rel=0.01)
    assert [row.fastest for row in study.rows] == [True, False, False]
    assert "Fastest: clean" in result.report()


def test_the_reference_can_be_any_row(three: list[Path]) -> None:
    assert read_compared(three, against="best").study.reference == 0
    assert read_compared(three[::-1], against="best").study.reference == 2
    study = read_compared(three, against="changed").study
    assert (study.reference, study.rows[0].cause) == (2, "faster")
    assert read_compared(three, against=str(three[1])).study.reference == 1


def test_runs_of_one_directory_are_rows_by_what_was_varied(tmp_path: Path) -> None:
    varied = list(itertools.product(("1", "4"), ("10", "20")))
    for (threads, size), i in itertools.product(varied, range(2)):
        run = program(
            training(slower=float(size) / 10 + 0.01 * i),
            environment={"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": "1"},
            command=("python", "train.py", "--size", size, "--seed", "7"),
        )
        write_run(tmp_path / f"{threads}-{size}-{i}.prof", run)
    result = read_compared([tmp_path])
    rows = [(row.configuration, row.runs) for row in result.study.rows]
    named = [(dict(found.environment), found.words, runs) for found, runs in rows]
    assert named == [({"OMP_NUM_THREADS": threads}, ("--size", size), 2) for threads, size in varied]
    text = result.report("md")
    assert "OMP_NUM_THREADS=4 --size 20" in text.replace("<span></span>", "").replace("&#95;", "_")


def test_groupings(tmp_path: Path) -> None:
    for name, revision in (("a", "a"), ("b", "a"), ("c", "b")):
        write_run(tmp_path / f"{name}.prof", at(program(training()), revision))
    files = [tmp_path / f"{name}.prof" for name in "abc"]

    def rows(what: list[Path], by: str) -> list[int]:
        return [row.runs for row in read_compared(what, by=by).study.rows]

    assert rows(files, "auto") == [1, 1, 1]  # what was named apart stays apart
    assert rows([tmp_path], "auto") == [2, 1]  # in a directory, the same settings are repeats
    assert rows(files, "settings") == [2, 1]
    assert rows(files, "revision") == [2, 1]
    assert rows([tmp_path], "run") == [1, 1, 1]
    named = [row.configuration.argument for row in read_compared([tmp_path], by="run").study.rows]
    assert named == list(map(str, files))
    assert read_compared([tmp_path], by="revision").study.rows[1].configuration.revision == "b" * 40


def test_failed_runs_are_left_out_and_said(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_run(tmp_path / name / "1.prof", program(training()))
    write_run(tmp_path / "b" / "2.prof", program(training(steps=10), exit_status=1))
    result = read_compared([tmp_path / "a", tmp_path / "b"])
    row = result.study.rows[1]
    assert (row.runs, row.failed) == (1, 1)
    assert "b: 1 run failed (left out)" in " ".join(result.report().split())


def test_plain_profiles_are_compared_too(tmp_path: Path) -> None:
    for name, seconds in (("a", 1.0), ("b", 2.0)):
        write_plain(tmp_path / f"{name}.prof", {("a.py", "f"): seconds, ("a.py", "g"): 0.5})
    rows = read_compared([tmp_path / "a.prof", tmp_path / "b.prof"]).study.rows
    assert [row.median_s for row in rows] == pytest.approx([1.5, 2.5])


def test_every_format_names_the_rows(three: list[Path]) -> None:
    found = read_compared(three)
    for format in ("terminal", "md", "html", "svg", "json"):
        shown = found.report(format)
        assert "clean" in shown
        assert ("external-load" in shown) or format == "svg"
        assert str(three[0].parent) not in shown
    assert "queued for a CPU" in found.notebook_html()
    value = json.loads(found.report("json"))
    check_schema(value, "compare-1.json")
    commands = [[command["argv"] for command in row["next_commands"]] for row in value["rows"]]
    assert commands == [[], *([["profkit", "diff", "clean", name]] for name in ("crowded", "changed"))]


def test_bad_input_gives_one_line(three: list[Path], capsys: Capture) -> None:
    for words, expected in (
        (["compare"], "name runs"),
        (["compare", three[0]], "all 3 runs form one row"),
        (["compare", three[0], "none.prof"], "no such file"),
        (["compare", *three, "--group-by", "colour"], "--group-by colour: is not known"),
        (["compare", *three, "--against", "nothing"], "--against nothing: is not one of the rows"),
        (["diff", *three], "diff compares two sides, and 3 were given"),
    ):
        assert expected in refused(capsys, *words)
