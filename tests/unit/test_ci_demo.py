"""What CI makes of the demo's end (.ci/demo): the real script, with a demo that ends as the test says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.requirements import require
from tests.shared import finished

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_profiles" / "train_mlp"
BUSY = "profkit: the machine is busy: other processes used 1.2 of 2 CPUs"
REMEDY = (
    "profkit: the demo ends here, since a comparison would be wrong: run the demo again when they have ended"
)
#: Its n-th run prints `said.n` and exits as line n of `statuses` says.
MAKEFILE = """
demo:
\t@echo run >>runs; n=$$(wc -l <runs); cat said.$$n >&2; exit $$(sed -n $${n}p statuses)
"""


def after(
    directory: Path, ends: list[tuple[int, str]], candidate: str = "oversubscribed"
) -> tuple[int, int, str]:
    """Return the script's status, how often the demo ran, and what was noted."""
    require("jq", shutil.which("jq") is not None, "jq is not installed")
    (directory / "Makefile").write_text(MAKEFILE)
    (directory / "statuses").write_text("".join(f"{status}\n" for status, _ in ends))
    for number, (_, said) in enumerate(ends, start=1):
        (directory / f"said.{number}").write_text(said)
    kept = directory / "profkit-demo"
    kept.mkdir()
    shutil.copy(SAMPLES / "clean-1.prof", kept / "clean.prof")
    shutil.copy(SAMPLES / f"{candidate}.prof", kept / "oversubscribed.prof")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = finished(
        [str(ROOT / ".ci" / "demo"), "noted.txt"],
        directory,
        env={**inherited, "VENV": str(Path(sys.executable).parents[1])},
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    noted = directory / "noted.txt"
    runs = (directory / "runs").read_text().count("run")
    return done.returncode, runs, noted.read_text() if noted.exists() else ""


def test_a_demo_that_told_its_story_is_run_once(tmp_path: Path) -> None:
    assert after(tmp_path, [(0, "")]) == (0, 1, "")


def test_another_verdict_fails_whatever_the_demo_said(tmp_path: Path) -> None:
    status, runs, _ = after(tmp_path, [(0, "")], candidate="code-change")
    assert (status, runs) == (1, 1)


def test_a_busy_machine_gets_a_second_run_which_is_noted(tmp_path: Path) -> None:
    status, runs, noted = after(tmp_path, [(3, f"{BUSY}\n{REMEDY}\n"), (0, "")])
    assert (status, runs) == (0, 2)
    assert noted == "the machine was busy, make demo was run twice\n"


def test_a_machine_that_stays_busy_fails(tmp_path: Path) -> None:
    status, runs, _ = after(tmp_path, [(3, f"{BUSY}\n{REMEDY}\n")] * 2)
    assert status != 0
    assert runs == 2


def test_what_is_wrong_with_more_than_the_machine_fails_at_once(tmp_path: Path) -> None:
    # It was busy once, and ended for another reason.
    said = f"{BUSY}\nonce more\noversubscribed\nprofkit: this is not what the demo is to show\nprofkit: report it\n"
    status, runs, noted = after(tmp_path, [(3, said)])
    assert status != 0
    assert (runs, noted) == (1, "")
