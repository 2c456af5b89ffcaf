"""Waiting by function with and without the compiled tracer, on a program that is contended on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from profkit.formats import load_run
from profkit.model import Process, Profile
from tests.integration.capturing import PROGRAMS, captured, run_capture
from tests.integration.test_capture_contents import tracer_environment
from tests.interpreters import interpreter
from tests.requirements import require

#: Seconds of work and naps on one CPU with this many busy processes; of one nap in programs/queues.py.
SECONDS, COMPETITORS, NAP = 3.0, 3, 0.5


def value(profile: Profile, function: str, column: str) -> float:
    """One column of a function of the program, by name."""
    rows = np.array([profile.strings[i] == function for i in profile.name], bool)
    return float(getattr(profile, column)[rows].sum())


def capture(
    directory: Path, version: str, compiled: bool, *words: str
) -> tuple[Process, dict[str, list[float]]]:
    """Return the process, and what the program said of its threads: seconds queued and off the CPU."""
    require("schedstat", os.path.exists("/proc/self/schedstat"), "this kernel has no schedstat")
    command = [interpreter(version), str(PROGRAMS / "queues.py"), str(SECONDS), str(COMPETITORS), *words]
    done = run_capture(directory, *command, env=tracer_environment(compiled))
    assert done.returncode == 0, done.stderr
    said = {
        words[0]: [float(word) for word in words[1:]] for words in map(str.split, done.stdout.splitlines())
    }
    assert max(wait for wait, _ in said.values()) > 0.5, "the program was not contended: nothing was tested"
    return load_run(directory / "run.prof").processes[0], said


@pytest.mark.alone
@pytest.mark.interpreters
@pytest.mark.parametrize(
    ("version", "compiled"),
    [
        *((version, False) for version in ("3.8", "3.11", "3.12", "3.13")),
        ("3.11", True),
        ("3.12", True),
        ("3.15", True),
    ],
)
def test_waiting_is_charged_to_the_function_that_waited(tmp_path: Path, version: str, compiled: bool) -> None:
    process, said = capture(tmp_path, version, compiled)
    (wait, blocked), profile = said["MainThread"], process.threads[0].profile
    assert profile.wait is not None
    assert profile.blocked is not None
    # The sums are the kernel's own figures: of the work, and with the interpreter's start and end of the thread.
    kernel = process.threads[0].run_queue_wait_s
    assert kernel is not None
    assert 0.97 * wait <= profile.wait.sum() <= 1.02 * kernel
    assert profile.blocked.sum() >= 0.95 * blocked
    # A sample that comes late charges what waited before a nap to the nap; the tracer reads at every switch.
    assert value(profile, "heavy", "wait") >= (0.8 if compiled else 0.6) * wait
    assert value(profile, "light", "wait") < 0.2 * value(profile, "heavy", "wait")
    slept = NAP * value(profile, "nap", "ncalls")
    assert value(profile, "<built-in method time.sleep>", "blocked") >= 0.8 * slept
    assert value(profile, "nap", "cumblocked") >= 0.8 * slept
    # A sample may come late to tell the work's begin and end from what is around it.
    for column, figure in (("cumwait", wait), ("cumblocked", blocked)):
        assert value(profile, "both", column) == pytest.approx(figure, rel=0.1, abs=0.2)
    assert (profile.cumwait >= profile.wait - 1e-9).all()
    assert ("waiting-sampled" in {note.code for note in process.notes}) == (not compiled)


@pytest.mark.alone
@pytest.mark.interpreters
@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.13"])
def test_threads_are_sampled_apart(tmp_path: Path, version: str) -> None:
    """Also from Python 3.12 on, where cProfile mixes their times."""
    process, said = capture(tmp_path, version, False, "threads")
    profiles = {thread.name: thread.profile for thread in process.threads}
    for name, function, column, place in (("compute", "heavy", "wait", 0), ("sleep", "nap", "blocked", 1)):
        profile = profiles[name]
        assert getattr(profile, column) is not None
        figure, total = said[name][place], getattr(profile, column).sum()
        # Less by what was before the first sample and after the last of a thread, which come late under contention.
        assert 0.75 * figure <= total <= 1.1 * figure + 0.1
        assert value(profile, function, f"cum{column}") >= 0.8 * total
    # The main thread has only waited for the other two.
    assert value(profiles["MainThread"], "main", "cumblocked") >= 0.7 * SECONDS


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
def test_a_sleep_that_never_ended_is_told(tmp_path: Path, version: str) -> None:
    program = (
        "import os, signal, threading, time\n"
        "def doze():\n"
        "    time.sleep(30)\n"
        "threading.Timer(3.5, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "doze()\n"
    )
    (tmp_path / "program.py").write_text(program)
    env = tracer_environment(compiled=False)
    run_capture(tmp_path, interpreter(version), "program.py", env=env)
    (process,) = load_run(tmp_path / "run.prof").processes
    assert process.exit == "killed"
    profile = process.threads[0].profile
    assert value(profile, "doze", "cumblocked") > 1.0
    assert value(profile, "doze", "cumwait") < 0.5


@pytest.mark.alone
@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
def test_a_forked_child_is_sampled_for_itself(tmp_path: Path, version: str) -> None:
    program = (
        "import os, time\n"
        "def doze(seconds):\n"
        "    time.sleep(seconds)\n"
        "doze(0.5)\n"
        "def child():\n"
        "    doze(0.9)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    child()\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = captured(tmp_path, interpreter(version), "program.py", env=tracer_environment(compiled=False))
    parent, child = sorted(run.processes, key=lambda process: process.role != "main")
    slept = [value(process.threads[0].profile, "doze", "cumblocked") for process in (parent, child)]
    assert slept[0] == pytest.approx(0.5, abs=0.2)
    assert slept[1] == pytest.approx(0.9, abs=0.2)
    assert value(child.threads[0].profile, "child", "cumblocked") == pytest.approx(slept[1], rel=0.01)


@pytest.mark.alone
def test_what_runs_under_the_targets_own_profiler_is_left_out(tmp_path: Path) -> None:
    program = (
        "import cProfile, time\n"
        "def mine():\n"
        "    time.sleep(0.6)\n"
        "def its():\n"
        "    time.sleep(0.6)\n"
        "mine()\n"
        "cProfile.Profile().runcall(its)\n"
        "mine()\n"
    )
    (tmp_path / "program.py").write_text(program)
    for version in ("3.11", "3.13"):
        env = tracer_environment(compiled=False)
        run = captured(tmp_path, interpreter(version), "program.py", env=env)
        profile = run.processes[0].threads[0].profile
        assert value(profile, "mine", "cumblocked") == pytest.approx(1.2, abs=0.25)
        assert value(profile, "its", "cumblocked") < 0.15
