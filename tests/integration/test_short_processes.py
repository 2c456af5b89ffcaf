"""Processes that live for milliseconds: nothing is loaded that they do not use, and nothing of them is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.capturing import calls, captured, run_capture, script
from tests.interpreters import BOTH_WAYS, EACH_WAY, interpreter
from tests.shared import succeeded

#: What the agent has at hand without importing it.
MODULES = ("__future__", "functools", "gc", "threading", "types")

THREADS = """
import sys
{before}
import threading, time
def leaf(i):
    return i
def work():
    return sum([leaf(i) for i in range(10)])
{meanwhile}
for name in ("one", "two"):
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()
print(threading.main_thread().name, type(threading.__spec__.loader).__name__, len(sys.meta_path))
"""


@pytest.mark.parametrize("version", EACH_WAY)
def test_the_agent_imports_nothing_for_a_program_that_does_not(tmp_path: Path, version: str) -> None:
    code = f"import sys; print([m for m in {MODULES} if m in sys.modules])"
    # An environment without packages, whose .pth files may import anything.
    subprocess.run([interpreter(version), "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    command = [str(tmp_path / "env" / "bin" / "python"), "-c", code]
    plain = succeeded(command).stdout
    assert "threading" not in plain  # else this would not show that it is left to the program
    assert run_capture(tmp_path, *command).stdout == plain


@pytest.mark.parametrize("version", EACH_WAY)
def test_threads_are_traced_where_the_program_imports_threading_itself(tmp_path: Path, version: str) -> None:
    command = [interpreter(version), script(tmp_path, THREADS.format(before="", meanwhile=""))]
    plain = succeeded(command).stdout
    done = run_capture(tmp_path, *command)
    assert done.stdout == plain, done.stderr
    (process,) = done.run.processes
    assert calls(process)["leaf"] == 20


def test_threads_are_traced_where_nothing_saw_the_import(tmp_path: Path) -> None:
    """The program has cleared `sys.meta_path`; the tracer looks at the process now and then."""
    before = "sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]"
    meanwhile = "end = time.monotonic() + 0.5\nwhile time.monotonic() < end: len(str())"
    program = script(tmp_path, THREADS.format(before=before, meanwhile=meanwhile))
    (process,) = captured(tmp_path, sys.executable, program, options=("--exact",)).processes
    assert calls(process)["leaf"] == 20


COSTS = """
import glob, os, subprocess, sys
(path,) = glob.glob(os.path.join(os.environ["PROFKIT_SPOOL"], "*.costs"))
before = os.stat(path)
child = [sys.executable, "-c", "def leaf(): pass\\nleaf()"]
subprocess.run(child, check=True)
kept = os.stat(path).st_ino == before.st_ino
found = []
for text in {damaged!r}:
    with open(path, "w") as file:
        file.write(text)
    subprocess.run(child, check=True)
    found.append(len(open(path).read().split("\\n")))
print(kept, found)
"""


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_what_events_cost_is_measured_once_unless_it_cannot_be_read(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    build = " ".join(succeeded([python, "-c", "import sys; print(sys.version)"]).stdout.split())
    values = "\n".join(["1e-7"] * 5)
    damaged = ["", "garbage", f"{build}\n1e-7", f"{build}\n{values}\n1e-7", f"another\n{values}"]
    damaged += [f"{build}\n{values.replace('1e-7', wrong, 1)}" for wrong in ("nan", "inf", "-1", "60")]
    done = run_capture(tmp_path, python, script(tmp_path, COSTS.format(damaged=damaged)))
    # Each of them was measured again, and written: a line that says of what, and five figures.
    assert done.stdout == f"True {[6] * len(damaged)}\n", done.stderr
    main, *children = done.run.processes
    assert [calls(child).get("leaf", 0) for child in children] == [1] * 10
    assert {(child.role, child.parent) for child in children} == {("child", main.pid)}


CODE = """
import glob, marshal, os, subprocess, sys
spool = os.environ["PROFKIT_SPOOL"]
(path,) = glob.glob(os.path.join(spool, "*.code"))
names = sorted(marshal.loads(open(path, "rb").read()))
child = [sys.executable, "-c", "def leaf(): pass\\nleaf()"]
mark = os.path.join(os.getcwd(), "mark")
other = {"session": marshal.dumps(compile("open(%r, 'w').close()" % mark, "session", "exec"))}
found = []
for content, owner in ((b"", None), (b"garbage", None), (marshal.dumps(other), 12345), (marshal.dumps(other), None)):
    with open(path, "wb") as file:
        file.write(content)
    if owner and os.geteuid() == 0:
        os.chown(path, owner, -1)
    elif owner:
        os.unlink(path)
    subprocess.run(child, check=True)
    found.append(os.path.exists(mark))
    if owner and os.path.exists(path):
        os.unlink(path)
print("session" in names, "thread_pools" in names, found)
"""


@pytest.mark.parametrize("version", EACH_WAY)
def test_processes_read_the_agent_s_code_from_one_file_of_their_own_user(
    tmp_path: Path, version: str
) -> None:
    """A child that finds none, or a damaged one, reads the modules; what the file says is what is run."""
    done = run_capture(tmp_path, interpreter(version), script(tmp_path, CODE))
    assert done.stdout == "True True [False, False, False, True]\n", done.stderr
    assert [calls(process).get("leaf", 0) for process in done.run.processes[1:4]] == [1] * 3
