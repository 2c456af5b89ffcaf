"""NVTX ranges in captured runs: the real nvtx package under the real command, on every Python at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.native import nvtx_library
from profkit.model import Process
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED, Ranges
from tests.integration.capturing import PROGRAMS, captured, environment, run_capture
from tests.interpreters import interpreter
from tests.requirements import require

ROOT = Path(__file__).parents[2]
PROGRAM = str(PROGRAMS / "annotated.py")


@pytest.fixture(autouse=True)
def built() -> None:
    require("native", nvtx_library() is not None, "profkit is installed without its NVTX collector")


def ranges_of(process: Process) -> Ranges:
    assert process.ranges is not None
    return process.ranges


def rows(process: Process) -> list[tuple[str, str, int]]:
    """Name, domain and kind of each range and mark."""
    ranges = ranges_of(process)
    columns = zip(ranges.name.tolist(), ranges.domain.tolist(), ranges.kind.tolist(), strict=True)
    return [(ranges.strings[name], ranges.strings[domain], kind) for name, domain, kind in columns]


EXPECTED = [
    *(row for i in range(5) for row in (f"step {i}", "forward", "decorated", "backward")),
    *("finished", "handed over", "store", "store", "store", "in a domain", "leaked"),
]


def check(process: Process) -> None:
    """Everything that `programs/annotated.py` does is there."""
    ranges = ranges_of(process)
    found = rows(process)
    assert [name for name, _, _ in found] == EXPECTED
    assert {domain for name, domain, _ in found if name in ("store", "in a domain")} == {"my library"}
    assert [kind for name, _, kind in found if name == "store"] == [PUSHED, STARTED, MARK]
    assert {name: kind for name, _, kind in found}["handed over"] == STARTED
    at = EXPECTED.index
    parent = ranges.parent
    assert parent[at("step 3")] == -1
    assert parent[at("step 3") + 1] == at("step 3")
    assert parent[at("step 3") + 2] == at("step 3") + 1
    assert parent[at("step 3") + 3] == at("step 3")
    seconds = ranges.duration_s
    assert (seconds[[i for i, name in enumerate(EXPECTED) if name == "decorated"]] >= 0.002).all()
    assert seconds[at("handed over")] >= 0.002
    assert ranges.end_ns[-1] == OPEN
    assert ranges.unmatched == 1
    assert ranges.color[at("decorated")] & 0xFFFFFF == 0x008000
    category = [ranges.strings[i] for i in ranges.category]
    assert (category[at("decorated")], category[at("store")]) == ("work", "disk")
    assert int(ranges.payload[at("decorated")]) == 7
    backward = [i for i, name in enumerate(EXPECTED) if name == "backward"]
    assert ranges.payload[backward].view(np.float64).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert set(ranges.thread.tolist()) == {process.threads[0].tid}


def test_everything_that_the_nvtx_package_can_do(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, PROGRAM)
    (process,) = run.processes
    check(process)
    assert run.warnings == ()
    assert "NVTX_INJECTION64_PATH" not in process.environment, "what profkit set is no fact of the target's"
    # Ranges are on the clock of the manifest, and within the run.
    ranges = ranges_of(process)
    assert run.manifest is not None
    begin = run.manifest.clocks["monotonic"]
    assert begin < ranges.begin_ns.min() / 1e9
    assert ranges.begin_ns.max() / 1e9 < begin + run.manifest.wall_s + 1


@pytest.mark.interpreters
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_on_every_python(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    packages = tmp_path / "packages"
    words = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        "--target",
        str(packages),
        "nvtx",
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    require("index", done.returncode == 0, f"nvtx cannot be installed for {version}: {done.stderr[-200:]}")
    run = captured(tmp_path, python, PROGRAM, env=environment(PYTHONPATH=str(packages)))
    check(run.processes[0])


@pytest.mark.parametrize(
    ("end", "code"),
    [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("ctypes.string_at(0)", -11)],
)
def test_nothing_is_lost_however_the_process_ends(tmp_path: Path, end: str, code: int) -> None:
    program = (
        "import ctypes, nvtx, os\n"
        "for i in range(1000):\n"
        "    with nvtx.annotate('step'): pass\n"
        "nvtx.push_range('the last')\n"
        f"{end}\n"
    )
    done = run_capture(tmp_path, sys.executable, "-c", program)
    assert done.returncode in (code, 128 - code), done.stderr
    from profkit.formats import load_run

    (process,) = load_run(tmp_path / "run.prof").processes
    assert [name for name, _, _ in rows(process)] == ["step"] * 1000 + ["the last"]


def test_pool_workers_have_their_own(tmp_path: Path) -> None:
    program = (
        "import multiprocessing, nvtx, os\n"
        "def work(i):\n"
        "    with nvtx.annotate(f'work {i}', domain='pool'): return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    with nvtx.annotate('parent'):\n"
        "        with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "            pool.map(work, range(40), chunksize=1)\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = captured(tmp_path, sys.executable, "program.py")
    main, *workers = run.processes
    assert [name for name, _, _ in rows(main)] == ["parent"]
    done = [name for worker in workers if worker.ranges is not None for name, _, _ in rows(worker)]
    assert sorted(done) == sorted(f"work {i}" for i in range(40))


def test_another_tool_is_not_put_aside(tmp_path: Path) -> None:
    env = environment(NVTX_INJECTION64_PATH="/opt/nsight/libToolsInjection64.so")
    program = "import os; print(os.environ['NVTX_INJECTION64_PATH'])"
    done = run_capture(tmp_path, sys.executable, "-c", program, env=env)
    assert done.stdout == "/opt/nsight/libToolsInjection64.so\n"
    assert "another tool receives the NVTX ranges" in done.stderr
    assert done.stderr.count("NVTX_INJECTION64_PATH") == 1


def test_nvtx_that_is_switched_off_is_said(tmp_path: Path) -> None:
    env = environment(NVTX_DISABLE="0")
    done = run_capture(tmp_path, sys.executable, PROGRAM, env=env)
    assert done.returncode == 0
    assert "NVTX_DISABLE is set (to 0)" in done.stderr
    from profkit.formats import load_run

    (process,) = load_run(tmp_path / "run.prof").processes
    assert {domain for _, domain, _ in rows(process)} == {"my library"}, "the Domain API still speaks"


def test_without_the_collector_the_run_says_so(tmp_path: Path) -> None:
    done = run_capture(tmp_path, sys.executable, PROGRAM, env=environment(PROFKIT_NO_NATIVE="1"))
    assert done.returncode == 0
    assert "NVTX ranges are not in this run" in done.stderr


def test_a_program_that_is_not_python(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    require("compiler", compiler is not None, "no C compiler")
    client = tmp_path / "client"
    source = ROOT / "tests" / "native" / "nvtx_client.c"
    subprocess.run([str(compiler), str(source), "-o", str(client), "-pthread", "-ldl"], check=True)
    run = captured(tmp_path, str(client), "threads", "40")
    (process,) = run.processes
    assert (process.role, process.exit, process.command[1:]) == ("main", "exited", ("threads", "40"))
    assert not process.profiled
    assert len(ranges_of(process)) == 120
    assert os.path.basename(process.command[0]) == "client"


def test_a_damaged_file_of_events_does_not_cost_the_run(tmp_path: Path) -> None:
    program = (
        "import glob, nvtx, os\n"
        "nvtx.mark('x')\n"
        "path = glob.glob(os.environ['PROFKIT_SPOOL'] + '/*.nvtx')[0]\n"
        "open(path, 'r+b').write(b'garbage!')\n"
    )
    done = run_capture(tmp_path, sys.executable, "-c", program)
    assert done.returncode == 0
    assert "are left out" in done.stderr
    assert "no file of NVTX events" in done.stderr
