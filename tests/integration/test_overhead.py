"""What tracing adds stays within a budget, and out of the times, for nothing but counts of tiny functions."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from profkit.formats import load_run
from profkit.model import Process, Run
from tests.integration.capturing import PROGRAMS, calls, captured, environment, profkit_command, run_capture
from tests.integration.tracing import NEW
from tests.interpreters import interpreter

MANY = str(PROGRAMS / "many_calls.py")
VERSIONS = ("3.11", "3.12", "3.13")
#: Less than the usual 5 % of the time: beside other programs a process has less of the CPU, and so has its tracer.
BUDGET = "2%"


def throttled(process: Process) -> set[str]:
    return {
        thread.profile.strings[thread.profile.name[row]]
        for thread in process.threads
        for row in thread.throttled
    }


def answer(directory: Path, *words: str) -> Any:
    """Return the JSON that a command prints."""
    done = subprocess.run(
        profkit_command(*words, "--format", "json"),
        cwd=directory,
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    return json.loads(done.stdout)


def tracer_s(run: Run) -> float:
    return sum(thread.tracer_s or 0.0 for process in run.processes for thread in process.threads)


def seconds_of(process: Process, column: str, name: str) -> float:
    return sum(
        float(getattr(profile, column)[row])
        for profile in (thread.profile for thread in process.threads)
        for row in range(len(profile))
        if profile.strings[profile.name[row]] == name
    )


@pytest.mark.interpreters
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_called_too_often_is_left_to_its_callers_and_said(tmp_path: Path, version: str) -> None:
    (tmp_path / "whole").mkdir()
    python = interpreter(version)
    run = captured(tmp_path, python, MANY, options=("--overhead", BUDGET))
    whole = captured(tmp_path / "whole", python, MANY, options=("--overhead", "off"))
    main, full = run.processes[0], whole.processes[0]
    left = throttled(main)
    assert "tiny" in left
    assert not throttled(full)
    assert not any(notice.code == "functions-throttled" for notice in whole.warnings)
    # Who is called seldom is counted, and so is who waits, opens nothing and is called often.
    counted, all_calls = calls(main), calls(full)
    assert counted["seldom"] == all_calls["seldom"] == 7
    assert all_calls["tiny"] > 600_000
    acquire = next(name for name in all_calls if "'acquire'" in name)
    assert counted[acquire] == all_calls[acquire] >= 100_000
    assert "main" not in left
    # What was counted until then stays.
    assert 1000 <= counted["tiny"] < all_calls["tiny"]
    # The stack was kept in order: what is open to the end is the whole program, and nothing is in it twice.
    assert seconds_of(main, "cumtime", "main") <= 1.01 * (main.wall_s or 0.0)
    own = float(main.threads[0].profile.tottime.sum()) + (main.threads[0].tracer_s or 0.0)
    assert 0.7 * (main.wall_s or 0.0) <= own <= 1.01 * (main.wall_s or 0.0)
    said = [notice for notice in run.warnings if notice.code == "functions-throttled"]
    assert [notice.numbers["functions"] for notice in said] >= [len(left)]
    assert tracer_s(run) < tracer_s(whole)


@pytest.mark.interpreters
@pytest.mark.parametrize("version", NEW)
def test_workers_that_were_forked_say_what_their_parent_has_throttled(tmp_path: Path, version: str) -> None:
    run = captured(tmp_path, interpreter(version), MANY, options=("--overhead", BUDGET))
    workers = [process for process in run.processes if process.role == "worker"]
    assert len(workers) == 2
    for worker in workers:
        assert "tiny" in throttled(worker)
    # Their own calls that are not throttled are complete: each of four trees has its leaves.
    full = captured(tmp_path, interpreter(version), MANY, options=("--overhead", "off"))
    of = [sum(calls(p).get("mapstar", 0) for p in r.processes if p.role == "worker") for r in (run, full)]
    assert of == [4, 4]


@pytest.mark.interpreters
@pytest.mark.parametrize("version", NEW)
def test_the_times_of_callers_hold_what_they_call(tmp_path: Path, version: str) -> None:
    """A function's cumulative time is the same whether those that it calls are counted or not."""
    target = tmp_path / "one.py"
    target.write_text(
        "import time\n"
        "def tiny(x):\n    return x + 1\n"
        "def caller(n):\n    begin = time.perf_counter()\n    total = 0\n"
        "    for _ in range(n):\n        total = tiny(total)\n    return time.perf_counter() - begin\n"
        "print(caller(1_500_000))\n"
    )
    done = run_capture(tmp_path, interpreter(version), str(target), options=("--overhead", BUDGET))
    assert done.returncode == 0, done.stderr
    main = load_run(tmp_path / "run.prof").processes[0]
    assert "tiny" in throttled(main)
    took, within = float(done.stdout), seconds_of(main, "cumtime", "caller")
    known = main.threads[0].tracer_s
    assert known is not None
    # By its own clock the function took what it has now, and what the tracer took out.
    assert within <= took + 1e-3
    assert within + known >= 0.95 * took
    own = seconds_of(main, "tottime", "caller") + seconds_of(main, "tottime", "tiny")
    assert own == pytest.approx(within, rel=0.1)


@pytest.mark.interpreters
@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_tracer_takes_is_taken_out_and_stated(tmp_path: Path, version: str) -> None:
    run = captured(tmp_path, interpreter(version), MANY, "0.3", options=("--overhead", "off"))
    main = run.processes[0]
    took = main.threads[0].tracer_s
    assert took is not None
    events = sum(calls(main, 0).values())
    # Some tens of nanoseconds a call, whatever the machine; less than what the process ran.
    assert 5e-9 < took / events < 5e-6
    assert took < (main.cpu_s or 0.0)
    shown = subprocess.run(
        profkit_command("show", "--full", str(tmp_path / "run.prof")),
        capture_output=True,
        text=True,
        env=environment(COLUMNS="200"),
        check=True,
    ).stdout
    assert "in no function's time" in shown


@pytest.mark.interpreters
def test_two_runs_are_compared_by_what_both_counted(tmp_path: Path) -> None:
    """A function that one side has throttled is a part of its callers on both sides: no other workload."""
    python = interpreter("3.12")
    for name, share in (("one", "5%"), ("other", "off")):  # with less, `small` may go as well
        (tmp_path / name).mkdir()
        captured(tmp_path / name, python, MANY, options=("--overhead", share))
    found = answer(tmp_path, "diff", "one/run.prof", "other/run.prof")
    counted = [
        (row["name"], row["baseline"]["ncalls"], row["candidate"]["ncalls"])
        for row in found["functions"]
        if row["root"] == "project" and row["baseline"] and row["candidate"]
    ]
    assert [row for row in counted if row[1] != row[2]] == []
    assert all(evidence["signal"] != "calls.factor" for evidence in found["verdict"]["evidence"])
    names = {row["name"] for row in found["functions"]}
    assert "small" in names
    assert "tiny" not in names
    assert any(notice["code"] == "functions-folded" for notice in found["warnings"])


@pytest.mark.interpreters
def test_ranks_are_compared_by_what_all_of_them_counted(tmp_path: Path) -> None:
    """A function that one rank has throttled is a part of its callers in all: no rank does it instead of them."""
    program = tmp_path / "ranked.py"
    program.write_text(
        "def tiny(x):\n    return x + 1\n"
        "def caller(n):\n    total = 0\n    for _ in range(n):\n        total = tiny(total)\n"
        "def other():\n    return sum(range(20_000))\n"
        "for _ in range(4):\n    caller(300_000)\n    [other() for _ in range(300)]\n"
    )
    for rank, share in enumerate(("5%", "off", "off")):
        env = environment(RANK=str(rank), WORLD_SIZE="3")
        done = run_capture(
            tmp_path, interpreter("3.12"), str(program), options=("--overhead", share), env=env
        )
        assert done.returncode == 0, done.stderr
    files = [f"run-rank{rank}.prof" for rank in range(3)]
    left = [throttled(load_run(tmp_path / name).processes[0]) for name in files]
    assert ["tiny" in names for names in left] == [True, False, False]
    for jobs in ("1", "2"):
        found = answer(tmp_path, "ranks", "--jobs", jobs, *files)
        names = {row["name"] for row in found["functions"]}
        assert "caller" in names
        assert "tiny" not in names
        assert [notice["code"] for notice in found["notices"]] == ["functions-folded"]
        calls_of_caller = next(row for row in found["functions"] if row["name"] == "caller")
        # In each rank it has what its calls of the other function took.
        assert min(calls_of_caller["work_s"]) > 0.5 * max(calls_of_caller["work_s"])
        assert found["unclear"] == []


@pytest.mark.interpreters
@pytest.mark.parametrize("version", VERSIONS)
def test_a_program_does_the_same_under_a_budget(tmp_path: Path, version: str) -> None:
    """Recursion, generators and exceptions of throttled functions, and a profile of the program's own."""
    target = tmp_path / "own.py"
    target.write_text(
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "def numbers(n):\n    for i in range(n):\n        got = yield i\n        assert got is None\n"
        "def fails(i):\n    if i % 3 == 0:\n        raise ValueError(i)\n    return i\n"
        "def attempts(n):\n    good = 0\n    for i in range(n):\n        try:\n            good += fails(i) >= 0\n"
        "        except ValueError:\n            pass\n    return good\n"
        "def rest():\n    return sum(numbers(200_000)), attempts(200_000)\n"
        "print(fib(25), rest())\n"
        "import cProfile, pstats\n"
        "own = cProfile.Profile()\nown.enable()\nprint(fib(10))\nown.disable()\n"
        "print([v[0] for k, v in pstats.Stats(own).stats.items() if k[2] == 'fib'],"
        " [v[1] for k, v in pstats.Stats(own).stats.items() if k[2] == 'fib'])\n"
        "print(fib(12), rest())\n"
    )
    plain = subprocess.run([interpreter(version), str(target)], capture_output=True, text=True, check=True)
    done = run_capture(tmp_path, interpreter(version), str(target), options=("--overhead", "1%"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    main = load_run(tmp_path / "run.prof").processes[0]
    found = calls(main)
    assert found["rest"] == 2
    assert found["attempts"] == 2


@pytest.mark.parametrize("share", ["5", "0%", "100%", "-1%", "five", "5%%"])
def test_a_share_that_is_none_is_refused(tmp_path: Path, share: str) -> None:
    done = run_capture(tmp_path, "true", options=("--overhead", share))
    assert done.returncode == 2
    assert "--overhead" in done.stderr
    assert "such as 5%" in done.stderr
    assert "Traceback" not in done.stderr


#: A function that calls nothing in C until the tracer leaves its frames alone; then it waits a hundred times.
LATE = """
import time

def tiny(x):
    return x + 1

def take(number):
    if number >= 400_000 and number % 1000 == 0:
        time.sleep(0.002)
    return tiny(number)

def main():
    for number in range(500_000):
        take(number)

main()
"""

#: What the target's own hooks see after the tracer has left frames alone.
HOOKED = """
import sys, threading

seen = []

def hook(frame, event, argument):
    if "set" not in (name := getattr(argument, "__name__", frame.f_code.co_name)):
        seen.append((event, frame.f_code.co_name, name))
    return hook

def tiny(x):
    return x + 1

def inner(number):
    total = tiny(number)
    return abs(total)

def step(number):
    if number == 300_000:
        sys.{set}(hook)
    if number == 300_003:
        sys.{set}(None)
    return inner(number)

def main():
    for number in range(400_000):
        step(number)

main()
sys.{set}(hook)
inner(1)
sys.{set}(None)
print(len(seen), seen)
"""


@pytest.mark.interpreters
@pytest.mark.parametrize("version", ["3.9", *VERSIONS])
def test_a_function_that_waits_late_is_seen_to_wait(tmp_path: Path, version: str) -> None:
    target = tmp_path / "late.py"
    target.write_text(LATE)
    run = captured(tmp_path, interpreter(version), str(target), options=("--overhead", BUDGET))
    main = run.processes[0]
    sleep = next(name for name in calls(main) if "sleep" in name)
    # The first of the hundred may be a part of its caller.
    assert 90 <= calls(main)[sleep] <= 100
    assert seconds_of(main, "cumtime", "main") >= 0.2


@pytest.mark.interpreters
@pytest.mark.parametrize("hook", ["settrace", "setprofile"])
@pytest.mark.parametrize("version", ["3.9", *VERSIONS])
def test_hooks_of_the_target_see_what_they_see_without(tmp_path: Path, version: str, hook: str) -> None:
    target = tmp_path / "hooked.py"
    target.write_text(HOOKED.replace("{set}", hook))
    python = interpreter(version)
    plain = subprocess.run(
        [python, str(target)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    done = run_capture(tmp_path, python, str(target), options=("--overhead", BUDGET))
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain
