"""NVTX ranges without the compiled collector: the nvtx package is patched, and says the same of a program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.model import Run
from tests.integration.capturing import PROGRAMS, calls, captured, environment, profkit_command, run_capture
from tests.integration.nvtx_ranges import check, content, require_collector, rows
from tests.interpreters import packages

PROGRAM = str(PROGRAMS / "annotated.py")


def patched(directory: Path, *command: str, **variables: str) -> Run:
    """Capture a command without anything compiled."""
    return captured(directory, *command, env=environment(PROFKIT_NO_NATIVE="1", **variables))


def test_it_records_what_the_collector_records(tmp_path: Path) -> None:
    run = patched(tmp_path, sys.executable, PROGRAM)
    (process,) = run.processes
    check(process)
    assert {notice.code for notice in run.warnings} == {"tracer-missing", "nvtx-patched"}
    assert not [name for name in calls(process) if "pack_into" in name or "_more_room" in name], (
        "the recorder is no function of the target's"
    )
    require_collector()
    (compared,) = captured(tmp_path, sys.executable, PROGRAM).processes
    assert content(process) == content(compared)
    show = subprocess.run(
        profkit_command("show", "run.prof", "--full"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "step {n}" in show.stdout


@pytest.mark.parametrize("version", ["", "==0.2.8", "==0.2.10", "==0.2.11", "==0.2.13"])
def test_with_other_versions_of_the_package(tmp_path: Path, version: str) -> None:
    require_collector()
    path = str(packages(sys.executable, "nvtx" + version))
    program = str(PROGRAMS / "annotated_plainly.py")
    (ours,) = patched(tmp_path, sys.executable, program, PYTHONPATH=path).processes
    env = environment(PYTHONPATH=path)
    (collected,) = captured(tmp_path, sys.executable, program, env=env).processes
    assert content(ours) == content(collected)
    assert len(rows(ours)) > 10


def test_the_target_sees_no_difference(tmp_path: Path) -> None:
    program = (
        "import sys, nvtx, nvtx._lib, inspect, importlib.util, pkgutil\n"
        "print([type(f).__module__ for f in sys.meta_path])\n"
        "print(type(nvtx._lib.__loader__).__name__, type(nvtx._lib.__spec__.loader).__name__)\n"
        "print(len(inspect.getsource(nvtx._lib)) > 100)\n"
        "print(nvtx.annotate.__module__, nvtx.push_range.__module__, nvtx.enabled())\n"
        "print([m for m in sys.modules if 'profkit' in m])\n"
        "@nvtx.annotate()\n"
        "def named(): 'its text'; return 5\n"
        "print(named(), named.__name__, named.__doc__)\n"
    )
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    env = environment(PROFKIT_NO_NATIVE="1")
    done = run_capture(tmp_path, sys.executable, "-c", program, env=env)
    assert done.stdout == plain.stdout


def test_nothing_that_the_target_hands_over_raises(tmp_path: Path) -> None:
    program = (
        "import nvtx\n"
        "class Odd:\n"
        "    def __str__(self): raise RuntimeError\n"
        "nvtx.mark(3); nvtx.mark(b'bytes'); nvtx.mark('x', color='no color'); nvtx.mark('y', payload=2**70)\n"
        "nvtx.mark('z', payload=object())\n"
        "nvtx.mark(['list'], color=['list'], category=['list']); nvtx.mark(Odd())\n"
        "nvtx.mark('c', category=-1, color=-1)\n"
        "nvtx.push_range('never popped'); nvtx.end_range((12345, None)); nvtx.end_range(None)\n"
        "d = nvtx.get_domain('d')\n"
        "d.push_range(message='m', payload=1.5); d.pop_range(); d.pop_range(); d.end_range(0)\n"
        "d.get_timestamp(); a = d.get_event_attributes('a'); a.payload = 7; a.color = 'red'; a.category = 2\n"
        "d.set_event_attributes(a, message='b', category='named'); d.mark(a); print(a.message.string, a.category)\n"
    )
    (process,) = patched(tmp_path, sys.executable, "-c", program).processes
    found = rows(process)
    assert [name for name, _, _ in found] == [*"3", "bytes", *"xyz", "", "", "c", "never popped", "m", "b"]


def test_nvtx_that_is_switched_off_stays_off(tmp_path: Path) -> None:
    env = environment(NVTX_DISABLE="0", PROFKIT_NO_NATIVE="1")
    (process,) = captured(tmp_path, sys.executable, PROGRAM, env=env).processes
    assert {domain for _, domain, _ in rows(process)} == {"my library"}, "the Domain API still speaks"


def test_beside_another_tool_nothing_is_patched(tmp_path: Path) -> None:
    other = "/opt/nsight/libToolsInjection64.so"
    env = environment(PROFKIT_NO_NATIVE="1", NVTX_INJECTION64_PATH=other)
    run = captured(tmp_path, sys.executable, PROGRAM, env=env)
    assert run.processes[0].ranges is None
    assert ("nvtx-other-tool", other) in {(notice.code, notice.subject) for notice in run.warnings}


def test_a_package_that_was_imported_before_the_agent(tmp_path: Path) -> None:
    """A ``.pth`` file may import nvtx while the interpreter starts: its dummies are replaced."""
    import venv

    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    shutil.copytree(packages(sys.executable, "nvtx"), site, dirs_exist_ok=True)
    (site / "early.pth").write_text("import nvtx; nvtx.get_domain(None); nvtx.get_domain('my library')\n")
    python = str(tmp_path / "venv" / "bin" / "python")
    check(patched(tmp_path, python, PROGRAM).processes[0])


def test_an_unknown_package_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "nvtx" / "_lib").mkdir(parents=True)
    (tmp_path / "nvtx" / "__init__.py").write_text("from nvtx._lib import mark\n")
    (tmp_path / "nvtx" / "_lib" / "__init__.py").write_text("def mark(): return 'its own'\n")
    program = "import nvtx; print(nvtx.mark())"
    env = environment(PROFKIT_NO_NATIVE="1", PYTHONPATH=str(tmp_path))
    done = run_capture(tmp_path, sys.executable, "-c", program, env=env)
    assert done.stdout == "its own\n"
    assert "this version of the nvtx package cannot be patched" in done.stderr
