"""CPython's own tests, plain and captured: ``python -m benchmarks.interpreter_tests [--python PYTHON] [MODULE…]``.

Each module of the interpreter's test suite runs both ways, and what ends differently is named. `LISTED` are tests
of what docs/limitations.md says a program sees; any other difference makes the exit status 1. A module that differs
is run once more, alone, since some of these tests measure time. Two modules run at a time.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import PROFKIT, environment, interpreter, machine, progress

#: Longest that one module may take, seconds.
PATIENCE_S = 600
#: What touches threads, processes, hooks, files, memory and frames.
MODULES = (
    "test_asyncgen test_asyncio test_atexit test_audit test_bdb test_buffer test_cmd_line "
    "test_cmd_line_script test_code test_concurrent_futures test_contextlib test_coroutines test_cprofile "
    "test_ctypes test_dataclasses test_descr test_doctest test_eintr test_embed test_enum test_epoll "
    "test_exceptions test_faulthandler test_fcntl test_finalization test_fork1 test_frame test_functools "
    "test_gc test_generators test_hashlib test_import test_importlib test_inspect test_interpreters "
    "test_io test_itertools test_json test_largefile test_logging test_memoryio test_memoryview test_mmap "
    "test_monitoring test_multiprocessing_fork test_multiprocessing_forkserver test_multiprocessing_spawn "
    "test_openpty test_os test_pdb test_pickle test_poll test_posix test_profile test_property test_queue "
    "test_raise test_re test_resource test_runpy test_sched test_scope test_select test_selectors "
    "test_signal test_site test_sqlite3 test_subprocess test_super test_sys test_sys_setprofile "
    "test_sys_settrace test_tempfile test_thread test_threading test_threading_local test_threadsignals "
    "test_trace test_traceback test_tracemalloc test_typing test_unittest test_venv test_wait4 "
    "test_warnings test_weakref test_with test_yield_from test_zipimport"
)
#: Tests of what is listed: `sys.setprofile` is written in Python, a tool and descriptors are taken, code is kept,
#: audit hooks see the agent, and `pdb.set_trace()` stops later (doctests, of `pdb` and of `doctest`).
LISTED = re.compile(
    r"test_(sys_setprofile|monitoring)\.|test_code\.(CoExtra|CodeWeakRef)|\.test_pass_fds_redirected"
    r"|\.test_get_traced_memory|\.test_profile_(as_context_manager|enable_disable)"
    r"|\.test_sys_(getframemodulename|monitoring_register_callback)|\.test_pdb_|test_pdb\.test_post_mortem"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a module ended: its exit status (``None``: not in time), and tests that passed, failed and were skipped."""

    status: int | None
    tests: dict[str, str]
    said: str


def run(python: str, module: str, *, captured: bool) -> Ended:
    """Run one module of the interpreter's tests."""
    with tempfile.TemporaryDirectory() as directory:
        command = [python, "-m", "test", "--junit-xml", "found.xml", module]
        if captured:
            command = [*PROFKIT, "capture", "--quiet", "-o", "run.prof", "--", *command]
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=PATIENCE_S)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, status = process.communicate()[0], None
        found = Path(directory, "found.xml")
        cases = ElementTree.parse(found).iter("testcase") if found.exists() else ()
        return Ended(status, {case.get("name", ""): _result(case) for case in cases}, said)


def _result(case: ElementTree.Element) -> str:
    return next((end for end in ("failure", "error", "skipped") if case.find(end) is not None), "passed")


def differences(python: str, module: str) -> tuple[int, list[str], str]:
    """Return how many tests a module has, what ends differently under capture, and what was printed then."""
    plain, captured = (run(python, module, captured=way) for way in (False, True))
    names = sorted({*plain.tests, *captured.tests})
    found = [
        f"{name}: {before} → {after}"
        for name, before, after in ((n, plain.tests.get(n), captured.tests.get(n)) for n in names)
        if after != before and before in ("passed", None)
    ]
    if plain.status != captured.status and not found:
        found = [f"{module}. ended with {plain.status} → {captured.status}"]
    return len(plain.tests), found, captured.said


def main() -> None:
    """Run the modules and print what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", default=MODULES.split())
    parser.add_argument(
        "--python", default=sys.executable, help="a version, command or path (default: this one)"
    )
    parser.add_argument("--keep", type=Path, help="keep what modules that differ print in this directory")
    options = parser.parse_args()
    python = interpreter(options.python)
    if python is None:
        parser.error(f"there is no interpreter {options.python}")
    with ThreadPoolExecutor(2) as pool:
        first = pool.map(lambda module: differences(python, module), options.modules)
        total, differ = 0, []
        for module, (number, found, _) in zip(options.modules, first, strict=True):
            total += number
            differ += [module] * bool(found)
            progress(f"{module}: {number} tests, {len(found)} differ")
    unlisted = 0
    for module in differ:
        _, again, said = differences(python, module)
        for line in again:
            listed = LISTED.search(line) is not None
            unlisted += not listed
            print(f"{'listed ' if listed else 'DIFFERS'} {line}", flush=True)
        if again and options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{module}.txt").write_text(said)
    print(
        f"{total} tests of {len(options.modules)} modules, {unlisted} differ that are not listed; {machine(python)}"
    )
    if unlisted:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
