"""Other tools as they are installed here record a program, and profkit reads what they wrote."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from profkit.capture.pyspy import sampler_command
from profkit.errors import FormatError
from profkit.formats import load_run
from tests.integration.capturing import codes, names, script
from tests.interpreters import interpreter, python_with
from tests.requirements import require
from tests.shared import succeeded

#: All but a part of its time is in `busy`.
PROGRAM = """
import sys, time
class Work:
    def busy(self):
        return sum(i * i for i in range(20000))
def rare():
    return [i for i in range(200)]
def main():
    end = time.perf_counter() + float(sys.argv[1])
    while time.perf_counter() < end:
        Work().busy()
        rare()
main()
"""

TRAINING = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, record_function
def step(x):
    with record_function("forward"):
        return (x @ x).relu()
def train():
    for _ in range(7):
        step(torch.ones(8, 8))
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
    train()
profiler.export_chrome_trace(sys.argv[1])
"""


def run(*words: str) -> None:
    succeeded(words, timeout=120)


def check_samples(path: Path) -> None:
    """Nearly all time is in `busy` and what it calls, and its caller is known; calls are not."""
    (process,) = load_run(path).processes
    profile = process.threads[0].profile
    files = [Path(profile.strings[i]).name for i in profile.file]
    found = list(zip(files, names(profile), strict=True))
    busy, main = (found.index(("program.py", name)) for name in ("busy", "main"))
    assert profile.strings[profile.qualname[busy]] == "Work.busy"
    assert profile.cumtime[busy] > 0.5 * profile.total
    assert profile.cumtime[main] >= profile.cumtime[busy]
    assert (main, busy) in zip(profile.edges.caller.tolist(), profile.edges.callee.tolist(), strict=True)
    assert (profile.calls_low != profile.calls_low).all()


def check_sampler(directory: Path, *words: str) -> None:
    """Run the program under a sampler that writes `out`, for longer where it took next to no samples."""
    program, output = script(directory, PROGRAM), directory / "out"
    total = 0.0
    for seconds in (0.6, 5.0, 40.0):
        run(*words, program, str(seconds))
        with contextlib.suppress(FormatError):  # no sample at all
            if (total := load_run(output).processes[0].threads[0].profile.total) > 0.2:
                break
    assert 0.2 < total < 2 * seconds + 5
    check_samples(output)


@pytest.mark.parametrize("form", ["raw", "speedscope", "chrometrace"])
def test_py_spy(tmp_path: Path, form: str) -> None:
    spy = sampler_command()
    require("py-spy", spy is not None, "py-spy is not installed")
    python = interpreter("3.11")
    check_sampler(
        tmp_path, str(spy), "record", "--format", form, "--output", str(tmp_path / "out"), "--", python
    )


@pytest.mark.parametrize("form", ["binary", "collapsed"])
def test_tachyon(tmp_path: Path, form: str) -> None:
    words = ["--binary", "--compression", "none"] if form == "binary" else ["--collapsed"]
    python, output = interpreter("3.15"), str(tmp_path / "out")
    check_sampler(tmp_path, python, "-m", "profiling.sampling", "run", *words, "-o", output)


def test_lines_of_tachyon_s_pstats_are_folded(tmp_path: Path) -> None:
    program, output = script(tmp_path, PROGRAM), tmp_path / "out"
    run(interpreter("3.15"), "-m", "profiling.sampling", "run", "--pstats", "-o", str(output), program, "0.6")
    read = load_run(output)
    assert codes(read) == ["sampled-profile"]
    functions = names(read.processes[0].threads[0].profile)
    assert [functions.count(name) for name in ("busy", "main")] == [1, 1]


def test_torch_profiler(tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    run(python_with("torch"), script(tmp_path, TRAINING), str(output))
    (process,) = load_run(output).processes
    profile = process.threads[0].profile
    calls = dict(zip(names(profile), profile.ncalls.tolist(), strict=True))
    assert (calls["step"], calls["train"], calls["aten::matmul"], calls["aten::relu"]) == (7, 1, 7, 7)
    assert profile.calls_low is None
    ranges = process.ranges
    assert [ranges.strings[i] for i in ranges.name].count("forward") == 7
    assert profile.total == pytest.approx(profile.cumtime.max(), rel=0.05)
