"""``profkit verify`` on real programs: what is tried, in what surroundings, and what is refused."""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit import read
from profkit.formats import load_run
from profkit.formats.runfile import write_run
from profkit.model import Notice
from tests.integration.capturing import in_process, profkit, started, wait_until
from tests.shared import check_schema

CPUS = len(os.sched_getaffinity(0))
#: Workers that compete with each other on any machine.
MANY = 4 * CPUS

#: Every worker computes for a while when it begins: that more workers take longer does not depend on how busy the
#: machine is.
PROGRAM = textwrap.dedent(
    """
    import multiprocessing, os, sys, time

    def warm_up():
        end = time.process_time() + 0.2
        while time.process_time() < end:
            sum(i * i for i in range(1000))

    def work(workers):
        with multiprocessing.get_context("fork").Pool(workers, warm_up) as pool:
            pool.map(abs, range(1000))
            pool.close()
            pool.join()

    def main():
        print("threads:", os.environ.get("OMP_NUM_THREADS"), "in", os.getcwd())
        work(SIZE)

    if __name__ == "__main__":
        main()
    """
)
BY_ARGUMENT = PROGRAM.replace("SIZE", 'int(sys.argv[sys.argv.index("--workers") + 1])')
IN_CODE = PROGRAM.replace(".Pool(workers", f".Pool({MANY}").replace("SIZE", str(MANY))


def captured(place: Path, program: str, *words: str, **variables: str) -> Path:
    home = place / "home"
    home.mkdir()
    (home / "train.py").write_text(program)
    capture = ("capture", "-q", "-o", "../slow.prof", "--", sys.executable, "train.py", *words)
    done = profkit(home, *capture, **variables)
    assert done.returncode == 0, done.stderr
    return place / "slow.prof"


def checked(text: str) -> Any:
    report = json.loads(text)
    check_schema(report, "verify-1.json")
    return report


def test_an_argument_is_edited_and_tried_where_the_run_was(tmp_path: Path) -> None:
    run = captured(tmp_path, BY_ARGUMENT, "--workers", str(MANY), "--note", "a b", OMP_NUM_THREADS="3")
    verdict = read(run).verdict
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    first = verdict.advice[0]
    assert first.kind == "limit-threads"
    assert first.argv == (sys.executable, "train.py", "--workers", str(CPUS), "--note", "a b")
    assert 0 < first.predicted_gain_s < read(run).wall_s
    words = ("verify", run.name, "--format", "json", "--full-paths", "--dir", "kept")
    done = profkit(tmp_path, *words, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="5")
    assert done.returncode == 0, done.stderr
    report = checked(done.stdout)
    assert report["outcome"] == "helps"
    assert (report["advice"]["number"], report["argv"]) == (1, list(first.argv))
    assert report["predicted_gain_s"] == pytest.approx(first.predicted_gain_s)
    assert report["gain_s"] == pytest.approx(report["before_s"] - report["after_s"])
    assert report["speedup_low"] <= report["speedup"] <= report["speedup_high"]
    assert len(report["before_runs_s"]) == len(report["after_runs_s"]) >= 3
    # Each run had the directory and the variables of the one that was captured.
    logs = sorted((tmp_path / "kept" / "runs").glob("*.log"))
    assert {log.read_text() for log in logs} == {f"threads: 3 in {tmp_path / 'home'}\n"}
    commands = [load_run(path).manifest for path in (tmp_path / "kept" / "runs").glob("*.prof")]
    sizes = [manifest.command[3] for manifest in commands if manifest is not None]
    assert sorted(set(sizes)) == sorted({str(MANY), str(CPUS)})
    # The runs stand: the same command makes none, and says the same.
    again = profkit(tmp_path, *words, OMP_NUM_THREADS="1")
    assert (json.loads(again.stdout), again.stderr) == (report, "")


def test_a_number_in_the_program_is_edited_where_it_is_compiled(tmp_path: Path) -> None:
    run = captured(tmp_path, IN_CODE)
    source = tmp_path / "home" / "train.py"
    line = next(i for i, text in enumerate(source.read_text().splitlines(), 1) if ".Pool(" in text)
    shown = profkit(tmp_path, "show", run.name)
    assert f"Pool({CPUS}), in work, train.py:{line - 1}" in shown.stdout
    before = source.read_bytes()
    done = profkit(tmp_path, "verify", run.name, "--no-profile")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("✓ The advice helps: ")
    assert f"train.py:{line}: Pool({CPUS})" in done.stdout
    assert "redicted" in done.stdout
    assert source.read_bytes() == before
    assert sorted(path.name for path in source.parent.iterdir()) == ["train.py"]


def test_an_advice_that_the_program_does_not_take_fails(tmp_path: Path) -> None:
    program = BY_ARGUMENT.replace(
        "work(int", "int(sys.argv[2]) > 2 * CPUS or sys.exit('too few')\n    work(int"
    )
    run = captured(tmp_path, program.replace("CPUS", str(CPUS)), "--workers", str(MANY))
    done = profkit(tmp_path, "verify", run.name, "--format", "json", "--no-profile")
    assert done.returncode == 0, done.stderr
    report = checked(done.stdout)
    assert report["outcome"] == "fails"
    assert "too few" in report["problem"]
    assert (report["after_s"], report["gain_s"]) == (None, None)


def test_what_is_known_is_printed_when_it_is_stopped(tmp_path: Path) -> None:
    """The third run waits for a file that does not come: by then both have run once."""
    waits = """
        import glob, time
        began = len(glob.glob("../began-*"))
        open(f"../began-{began}", "x").close()
        while began == 3:  # the first one was captured
            time.sleep(0.01)
    """
    program = BY_ARGUMENT.replace("    work(", textwrap.indent(textwrap.dedent(waits), "    ") + "    work(")
    run = captured(tmp_path, program, "--workers", str(MANY))
    words = ("verify", run.name, "--no-profile", "--format", "json")
    verify = started(tmp_path, *words)
    wait_until(lambda: (tmp_path / "began-3").exists() or verify.poll() is not None)
    verify.send_signal(signal.SIGINT)
    printed, said = verify.communicate(timeout=60)
    assert verify.returncode == 130
    report = checked(printed)
    assert (report["stopped"], report["outcome"]) == (True, "undecided")
    assert len(report["before_runs_s"]) == len(report["after_runs_s"]) == 1
    plan, known = said.splitlines()
    assert plan.startswith("profkit: as it was and with the advice, in turn: 6 to 24 runs, ")
    assert known.startswith("profkit: after 1 round: ")


REFUSED: Sequence[tuple[tuple[str, ...], str]] = (
    (("slow.prof", "9"), "there is no advice 9: the report lists"),
    (("masked.prof",), "masked.prof: its command is masked"),
    (("plain.prof",), "plain.prof: holds no command"),
    (("elsewhere.prof",), "elsewhere.prof: was captured on another machine (elsewhere)"),
    (("rank.prof",), "rank.prof: is of a job that other commands started too"),
    (("attached.prof",), "attached.prof: was taken of a program that ran already"),
    (("slow.prof", "slow.prof", "slow.prof"), "give a run, or a baseline and a run"),
    (("slow.prof", "slow.prof"), "there is no advice"),
)


def test_what_cannot_be_run_is_one_line(tmp_path: Path) -> None:
    run = captured(tmp_path, BY_ARGUMENT, "--workers", str(MANY), "--token", "hunter2secret")
    masked = next(iter(read(run).runs(False).values()))
    write_run(tmp_path / "masked.prof", masked)
    whole = load_run(run)
    host = replace(whole.manifest.host, name="elsewhere")
    job = {"id": "7", "rank": 1, "world_size": 4}
    attached = (*whole.warnings, Notice("attached", "", {"seconds": 2.0}))
    write_run(tmp_path / "elsewhere.prof", replace(whole, manifest=replace(whole.manifest, host=host)))
    write_run(tmp_path / "rank.prof", replace(whole, manifest=replace(whole.manifest, job=job)))
    write_run(tmp_path / "attached.prof", replace(whole, warnings=attached))
    cProfile.run("sum(range(10))", str(tmp_path / "plain.prof"))
    for words, said in REFUSED:
        done = in_process(tmp_path, "verify", *words, status=2)
        assert done.stdout == ""
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "home" / "train.py").rename(tmp_path / "home" / "other.py")
    assert "its command needs train.py, which is not here" in profkit(tmp_path, "verify", run.name).stderr
    (tmp_path / "home").rename(tmp_path / "away")
    assert "its working directory is not here" in profkit(tmp_path, "verify", run.name).stderr
