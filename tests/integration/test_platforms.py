"""Capturing where there is no /proc, no fork and no compiled part, as on macOS and Windows; with large pages; and
while the time of day is set.

There is no such machine among those that test this project, so the interpreters of launcher and target are made to
lack what these systems lack (programs/other_platform.py), from their start on.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.formats import load_run
from profkit.measure.range_functions import range_functions
from tests.integration.capturing import PROGRAMS, ROOT, calls, captured, codes, environment, ranges_of, script
from tests.integration.tracing import compiled, require_tracer
from tests.interpreters import BOTH_WAYS, interpreter
from tests.shared import finished

PLATFORMS = ["macos", "windows"]


@pytest.fixture(scope="module")
def target_of(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Return a function that makes an interpreter which is on another platform before anything of ours runs."""

    @functools.cache
    def make(version: str) -> str:
        directory = tmp_path_factory.mktemp(f"venv-{version}")
        subprocess.run([interpreter(version), "-m", "venv", "--without-pip", str(directory)], check=True)
        (packages,) = directory.glob("lib/python*/site-packages")
        begins = f"import sys; sys.path.append({str(PROGRAMS)!r}); import other_platform; sys.path.pop()\n"
        (packages / "other_platform.pth").write_text(begins)
        return str(directory / "bin" / "python")

    return make


def profkit_on(
    platform: str, directory: Path, *words: str, status: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    code = (
        "import numpy, rich.console, click, sys; "  # they choose by `sys.platform`
        f"sys.path.insert(0, {str(PROGRAMS)!r}); import other_platform; sys.path[0] = {str(ROOT)!r}; "
        "from profkit.cli import main; main()"
    )
    env = environment(PROFKIT_TEST_PLATFORM=platform, **variables)
    return finished([sys.executable, "-c", code, *words], directory, status, env=env, timeout=60)


#: A program as it runs on every system: a thread, a child, an exit code.
PORTABLE = """
import subprocess, sys, threading
thread = threading.Thread(target=sum, args=(range(20_000),))
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", "sum(range(30_000))"], check=True)
sys.exit(7)
"""


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", ["3.8", "3.15"])
def test_capture_on(platform: str, version: str, tmp_path: Path, target_of: object) -> None:
    python = target_of(version)
    lacks = (
        "import os, signal; assert not os.path.exists('/proc/self/stat'); "
        "assert not hasattr(os, 'sched_getaffinity'); "
        "assert hasattr(os, 'fork') == hasattr(signal, 'SIGCHLD') == (os.environ['PROFKIT_TEST_PLATFORM'] == 'macos')"
    )
    subprocess.run([python, "-c", lacks], check=True, env=environment(PROFKIT_TEST_PLATFORM=platform))
    words = ("capture", "-o", "run.prof", "--", python, "-c", PORTABLE)
    done = profkit_on(platform, tmp_path, *words, status=7, PROFKIT_NO_NATIVE="1")
    assert "Traceback" not in done.stderr
    run = load_run(tmp_path / "run.prof")
    main, child = run.processes
    assert (main.role, main.exit, child.exit) == ("main", "exited", "exited")
    assert child.parent == main.pid
    assert not calls(main)
    assert "tracer-missing" in codes(run)
    assert main.wall_s > 0
    assert main.run_queue_wait_s is None
    # What was not measured is not shown as nothing.
    shown = profkit_on(platform, tmp_path, "show", "--limit", "0", "run.prof")
    assert "no compiled tracer" in shown.stdout.replace("\n", " ")
    assert "CPU queue" not in shown.stdout


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_command_that_is_not_there(platform: str, tmp_path: Path) -> None:
    done = profkit_on(platform, tmp_path, "capture", "--", "no-such-command", status=None)
    assert done.returncode in (2, 127)
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


RANGES = """
import ctypes, os, threading
library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
def leaf():
    library.profkit_nvtx_push(b"part")
    library.profkit_nvtx_pop()
def work():
    for i in range(1000):
        leaf()
    globals().update((f"f{i}", eval(f"lambda: {i}")) for i in range(1000))
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
if os.fork() == 0:
    work()
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(
    ("preloaded", "version"), [*(("large_pages", version) for version in BOTH_WAYS), ("set_back", "here")]
)
def test_ranges_stay_with_their_process_and_functions(preloaded: str, version: str, tmp_path: Path) -> None:
    """Files are mapped in parts that begin anywhere in a page of 64 KiB; the time of day may be set back."""
    require_tracer()
    source = ROOT / "tests" / "native" / f"{preloaded}.c"
    library = compiled(tmp_path / "preloaded.so", source, "-Wall", "-Werror")
    python = sys.executable if version == "here" else interpreter(version)
    run = captured(tmp_path, "env", f"LD_PRELOAD={library}", python, script(tmp_path, RANGES))
    assert [calls(process)["leaf"] for process in run.processes] == [2000, 1000]
    assert [len(ranges_of(process).name) for process in run.processes] == [2000, 1000]
    for inside in range_functions(run).values():
        assert inside.opened_by
    assert codes(run) == []
