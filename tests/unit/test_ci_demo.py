"""What CI makes of the demo's end (.ci/demo): the real script, with a demo that ends as the test says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import require
from tests.shared import ROOT, SAMPLES, finished

BUSY = "profkit: the machine is busy: other processes used 1.2 of 2 CPUs"
ENDED = f"{BUSY}\nprofkit: the demo ends here, since a comparison would be wrong: run it again later\n"
OTHER_END = "profkit: this is not what the demo is to show\nprofkit: report it\n"
NOT_TESTED = "NOT TESTED HERE: what make demo shows: the machine was busy twice"
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
        ([(3, ENDED)] * 2, "oversubscribed", (0, 2, f"{NOT_TESTED}\n")),
        ([(3, ENDED), (3, OTHER_END)], "oversubscribed", (1, 2, "")),
        # It was busy once, and ended for another reason.
        ([(3, f"{BUSY}\nonce more\noversubscribed\n{OTHER_END}")], "oversubscribed", (1, 1, "")),
    ],
    ids=["as it should", "another verdict", "busy", "stays busy", "busy, then another end", "not only busy"],
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
    shutil.copy(SAMPLES / "train_mlp" / "clean-1.prof", kept / "clean.prof")
    shutil.copy(SAMPLES / "train_mlp" / f"{candidate}.prof", kept / "oversubscribed.prof")
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
