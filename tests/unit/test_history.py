"""A repeated job: put in the order of time, changes found and explained, what does not belong to it left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.api.many_runs import read_history_runs
from profkit.formats.runfile import write_run
from tests.programs import on, program, training
from tests.rank_files import Did, rank_run, write_plain
from tests.shared import Capture, check_schema, refused


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
    write_plain(tmp_path / "plain.prof", {("a.py", "f"): 1.0})
    runs = job(tmp_path / "runs")
    for words, expected in (
        ([], "name the run files"),
        ([tmp_path / "one.prof"], "history needs several"),
        ([tmp_path / "failed.prof"], "no run succeeded"),
        ([tmp_path / "plain.prof"], "does not say when it ran"),
        ([runs, "--metric", "speed"], "--metric speed: is not known"),
        ([runs, "--metric", "iteration"], "24 of 24 runs do not have it"),
        ([runs, "--min-change", "much"], "--min-change much: give a percentage"),
    ):
        assert expected in refused(capsys, "history", *words)
