"""What CI does with tests that fail (.ci/tests) and with the demo's end (.ci/demo): the real scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import imported, require
from tests.shared import finished

ROOT = Path(__file__).parents[2]
BESIDE_OTHERS = '"PYTEST_XDIST_WORKER" in os.environ'
#: Notes that a test ran, and whether other tests could run beside it.
BEGIN = f"""
import os, pathlib, pytest

def ran(name):
    with open("ran.txt", "a") as file:
        print(name, "beside others" if {BESIDE_OTHERS} else "alone", file=file)

def test_that_passes():
    ran("passes")
"""
WEAK = f"""
@pytest.mark.parametrize("word", {{words}})
def test_weak(word):
    ran(word)
    assert not ({BESIDE_OTHERS})
"""
WRONG = """
def test_wrong():
    ran("wrong")
    assert False
"""


class Checkout:
    """A working tree with these tests, whose environment is ready and notes what it is asked to run."""

    def __init__(self, directory: Path, tests: str) -> None:
        self.directory = directory
        for name in ("Makefile", ".ci/tests"):
            (directory / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
        for name in ("pyproject.toml", "hatch_build.py"):
            (directory / name).touch()
        python = directory / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\necho "$2" >>started.txt\nexec \'{sys.executable}\' "$@"\n')
        python.chmod(0o755)
        for stamp in (".ready", ".ready-test", ".ready-test-mpi"):
            (directory / ".venv" / stamp).touch()
        (directory / "test_made_up.py").write_text(BEGIN + tests)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run the script as CI does."""
        inherited = ("MAKE", "MFLAGS", "ARGS", "PYTEST", "VENV", "PYTHON")
        return finished(
            [sys.executable, ".ci/tests", "weak.txt", "-n", "1", *args],
            self.directory,
            env={name: value for name, value in os.environ.items() if not name.startswith(inherited)},
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    def lines(self, name: str) -> list[str]:
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(autouse=True)
def _tools() -> None:
    imported("xdist")
    require("make", shutil.which("make") is not None, "no make")


def test_tests_that_pass_alone_are_named_and_pass(tmp_path: Path) -> None:
    words = ["plain", "two words", "it's $HOME", '"*"', "$(ARGS) #"]
    checkout = Checkout(tmp_path, WEAK.format(words=words))
    failed_before = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    failed_before.parent.mkdir(parents=True)
    failed_before.write_text('{"test_made_up.py::test_that_passes": true}')  # that is not run again
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    named = [f"failed beside other tests, passed alone: test_made_up.py::test_weak[{word}]" for word in words]
    assert sorted(checkout.lines("weak.txt")) == sorted(named)
    assert sorted(done.stdout.splitlines()[-len(words) :]) == sorted(named)
    ran = checkout.lines("ran.txt")
    beside = [f"{word} beside others" for word in ("passes", *words)]
    assert sorted(ran) == sorted([*beside, *(f"{word} alone" for word in words)])
    assert ran.index("plain alone") >= len(beside)
    assert checkout.lines("started.txt") == ["pytest", "pytest"], "nothing was installed"


@pytest.mark.parametrize(
    ("tests", "again"),
    [
        (WEAK.format(words=["weak"]) + WRONG, ["weak alone", "wrong alone"]),
        (WEAK.format(words=[*"123456"]), []),
        (
            f"\ndef test_that_is_skipped():\n    if {BESIDE_OTHERS}: assert False\n    pytest.skip('alone')\n",
            [],
        ),
        (f"\nif {BESIDE_OTHERS}: raise RuntimeError\n", []),
        (WEAK.format(words=["weak"]) + "\ndef test_end():\n    pytest.exit('no more')\n", []),
    ],
    ids=["one fails again", "more than five", "is skipped then", "cannot be collected", "pytest was ended"],
)
def test_other_failures_are_failures(tmp_path: Path, tests: str, again: list[str]) -> None:
    checkout = Checkout(tmp_path, tests)
    done = checkout.run()
    assert done.returncode == 2, done.stdout
    assert [line for line in checkout.lines("ran.txt") if line.endswith("alone")] == again
    assert "passed alone" not in done.stdout
    assert checkout.lines("weak.txt") == []


def test_without_a_failure_nothing_runs_again(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, "")
    assert checkout.run().returncode == 0
    assert checkout.lines("ran.txt") == ["passes beside others"]
    assert checkout.lines("weak.txt") == []


# What CI makes of the demo's end (.ci/demo): the real script, with a demo that ends as the test says

SAMPLES = ROOT / "sample_profiles" / "train_mlp"
BUSY = "profkit: the machine is busy: other processes used 1.2 of 2 CPUs"
ENDED = f"{BUSY}\nprofkit: the demo ends here, since a comparison would be wrong: run it again later\n"
OTHER_END = "profkit: this is not what the demo is to show\nprofkit: report it\n"
#: Its n-th run prints `said.n` and exits as line n of `statuses` says.
MAKEFILE = """
demo:
\t@echo run >>runs; n=$$(wc -l <runs); cat said.$$n >&2; exit $$(sed -n $${n}p statuses)
"""


@pytest.mark.parametrize(
    ("ends", "candidate", "expected"),
    [
        ([(0, "")], "oversubscribed", (0, 1, "")),
        ([(0, "")], "code-change", (1, 1, "")),
        ([(3, ENDED), (0, "")], "oversubscribed", (0, 2, "the machine was busy, make demo was run twice\n")),
        ([(3, ENDED)] * 2, "oversubscribed", (2, 2, "")),
        # It was busy once, and ended for another reason.
        ([(3, f"{BUSY}\nonce more\noversubscribed\n{OTHER_END}")], "oversubscribed", (1, 1, "")),
    ],
    ids=["as it should", "another verdict", "busy", "stays busy", "not only busy"],
)
def test_status_number_of_runs_and_what_is_noted(
    tmp_path: Path, ends: list[tuple[int, str]], candidate: str, expected: tuple[int, int, str]
) -> None:
    require("jq", shutil.which("jq") is not None, "jq is not installed")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "statuses").write_text("".join(f"{status}\n" for status, _ in ends))
    for number, (_, said) in enumerate(ends, start=1):
        (tmp_path / f"said.{number}").write_text(said)
    kept = tmp_path / "profkit-demo"
    kept.mkdir()
    shutil.copy(SAMPLES / "clean-1.prof", kept / "clean.prof")
    shutil.copy(SAMPLES / f"{candidate}.prof", kept / "oversubscribed.prof")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = finished(
        [str(ROOT / ".ci" / "demo"), "noted.txt"],
        tmp_path,
        env={**inherited, "VENV": str(Path(sys.executable).parents[1])},
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    noted = tmp_path / "noted.txt"
    runs = (tmp_path / "runs").read_text().count("run")
    assert (done.returncode, runs, noted.read_text() if noted.exists() else "") == expected
