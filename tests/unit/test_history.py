"""Many runs: a repeated job in the order of time, with its changes; and configurations beside each other."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.api.many_runs import read_compared, read_history_runs
from profkit.formats.runfile import write_run
from profkit.model import Notice, Run
from tests.programs import on, program, training
from tests.rank_files import Did, rank_run, write_plain
from tests.shared import Capture, check_schema, printed, refused


def job(where: Path, days: int = 24, changed: int = 14, *, queue: float = 0.0) -> Path:
    """Runs of each day; from the changed one on, `sharpen` has another source and takes 1.5 times as long."""
    where.mkdir(exist_ok=True)
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal(days))
    for day in range(days):
        new: dict[str, Any] = {"times": {"sharpen": 1.5}, "changed": {"sharpen": "another"}}
        made = training(slower=float(noise[day]), ratio=queue * (day % 3), **(new if day >= changed else {}))
        revision = ("b" if day >= changed else "a") * 40
        run = on(program(made), day, git={"revision": revision, "dirty": False})
        # The names say nothing of the order.
        write_run(where / f"{(7 * day) % days:02}.prof", run)
    return where


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return read_history_runs([job(tmp_path_factory.mktemp("history"))])


def test_a_change_is_found_with_its_day_its_size_its_revision_and_its_cause(result: Any) -> None:
    study = result.study
    assert [run.started[:10] for run in study.runs[:3]] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    (change,) = study.changes
    assert abs(change.at - 14) <= 1
    assert change.ratio == pytest.approx(1.15, abs=0.03)  # half of the second that sharpen takes, of 3.4
    assert change.cause == "code-change"
    text = result.report()
    for said in ("Slower since 2026-03-15 09:30", "bbbbbbbbbb", "profkit diff", "▲"):
        assert said in text


def test_the_command_that_it_names_compares_runs_from_both_sides(result: Any) -> None:
    value = json.loads(result.report("json", full_paths=True))
    check_schema(value, "history-1.json")
    assert sum(value["runs"][0]["account"].values()) == pytest.approx(value["runs"][0]["wall_s"])
    (change,) = value["changes"]
    before, after = change["next_commands"][0]["argv"][2:]
    started = {file: run["started"] for run in value["runs"] for file in run["files"]}
    assert started[before] < change["started"] <= started[after]


def test_without_a_change_it_says_so(tmp_path: Path) -> None:
    steady = read_history_runs([job(tmp_path / "runs", changed=99)])
    assert steady.study.changes == ()
    assert "No change in the wall" in steady.report()
    assert steady.study.spread == pytest.approx(0.01, rel=0.5)


def test_queueing_is_not_the_jobs_own_time(tmp_path: Path) -> None:
    """Neighbours of every third day hide the change in the wall, and not in what the job itself took."""
    runs = job(tmp_path / "runs", queue=1.0)
    assert read_history_runs([runs]).study.changes == ()
    (change,) = read_history_runs([runs], metric="own").study.changes
    assert abs(change.at - 14) <= 1


def test_other_commands_and_failed_runs_are_left_out_and_said(tmp_path: Path) -> None:
    runs = job(tmp_path / "runs")
    write_run(runs / "x.prof", on(program(training(steps=300), command=("python", "other.py")), 3))
    write_run(runs / "y.prof", on(program(training(steps=300), exit_status=1), 4))
    (runs / "z.prof").write_bytes(b"no profile")
    write_plain(runs / "w.prof", {("a.py", "f"): 1.0})
    found = read_history_runs([runs])
    study = found.study
    assert (len(study.runs), study.failed, study.others, len(study.notices)) == (24, 1, 1, 2)
    text = " ".join(found.report().split())
    assert "1 run that failed is left out" in text
    assert "1 run of another command is left out" in text
    assert "does not say when it ran" in text


def test_ranks_of_one_job_are_one_run(tmp_path: Path) -> None:
    for day in range(9):
        for rank in range(2):
            run = rank_run(rank, {"f": Did(1, 1.0)}, size=2, job=f"job{day}", wall=10.0 + day % 2)
            write_run(tmp_path / f"{day}-{rank}.prof", on(run, day))
    study = read_history_runs([tmp_path]).study
    assert [len(run.files) for run in study.runs] == [2] * 9


def test_every_format_shows_the_change(result: Any) -> None:
    for format in ("terminal", "md", "html", "svg", "json"):
        shown = result.report(format)
        assert "2026-03-1" in shown
        assert ("code-change" in shown) or format == "svg"
        if format in ("html", "svg"):
            assert shown.count('class="trend-dot"') >= 24
            assert 'class="trend-mark bad"' in shown
    assert "▁" in result.notebook_html()


def test_bad_input_gives_one_line(tmp_path: Path, capsys: Capture) -> None:
    write_run(tmp_path / "one.prof", on(program(training()), 0))
    write_run(tmp_path / "failed.prof", on(program(training(), exit_status=1), 0))
    killed = replace(on(program(training()), 0), warnings=(Notice("capture-unfinished"),))
    write_run(tmp_path / "killed.prof", killed)
    write_plain(tmp_path / "plain.prof", {("a.py", "f"): 1.0})
    runs = job(tmp_path / "runs")
    for words, expected in (
        ([], "name the run files"),
        ([tmp_path / "one.prof"], "history needs several"),
        ([tmp_path / "failed.prof"], "no run succeeded"),
        ([tmp_path / "killed.prof"], "no run succeeded"),
        ([tmp_path / "plain.prof"], "does not say when it ran"),
        ([runs, "--metric", "speed"], "--metric speed: is not known"),
        ([runs, "--metric", "iteration"], "24 of 24 runs do not have it"),
        ([runs, "--min-change", "much"], "--min-change much: give a percentage"),
    ):
        assert expected in refused(capsys, "history", *words)


# Several runs or configurations: what is one row, what it is compared with, and what is said of it


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


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("slow", "crash"), "Fastest: slow.prof, 3."),
        (("crash", "slow"), "Fastest: slow.prof, 3."),
        (("crash", "crash2"), "No run succeeded"),
    ],
)
def test_a_crash_is_not_the_fastest(tmp_path: Path, named: tuple[str, ...], said: str) -> None:
    for name, steps, status in (("slow", 100, 0), ("crash", 10, 1), ("crash2", 5, 1)):
        write_run(tmp_path / f"{name}.prof", program(training(steps=steps), exit_status=status))
    result = read_compared([tmp_path / f"{name}.prof" for name in named])
    rows = [(row.failed, row.fastest) for row in result.study.rows]
    assert rows == [(0, True) if name == "slow" else (1, False) for name in named]
    text = " ".join(result.report().split())
    assert said in text
    assert "crash.prof: 1 run failed (none succeeded, so all are measured)" in text


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


def test_a_picture_has_every_column_of_a_table_with_its_title(result: Any, three: list[Path]) -> None:
    of_history = ("Changes", "change", "before", "after", "verdict", "revision", "first run", "p")
    of_rows = ("Runs", "wall", "95 % interval", "factor", "verdict", "runs")
    for made, titles in ((result, of_history), (read_compared(three), of_rows)):
        shown = made.report("svg")
        assert [title for title in titles if f">{title}</text>" not in shown] == []
        assert ">Evidence</text>" not in shown


def test_names_are_short_and_commands_run_as_pasted(
    three: list[Path], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables have the ends of paths that differ; in a terminal, commands have the paths as they were typed."""
    clean, crowded, changed = three
    other = tmp_path / "second" / "crowded"
    other.parent.mkdir()
    other.symlink_to(changed)
    monkeypatch.setenv("COLUMNS", "400")
    shown, _ = printed(capsys, "compare", clean, crowded, other)
    assert f"profkit diff {clean} {crowded}\n" in shown, "the slowest"
    names = [line.lstrip("● ").split(" ")[0] for line in shown.splitlines()]
    assert {"clean", f"{crowded.parent.name}/crowded", "second/crowded"} <= set(names)


def test_commands_name_the_runs_of_their_rows(tmp_path: Path) -> None:
    for name, threads in itertools.product(("r1", "r2"), ("1", "4")):
        (tmp_path / name).mkdir(exist_ok=True)
        run = program(training(slower=float(threads)), environment={"OMP_NUM_THREADS": threads})
        write_run(tmp_path / name / f"{threads}.prof", run)
    for rank in range(2):
        run = rank_run(rank, {"f": Did(1, 1.0)}, size=2)
        write_run(tmp_path / f"rank{rank}.prof", run)
    write_run(tmp_path / "slow.prof", program(training(slower=4.0)))

    def commands(result: Any) -> list[list[str]]:
        rows = json.loads(result.report("json", full_paths=True))["rows"]
        return [command["argv"] for row in rows for command in row["next_commands"]]

    result = read_compared([tmp_path / "r1", tmp_path / "r2"], by="settings")
    one, four = (str(tmp_path / "r1" / f"{threads}.prof") for threads in "14")
    assert commands(result) == [["profkit", "diff", one, four]]
    assert f"profkit diff {one} {four}" in result.report(full_paths=True)
    ranks, slow = (str(tmp_path / name) for name in ("rank*.prof", "slow.prof"))
    assert commands(read_compared([ranks, slow], by="run")) == [["profkit", "diff", ranks, slow]]
    # One file is not all ranks.
    result = read_compared([tmp_path], by="run")
    assert commands(result) == []
    assert "profkit diff" not in result.report()


def test_bad_input_of_compare_gives_one_line(three: list[Path], capsys: Capture) -> None:
    for words, expected in (
        (["compare"], "name runs"),
        (["compare", three[0]], "all 3 runs form one row"),
        (["compare", three[0], "none.prof"], "no such file"),
        (["compare", *three, "--group-by", "colour"], "--group-by colour: is not known"),
        (["compare", *three, "--against", "nothing"], "--against nothing: is not one of the rows"),
        (["diff", *three], "diff compares two sides, and 3 were given"),
    ):
        assert expected in refused(capsys, *words)
