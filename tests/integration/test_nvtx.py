"""NVTX ranges in captured runs: the real nvtx package under the real command, on every Python at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profkit.capture.native import nvtx_library
from tests.integration.capturing import PROGRAMS, captured, environment, run_capture
from tests.integration.nvtx_ranges import check, install_nvtx, ranges_of, rows
from tests.interpreters import interpreter
from tests.requirements import require

PROGRAM = str(PROGRAMS / "annotated.py")


@pytest.fixture(autouse=True)
def built() -> None:
    require("native", nvtx_library() is not None, "profkit is installed without its NVTX collector")


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
    packages = str(install_nvtx(tmp_path / "packages", python))
    run = captured(tmp_path, python, PROGRAM, env=environment(PYTHONPATH=packages))
    check(run.processes[0])
    env = environment(PYTHONPATH=packages, PROFKIT_NO_NATIVE="1")
    check(captured(tmp_path, python, PROGRAM, env=env).processes[0])


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
