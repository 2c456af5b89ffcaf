"""A file of Python 3.15's sampling profiler, against a capture of the same program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from profkit import diff
from profkit.formats import load_run
from tests.integration.capturing import captured, environment, in_process, script
from tests.interpreters import interpreter
from tests.shared import finished, words_of

#: Three methods over several lines each that take about 4 : 2 : 1, by CPU time; one is recursive, one waits in C.
PROGRAM = """
import time
class Layer:
    def forward(self, seconds):
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            total = 0
            for i in range(500):
                total += i * i
                total -= i
        return total
    def back(self, seconds):
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            sum(range(2000))
def nap(depth, seconds):
    if depth:
        return nap(
            depth - 1, seconds)
    time.sleep(seconds)
def main():
    layer = Layer()
    for _ in range(10):
        layer.forward(0.08)
        layer.back(0.04)
        nap(3, 0.02)
main()
"""


@pytest.mark.alone
@pytest.mark.interpreters
def test_a_capture_against_a_sampled_file(tmp_path: Path) -> None:
    python = interpreter("3.15")
    run = captured(tmp_path, python, script(tmp_path, PROGRAM))
    sampling = words_of("-m profiling.sampling run --pstats -r 2khz -o sampled.pstats program.py")
    finished([python, *sampling], tmp_path, env=environment(), check=True)
    (thread,) = load_run(tmp_path / "sampled.pstats").processes[0].threads
    found = [thread.profile.strings[i] for i in thread.profile.qualname]
    counts = [found.count(name) for name in ("Layer.forward", "Layer.back", "nap", "main")]
    assert counts == [1] * 4, "lines are folded"

    def profkit(*words: str) -> str:
        return in_process(tmp_path, *words).stdout

    shown = " ".join(profkit("show", "sampled.pstats").split())
    assert "written by a sampling profiler: counts are samples, not calls" in shown

    found = json.loads(profkit("diff", "run.prof", "sampled.pstats", "--format", "json"))
    assert found["by_share"]
    assert found["verdict"]["rule"] == "sampled"
    assert found["slowdown"]["value"] is None
    rows = {row["name"]: row for row in found["functions"]}
    for name in ("Layer.forward", "Layer.back", "nap"):
        before, after = rows[name]["baseline"], rows[name]["candidate"]
        # Of this part of the program: what sampling sees of the interpreter's start is another part of it.
        assert after["share"] == pytest.approx(before["share"], rel=0.25, abs=0.05)
        assert rows[name]["per_call_ratio"] is None
    assert run.processes[0].python.startswith("3.15.")
    text = " ".join(profkit("diff", "sampled.pstats", "run.prof", "--full").split())
    assert "Compared by share of time" in text
    said = "calls, time per call and how much longer a side took are not compared"
    assert text.count(said) == 1
    assert "the baseline was sampled, the other side traced" in text
    table = diff(str(tmp_path / "run.prof"), str(tmp_path / "sampled.pstats")).functions()
    assert np.isnan(table["candidate_ncalls"]).all()
