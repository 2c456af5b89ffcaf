"""``profkit.capture``: a block of a process becomes a run file, and the process is as before."""

from __future__ import annotations

import json
import os
import pstats
import sys
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.agent import settings
from profkit.formats import load_run
from tests.integration.capturing import PROGRAMS, ROOT, captured, environment, script
from tests.interpreters import interpreter, packages
from tests.shared import finished

#: The one that the tests run in, and the first with one collector a process.
VERSIONS = ["here", pytest.param("3.12", marks=pytest.mark.interpreters)]
CHECKS = ("plain", "own_time", "contexts", "threads", "elsewhere", "again", "nested", "forks", "failing")


def checked(version: str, directory: Path, *names: str) -> dict[str, Any]:
    """Run checks of the program, and return what it says of each."""
    extra = {"PYTHONPATH": str(ROOT)}
    python = sys.executable
    if version != "here":
        python = interpreter(version)
        extra["PYTHONPATH"] += os.pathsep + str(packages(python, "numpy"))
    command = [python, "-W", "error", str(PROGRAMS / "block.py"), str(directory), *names]
    done = finished(command, env=environment(**extra), timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module", params=VERSIONS)
def blocks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The directory of the checks, and what each said."""
    directory = tmp_path_factory.mktemp("blocks")
    return directory, checked(request.param, directory, *CHECKS)


def test_a_block_is_recorded_and_nothing_else(blocks: tuple[Path, Any]) -> None:
    directory, said = blocks[0] / "plain", blocks[1]["plain"]
    assert said["after"] == said["before"]
    assert said["path"]
    assert said["first"] == {"work": 1, "leaf": 1000, "plain": 1, "state": 0}
    assert said["profkit"] == []
    assert said["second"] == 7
    assert 0 < said["wall"] < said["took"]
    assert sorted(path.name for path in directory.iterdir()) == ["plain.prof"]
    # The file is as every run file.
    run = load_run(directory / "plain.prof")
    assert all(one.before_s and one.after_s for one in run.manifest.yardsticks)
    assert len(run.manifest.yardsticks) > 1
    (process,) = run.processes
    assert (process.role, process.exit, process.profiled) == ("main", "exited", True)
    assert process.pid
    assert run.warnings == ()
    assert pstats.Stats(str(directory / "plain.prof")).total_calls > 0


def test_what_the_block_does_itself_is_its_functions(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["own_time"]
    assert said["calls"] == 1
    # Clocks are read around what they measure; what some hundred events cost is in no function.
    assert said["inside"] - 1e-3 <= said["sum"] <= said["cumulative"] + 1e-4
    assert said["cumulative"] <= said["around"]
    assert said["inside"] <= said["wall"] <= said["around"]
    assert said["own"] > 0.3 * said["wall"]
    assert said["work"] == [["own_time", "work", 1], ["work", "leaf", 100]]


def test_a_block_has_calling_contexts(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["contexts"]
    for chain in (["contexts"], ["contexts", "work"], ["contexts", "work", "leaf"], ["contexts", "leaf"]):
        assert chain in said["chains"]
    assert all(chain[0] == "contexts" for chain in said["chains"])
    assert said["open"] == ["contexts"]
    assert said["looked"] == [None] * 3, "nothing looks at what threads do"
    assert not {"enter_context", "open", "stop"} & set(said["names"])


def test_the_thread_of_the_block_comes_first(blocks: tuple[Path, Any]) -> None:
    assert blocks[1]["elsewhere"] == {"name": "captures", "leaf": 100}


def test_nothing_is_kept_of_many_blocks(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["again"]
    assert said["calls"] == [1] * 40
    assert said["mapped"] == 0
    assert said["after"]["profile"] == "None"
    (before, files), (after, files_after) = said["kept"][15], said["kept"][-1]
    assert after - before < 2 << 20
    assert files_after <= files


def test_threads_of_the_block_and_those_that_outlive_it(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["threads"]
    assert said["after"] == said["before"]
    assert said["said"] == ["None", "None"], "a thread is still traced"
    assert said["leaf"] >= 350
    assert {"MainThread", "ends", "outlives"} <= set(said["names"])


def test_only_one_can_trace(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["nested"]
    message, kind = said["block"]
    inner = blocks[0] / "nested" / "inner.prof"
    assert message.startswith(f"{inner}: this process is traced already, by another block;")
    assert kind == "CaptureError"
    assert said["profiler"][1] == "CaptureError"
    assert "traced already, by" in said["profiler"][0]
    assert said["leaf"] == 3
    assert not said["inner"]


def test_a_forked_child_is_none_of_the_block(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["forks"]
    assert said["leaf"] == 11
    for process in ("child", "after"):
        assert (said[process]["profile"], said[process]["tool"]) == ("None", None)


def test_exceptions_and_decorated_functions(blocks: tuple[Path, Any]) -> None:
    said = blocks[1]["failing"]
    assert said["raised"] == "'of the block'"
    assert (said["leaf"], said["status"]) == (4, 1)
    assert (said["value"], said["name"], said["doc"]) == (42, "twice", "Doubles.")
    assert said["decorated"]["leaf"] == 1
    assert "captured" not in said["decorated"]
    assert "where.prof" in said["nowhere"]
    assert "is a directory" in said["directory"]
    assert "entered" not in said
    assert said["after"]["profile"] == "None"


@pytest.mark.alone
def test_counters_are_of_the_block(tmp_path: Path) -> None:
    said = checked("here", tmp_path, "counted")["counted"]
    assert 0.3 <= said["wall"] < 1.5
    # The 0.3 s of CPU time before the block are not in it.
    assert 0.09 <= said["cpu"] < 0.28
    (name, run), *others = said["threads"]
    assert name == "MainThread"
    assert run == pytest.approx(said["cpu"], abs=0.05)
    assert all(run < 0.01 for _, run in others), "NumPy's threads, which had nothing to do"
    assert said["machine"]
    blocked, took = said["sleep"]
    assert blocked == pytest.approx(took, abs=0.02)


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
