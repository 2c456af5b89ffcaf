"""Waiting by function on a program that is contended on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from profkit.model import Profile
from tests.integration.capturing import PROGRAMS, captured, names, run_capture, script
from tests.interpreters import BOTH_WAYS, interpreter
from tests.requirements import require

#: Seconds of work and naps on one CPU with this many busy processes; of one nap in programs/queues.py.
SECONDS, COMPETITORS, NAP = 3.0, 3, 0.5


def value(profile: Profile, function: str, column: str) -> float:
    rows = np.array([name == function for name in names(profile)], bool)
    return float(getattr(profile, column)[rows].sum())


@pytest.mark.alone
@pytest.mark.interpreters
@pytest.mark.parametrize("version", BOTH_WAYS)
def test_waiting_is_charged_to_the_function_that_waited(tmp_path: Path, version: str) -> None:
    require("schedstat", os.path.exists("/proc/self/schedstat"), "this kernel has no schedstat")
    command = [interpreter(version), str(PROGRAMS / "queues.py"), str(SECONDS), str(COMPETITORS)]
    done = run_capture(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    wait, blocked = map(float, done.stdout.split())
    assert wait > 0.5, "the program was not contended: nothing was tested"
    process = done.run.processes[0]
    profile = process.threads[0].profile
    # The sums are the kernel's own figures: of the work, and with the interpreter's start and end of the thread.
    kernel = process.threads[0].run_queue_wait_s
    assert 0.97 * wait <= profile.wait.sum() <= 1.02 * kernel
    assert profile.blocked.sum() >= 0.95 * blocked
    assert value(profile, "heavy", "wait") >= 0.8 * wait
    assert value(profile, "light", "wait") < 0.2 * value(profile, "heavy", "wait")
    slept = NAP * value(profile, "nap", "ncalls")
    assert value(profile, "<built-in method time.sleep>", "blocked") >= 0.8 * slept
    assert value(profile, "nap", "cumblocked") >= 0.8 * slept
    for column, figure in (("cumwait", wait), ("cumblocked", blocked)):
        assert value(profile, "both", column) == pytest.approx(figure, rel=0.1, abs=0.2)
    assert (profile.cumwait >= profile.wait - 1e-9).all()


@pytest.mark.alone
def test_what_runs_under_the_targets_own_profiler_is_left_out(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import cProfile, time\n"
        "def mine():\n"
        "    time.sleep(0.6)\n"
        "def its():\n"
        "    time.sleep(0.6)\n"
        "mine()\n"
        "cProfile.Profile().runcall(its)\n"
        "mine()\n",
    )
    for version in ("3.11", "3.13"):
        profile = captured(tmp_path, interpreter(version), program).processes[0].threads[0].profile
        assert value(profile, "mine", "cumblocked") == pytest.approx(1.2, abs=0.25)
        assert value(profile, "its", "cumblocked") < 0.15
