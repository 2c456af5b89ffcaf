"""NVTX ranges in captured runs: the real nvtx package under the real command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.capturing import PROGRAMS, captured, codes, environment, run_capture
from tests.integration.nvtx_ranges import check, ranges_of, require_collector, rows

PROGRAM = str(PROGRAMS / "annotated.py")


@pytest.fixture(autouse=True)
def built() -> None:
    require_collector()


def test_everything_that_the_nvtx_package_can_do(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, PROGRAM)
    (process,) = run.processes
    check(process)
    assert run.warnings == ()
    assert "NVTX_INJECTION64_PATH" not in process.environment, "what profkit set is no fact of the target's"
    # Ranges are on the clock of the manifest, and within the run.
    ranges = ranges_of(process)
    begin = run.manifest.clocks["monotonic"]
    assert begin < ranges.begin_ns.min() / 1e9
    assert ranges.begin_ns.max() / 1e9 < begin + run.manifest.wall_s + 1


def test_without_the_collector_that_is_said(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, PROGRAM, env=environment(PROFKIT_NO_NATIVE="1"))
    assert run.processes[0].ranges is None
    assert set(codes(run)) == {"tracer-missing", "nvtx-missing"}


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
    (process,) = done.run.processes
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
    assert "not a file of NVTX events" in done.stderr
