"""``profkit.capture``: a block of a process becomes a run file, and the process is as before."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from profkit.capture.agent import settings
from profkit.formats import load_run
from tests.integration.capturing import PROGRAMS, ROOT, captured, environment, script
from tests.interpreters import interpreter, packages
from tests.shared import finished

#: Checks of the program that need no machine of their own.
CHECKS = ("plain", "own_time", "contexts", "threads", "elsewhere", "again", "nested", "forks", "failing")


def failed(version: str, directory: Path, *checks: str) -> dict[str, str]:
    """Run checks of the program, and return the traceback of each that failed."""
    extra = {"PYTHONPATH": str(ROOT)}
    python = sys.executable
    if version != "here":
        python = interpreter(version)
        extra["PYTHONPATH"] += os.pathsep + str(packages(python, "numpy"))
    command = [python, "-W", "error", str(PROGRAMS / "block.py"), str(directory), *checks]
    done = finished(command, env=environment(**extra), timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(
    scope="module", params=["here", "3.12"]
)  # the latter is the first with one collector a process
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return failed(request.param, tmp_path_factory.mktemp("blocks"), *CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_a_block(failures: dict[str, str], check: str) -> None:
    """What is checked is in the program, beside the block."""
    assert check not in failures, failures[check]


@pytest.mark.alone
def test_counters_are_of_the_block(tmp_path: Path) -> None:
    assert failed("here", tmp_path, "counted") == {}


@pytest.mark.parametrize("first", ["", f"import os\ndel os.environ[{settings.SPOOL_VARIABLE!r}]\n"])
def test_a_process_that_profkit_captures_is_not_captured_twice(tmp_path: Path, first: str) -> None:
    program = script(
        tmp_path,
        f"{first}import profkit\n"
        "from profkit.errors import CaptureError\n"
        "try:\n"
        "    with profkit.capture('inner.prof'):\n"
        "        print('entered')\n"
        "except CaptureError as error:\n"
        "    print(error)\n",
    )
    run = captured(tmp_path, sys.executable, program, env=environment(PYTHONPATH=str(ROOT)))
    assert run.manifest.exit_status == 0
    assert len(run.processes[0].threads[0].profile) > 100
    assert not (tmp_path / "inner.prof").exists()


def test_where_the_working_directory_is_gone_a_file_elsewhere_is_written(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import os, sys, profkit\n"
        "from profkit.errors import UsageError\n"
        "os.mkdir('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n"
        "with profkit.capture(sys.argv[1]):\n    len('')\n"
        "try:\n    with profkit.capture('here.prof'):\n        print('entered')\n"
        "except UsageError as error:\n    print(error)\n",
    )
    words = [sys.executable, program, str(tmp_path / "there.prof")]
    done = finished(words, tmp_path, 0, env=environment(PYTHONPATH=str(ROOT)))
    assert "the working directory was removed; name a file elsewhere" in done.stdout
    assert load_run(tmp_path / "there.prof").processes[0].threads
