"""``profkit sweep``, ``profkit tune`` and ``profkit verify`` on real programs."""

from __future__ import annotations

import contextlib
import cProfile
import json
import os
import pty
import re
import signal
import subprocess
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
from profkit.study.trials import Interrupted, run_once
from tests.integration.capturing import (
    ended,
    environment,
    in_process,
    profkit,
    profkit_command,
    started,
    state,
    wait_until,
)
from tests.requirements import imported
from tests.shared import check_schema, screen, until_end, words_of

#: Sleeps: its time does not depend on how busy the machine is, and settings differ by far more than the noise.
PROGRAM = textwrap.dedent(
    """
    import os, sys, time
    pause = {"1": 0.05, "2": 0.3, "3": 0.6}[sys.argv[1]] + (0.5 if os.environ.get("SLOW") == "yes" else 0.0)
    time.sleep(pause)
    print(f"{pause:.3f} sec/batch")
    if sys.argv[1] == "3" and os.environ.get("FAIL"):
        sys.exit("cannot do that")
    """
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def target(*words: str) -> tuple[str, ...]:
    return ("--", sys.executable, "train.py", *words)


def checked(text: str) -> Any:
    report = json.loads(text)
    name = report["schema"].partition(".")[2].replace("/", "-")
    check_schema(report, f"{name}.json")
    return report


def runs_of(place: Path, *statuses: str) -> list[tuple[tuple[str, ...], int]]:
    """Return the setting and the round of each run, of some statuses only if any are given."""
    trials = map(json.loads, (place / "sweep" / "journal.jsonl").read_text().splitlines())
    chosen = (trial for trial in trials if not statuses or trial["status"] in statuses)
    return [(tuple(trial["setting"].values()), trial["round"]) for trial in chosen]


def settings_of(place: Path) -> list[tuple[str, ...]]:
    """Return the settings in the order in which they ran; on a busy machine one may have run more than once."""
    return [setting for setting, _ in dict.fromkeys(runs_of(place))]


def test_a_terminal_shows_what_runs_and_how_long_it_takes(place: Path) -> None:
    words = ("sweep", "-p", "w=2,3", "--repeat", "2")
    reading, writing = pty.openpty()
    with started(place, *words, "--no-profile", *target("{w}"), stderr=writing) as study:
        os.close(writing)
        text = until_end(reading)
    assert study.returncode == 0, text
    shown = re.findall(r"\rprofkit: sweep: run (\d) of (\d): w=(\d), (\d+) s(, about \d+ s left)?", text)
    assert shown
    assert {setting for _, _, setting, _, _ in shown} <= {"2", "3"}
    # Nothing is known of the first run's end; by then, of the last one's.
    assert any(left for *_, left in shown)
    # One line is written again and again; what stays is the line of each run that has ended.
    runs = [line for line in screen(text) if line]
    assert len(runs) == 4
    assert all(re.fullmatch(r"profkit: run \d of \d: w=\d: .*", line) for line in runs)


def test_a_sweep_runs_in_rounds_and_names_the_best(place: Path) -> None:
    words = ("sweep", "-p", "w=3,1", "-e", "SLOW=no,yes", "--repeat", "2", "-o", "s.json")
    done = profkit(place, *words, *target("{w}"))
    assert done.stdout == ""
    order = settings_of(place)
    assert len(order) == 8
    assert set(order[:4]) == set(order[4:])  # each round has every setting once …
    assert order[:4] != order[4:]  # … in an order of its own
    report = checked((place / "s.json").read_text())
    best = report["cells"][report["best"]]
    assert best["setting"] == {"w": "1", "SLOW": "no"}
    assert best["best"]
    assert report["cells"][0]["speedup"] == 1
    names = {f"{i}-{n}.prof" for i in range(1, 5) for n in (1, 2)}
    assert {path.name for path in (place / "sweep" / "runs").glob("*.prof")} == names
    run = load_run(place / "sweep" / "runs" / "1-1.prof")
    assert run.manifest.command[-1] == "3"
    # The same command again runs nothing and says the same; so does the directory alone.
    before = (place / "sweep" / "journal.jsonl").read_bytes()
    again = profkit(place, *words[:-2], *target("{w}"))
    # Beside other tests, two runs a setting may not tell it from the noise.
    assert re.search(r"(Best:|best median is that of) w=1 SLOW=no\b", again.stdout)
    assert "run " not in again.stderr
    # Beside a line for each run that has ended, only a terminal shows something.
    assert "sweep: " not in done.stderr
    assert "\r" not in done.stderr
    assert (place / "sweep" / "journal.jsonl").read_bytes() == before
    assert profkit(place, "sweep").stdout == again.stdout


def test_failures_and_timeouts_are_marked_and_not_tried_again(place: Path) -> None:
    words = ("sweep", "-p", "w=1,2,3", "--repeat", "2", "--timeout", "60")
    done = profkit(place, *words, *target("{w}"), FAIL="1")
    statuses = [json.loads(line) for line in (place / "sweep" / "journal.jsonl").read_text().splitlines()]
    failed = [trial for trial in statuses if trial["setting"]["w"] == "3"]
    assert [trial["status"] for trial in failed] == ["failed"]
    assert "cannot do that" in failed[0]["problem"]
    assert "w=3: 1 run failed" in done.stdout
    # What the report's command compares, runs/3-*.prof, has no run that failed.
    kept = {path.name for path in (place / "sweep" / "runs").glob("*.prof")}
    assert kept == {"1-1.prof", "1-2.prof", "2-1.prof", "2-2.prof", "failed-3-1.prof"}
    assert failed[0]["run"] == "failed-3-1.prof"
    late = profkit(
        *(place, "sweep", "-p", "s=60,0", "--repeat", "1", "--timeout", "1", "--dir", "late"),
        *("--no-profile", "--", "sleep", "{s}"),
    )
    assert "timeout" in late.stderr
    assert "Best: s=0" in late.stdout


def test_a_run_that_is_ended_leaves_no_process(place: Path) -> None:
    """With a capture around it and without, at the same time: both mostly wait."""
    stubborn = (
        "import signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '3217'])\nopen('pid', 'w').write(str(child.pid))\ntime.sleep(600)\n"
    )
    words = ("sweep", "-e", "A=1", "--repeat", "1", "--timeout", "3")
    studies = []
    for option in ((), ("--no-profile",)):
        home = place / f"home{len(option)}"
        home.mkdir()
        (home / "stubborn.py").write_text(stubborn)
        command = profkit_command(*words, *option, "--", sys.executable, "stubborn.py")
        # Ten seconds are for programs that end when they are asked to, which this one does not.
        soon = "import profkit.study.trials as trials; trials.GRACE_S = 1.0; main()"
        command[2] = command[2].replace("main()", soon)
        studies.append((home, subprocess.Popen(command, cwd=home, env=environment())))
    for home, study in studies:
        assert study.wait(240) == 0
        pid = int((home / "pid").read_text())
        wait_until(lambda pid=pid: not alive(pid), seconds=10)
        assert [path.name for path in (home / "sweep" / "runs").iterdir() if path.name.startswith(".")] == []


def test_a_run_that_is_just_being_started_is_ended_too(tmp_path: Path) -> None:
    """Ctrl-C comes when the process is there, and `subprocess` has not said so yet."""

    def interrupt(_frame: object, event: str, what: Any) -> None:
        if event == "c_return" and what.__name__ == "fork_exec":
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    mine = Path(f"/proc/self/task/{os.getpid()}/children")
    before = mine.read_text().split()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(Interrupted):
            run_once(["sleep", "600"], os.environ, log=tmp_path / "log", run_file=None, timeout_s=None)
    finally:
        sys.setprofile(None)
    assert not [pid for pid in mine.read_text().split() if pid not in before and alive(int(pid))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_does_not_spare_the_target(number: signal.Signals, place: Path) -> None:
    slow = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: open('asked', 'w').close())\n"
        "open('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    (place / "slow.py").write_text(slow)
    command = profkit_command(*words_of("sweep -e A=1 --repeat 1 --no-profile --"), sys.executable, "slow.py")
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # the tests may run under nohup
    soon = "import profkit.study.trials as trials; trials.GRACE_S = 2.0; main()"
    command[2] = command[2].replace("main()", before + soon)
    with subprocess.Popen(command, cwd=place, env=environment(), stderr=subprocess.PIPE, text=True) as study:
        wait_until(lambda: (place / "pid").exists() and (place / "pid").read_text())
        pid = int((place / "pid").read_text())
        try:
            study.send_signal(number)
            wait_until(lambda: (place / "asked").exists() or study.poll() is not None)
            study.send_signal(number)
            ended(study, 130)
            assert not alive(pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    return state(pid) not in ("", "Z")


def begun(place: Path, runs: int, *words: str) -> subprocess.Popen[str]:
    """Start a study; return it when so many of its runs have ended."""
    study = started(place, *words, *target("{w}"))
    journal = place / "sweep" / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_text().count("\n") >= runs)
    return study


@pytest.mark.parametrize(("number", "options"), [(signal.SIGINT, ()), (signal.SIGKILL, ("--no-profile",))])
def test_a_study_that_was_ended_goes_on(number: int, options: tuple[str, ...], place: Path) -> None:
    words = ("sweep", "-p", "w=1,2,3", "--repeat", "2", *options)
    with begun(place, 2, *words) as study:
        study.send_signal(number)
        if number == signal.SIGINT:
            _, error = ended(study, 130)
            assert "run the same command again to continue" in error
            assert "Traceback" not in error
    assert 1 <= len(settings_of(place)) < 6
    had = runs_of(place, "done")
    profkit(place, *words, *target("{w}"))
    # Other runs than those that were disturbed are not repeated.
    now = runs_of(place, "done")
    assert now[: len(had)] == had
    assert len(set(now)) == len(now)
    assert len(settings_of(place)) == 6


def test_a_search_finds_the_best_and_confirms_it(place: Path) -> None:
    imported("optuna")
    words = ("tune", "-p", "w=1,3", "-e", "SLOW=no,yes", "--trials", "4", "--repeat", "3", "--seed", "1")
    words += ("--baseline", "w=3,SLOW=yes")
    profkit(place, *words, "-o", "t.json", *target("{w}"))
    report = checked((place / "t.json").read_text())
    assert len(report["cells"]) == 4
    assert report["cells"][0]["setting"] == {"w": "3", "SLOW": "yes"}  # the default was tried first
    again = report["confirmed"]
    assert again["cells"][again["advised"]]["setting"] == {"w": "1", "SLOW": "no"}
    assert again["gain_low"] > 1
    assert again["gain_low"] <= again["gain"] <= again["gain_high"]
    text = profkit(place, *words, *target("{w}"))
    assert "Confirmed: w=1 SLOW=no" in text.stdout
    assert re.search(
        r"profkit diff 'tune/confirm/runs/\d+-\*.prof' 'tune/confirm/runs/1-\*.prof'", text.stdout
    )
    assert "run " not in text.stderr
    other = profkit(place, "tune", "-p", "w=1..2", "--trials", "2", *target("{w}"), status=2)
    assert "holds a study with another parameter" in other.stderr


def test_no_better_than_the_default_is_said(place: Path) -> None:
    imported("optuna")
    words = ("tune", "-p", "w=1,2", "--trials", "2", "--repeat", "3", "--baseline", "w=1", "--no-profile")
    done = profkit(place, *words, *target("{w}"))
    assert "No setting is better than w=1 beyond the noise" in done.stdout


def test_a_default_whose_run_was_stopped_leaves_no_file_and_runs_again(place: Path) -> None:
    """It lies outside the space, so that nothing but the queue of settings brings it back."""
    imported("optuna")
    waits = "    open('began', 'x').close()\n    time.sleep(600)\n"
    (place / "train.py").write_text(f"import os, time\nif not os.path.exists('began'):\n{waits}")
    words = ("tune", "-p", "w=1,2", "--baseline", "w=3", "--trials", "3", "--repeat", "0", "-o", "t.json")
    with started(place, *words, *target("{w}")) as study:
        wait_until(lambda: (place / "began").exists() or study.poll() is not None)
        study.send_signal(signal.SIGINT)
        ended(study, 130)
    assert list((place / "tune" / "runs").glob("*.prof")) == []
    profkit(place, *words, *target("{w}"))
    default = checked((place / "t.json").read_text())["cells"][0]
    assert default["setting"] == {"w": "3"}
    assert len(default["values"]) == 1


def test_an_objective_that_matches_nothing_ends_the_search_after_one_run(place: Path) -> None:
    imported("optuna")
    words = ("tune", "-p", "w=1,2", "--objective", "output:([0-9.]+) images/s", "--maximise")
    done = profkit(place, *words, *target("{w}"), status=2)
    assert "no positive number in its output matches" in done.stderr.splitlines()[-1]
    assert len(list((place / "tune" / "runs").glob("*.prof"))) == 1


def test_ranges_are_objectives(place: Path) -> None:
    imported("optuna")
    imported("nvtx")
    (place / "steps.py").write_text(
        "import nvtx, sys, time\nfor _ in range(5):\n"
        "    with nvtx.annotate('step'):\n        time.sleep(0.02 * int(sys.argv[1]))\n"
    )
    words = tuple(words_of("tune -p w=1,4 --trials 2 --repeat 0 --objective range:step -o t.json"))
    profkit(place, *words, "--", sys.executable, "steps.py", "{w}")
    cells = {
        cell["setting"]["w"]: cell["median"] for cell in json.loads((place / "t.json").read_text())["cells"]
    }
    assert 0.02 <= cells["1"] < cells["4"]


@pytest.mark.parametrize("storage", ["sqlite:///shared.db", "journal:shared.log"])
def test_two_processes_work_on_one_study(storage: str, place: Path) -> None:
    imported("optuna")
    common = ("-p", "w=1..3", "-e", "SLOW=no,yes", "--baseline", "w=3,SLOW=yes")
    common += ("--trials", "6", "--repeat", "0", "--no-profile")
    running = []
    for name in ("one", "two"):
        words = ("--storage", storage, "--dir", name, "-o", f"{name}.json", *target("{w}"))
        running.append(started(place, "tune", *common, *words))
    for process in running:
        ended(process)
    ran = [len(list((place / name / "runs").glob("*.log"))) for name in ("one", "two")]
    assert min(ran) >= 1
    reports = [json.loads((place / f"{name}.json").read_text()) for name in ("one", "two")]
    # Whoever ended last saw all trials of both.
    most = max(reports, key=lambda report: sum(len(cell["values"]) for cell in report["cells"]))
    # SQLite gives one waiting trial to both now and then, and then it is run twice.
    assert 6 <= sum(len(cell["values"]) + cell["failed"] for cell in most["cells"]) <= sum(ran)
    assert most["cells"][most["best"]]["setting"] == {"w": "1", "SLOW": "no"}


CPUS = len(os.sched_getaffinity(0))
#: Workers that compete with each other on any machine.
MANY = 4 * CPUS

#: Every worker computes for a while when it begins: that more workers take longer does not depend on how busy the
#: machine is.
POOL = textwrap.dedent(
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
BY_ARGUMENT = POOL.replace("SIZE", 'int(sys.argv[sys.argv.index("--workers") + 1])')
IN_CODE = POOL.replace(".Pool(workers", f".Pool({MANY}").replace("SIZE", str(MANY))


def captured(place: Path, program: str, *words: str, **variables: str) -> Path:
    home = place / "home"
    home.mkdir()
    (home / "train.py").write_text(program)
    capture = ("capture", "-q", "-o", "../slow.prof", "--", sys.executable, "train.py", *words)
    profkit(home, *capture, **variables)
    return place / "slow.prof"


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
    printed, said = ended(verify, 130)
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
    (("rank.prof",), "rank.prof: is one part of a job that other commands also started"),
    (("attached.prof",), "attached.prof: was captured from a program that was already running"),
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
    assert (
        "its command needs train.py, which is not here"
        in profkit(tmp_path, "verify", run.name, status=2).stderr
    )
    (tmp_path / "home").rename(tmp_path / "away")
    assert "its working directory is not here" in profkit(tmp_path, "verify", run.name, status=2).stderr
