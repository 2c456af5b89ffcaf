"""What a program can see of profkit is what docs/limitations.md lists; tools that measure programs see nothing."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.capturing import PROGRAMS, ROOT, environment, run_capture, script
from tests.integration.tracing import NEW
from tests.interpreters import EACH_WAY, interpreter, packages
from tests.shared import finished, succeeded

#: Names of frozen modules and of functions that stand for built-in ones: what tools take for no file.
NO_FILE = re.compile(r"<frozen [\w.]+>|")


def more(before: list[Any], after: list[Any]) -> list[Any]:
    """What was added to a list from which nothing was taken."""
    assert [one for one in after if one in before] == before
    return [one for one in after if one not in before]


def descriptors(before: list[Any], after: list[Any]) -> bool:
    return all(number >= 512 and kind == "file" for number, kind in more(before, after))


def monitoring(before: list[Any], after: list[Any]) -> bool:
    changed = [tool for (tool, was), (_, now) in zip(before, after, strict=True) if was != now]
    return changed == [2] and after[2] == [2, "profkit"]


def tracemalloc(before: list[Any], after: list[Any]) -> bool:
    standard = re.compile(r".*/lib/python3\.\d+/(?!site-packages).*")
    return all(NO_FILE.fullmatch(file) or standard.fullmatch(file) for file in {*after} - {*before})


#: What the comparison finds, of every Python, and how it may differ from a run without profkit.
ALWAYS: dict[str, Callable[[Any, Any], bool]] = {
    "os.environ": lambda a, b: (
        more(a, b) == ["NVTX_INJECTION64_PATH", "PROFKIT_OVERHEAD", "PROFKIT_SPOOL", "PYTHONPATH"]
    ),
    "sys.modules": lambda a, b: more(a, b) in (["_lsprof"], ["_lsprof", "atexit"]),
    "dir(sys)": lambda a, b: more(a, b) == ["_profkit"],
    "functions of sys": lambda a, b: more(a, b) in (["setprofile"], ["getprofile", "setprofile"]),
    "functions of os": lambda a, b: more(a, b) == ["_exit", "execv", "execve"],
    "cProfile.Profile.__mro__": lambda a, b: (
        a == [b[0], *b[2:]] and b[1] == b[2] == "_lsprof.Profiler Profiler"
    ),
    "gc.callbacks": lambda a, b: more(a, b) == ["builtins.builtin_function_or_method collects"],
    "atexit": lambda a, b: b == a + 1,
    "/proc/self/fd": descriptors,
    "/proc/self/task": lambda a, b: a < b <= a + 2,  # a forked child may have begun one of the two
    "faulthandler": lambda a, b: b == a + 1,
    "code of a function that is no more": lambda a, b: (a, b) == (False, True),
    "tracemalloc": tracemalloc,
    "tracebacks": lambda a, b: more(a, b) == ["<frozen profkit.session>"],
}
#: The same up to Python 3.11, and from 3.12 on.
BEFORE_MONITORING: dict[str, Callable[[Any, Any], bool]] = {
    "sys.meta_path": lambda a, b: more(a, b) == ["_profkit_agent.import_hook._Finder "],
    "threading.getprofile()": lambda a, b: (a, b) == ("None", "<bound method ThreadTracer._thread_started"),
}
WITH_MONITORING: dict[str, Callable[[Any, Any], bool]] = {"sys.monitoring": monitoring}
#: What other tests look at, and of pdb benchmarks/interpreter_tests.py.
ELSEWHERE = {"sys.path", "-X importtime", "-v", "sitecustomize", "sys.addaudithook", "pdb.set_trace()"}


@pytest.mark.parametrize("version", EACH_WAY)
def test_what_a_program_sees_is_what_is_listed(tmp_path: Path, version: str) -> None:
    options = ("-X", "dev", "-W", "error", "-X", "tracemalloc")
    command = [interpreter(version), *options, str(PROGRAMS / "looks_around.py"), "seen.json"]
    bare = succeeded(command, tmp_path, env=environment())
    assert bare.stderr == ""
    before = json.loads((tmp_path / "seen.json").read_text())
    done = run_capture(tmp_path, *command, options=("--quiet",), fresh=True)  # with streams of the same kind
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    after = json.loads((tmp_path / "seen.json").read_text())
    monitored = version in NEW
    fits = ALWAYS | (WITH_MONITORING if monitored else BEFORE_MONITORING)
    if "threading" in before["begin"]["sys.modules"]:
        fits.pop("sys.meta_path", None)
    found = set()
    for moment, facts in before.items():
        for name, value in facts.items():
            other = after[moment][name]
            if other != value:
                assert name in fits, f"{moment}: {name}: {value} became {other}"
                assert fits[name](value, other), f"{moment}: {name}: {value} became {other}"
                found.add(name)
    assert found == set(fits), "what is seen no longer need not be listed"


#: Says which functions' frames are left to the collector, and how many objects of functions that are over live on.
FORGETS = """
import ctypes, gc, threading, time, weakref
ctypes.CDLL("libgomp.so.1")  # as pools of such libraries are what the agent looks for
gc.disable()
class Batch: pass
seen = []
def step():
    batch = Batch()
    seen.append(weakref.ref(batch))
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until: sum(range(1000))
def steps(number):
    for _ in range(number): step()
other = threading.Thread(target=steps, args=(20,))
other.start()
steps(40)
other.join()
alive = sum(batch() is not None for batch in seen)
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
print(len(seen), alive, [one.f_code.co_name for one in gc.garbage if type(one).__name__ == "frame"])
"""


def test_no_variable_of_the_program_is_kept(tmp_path: Path, each_way: str) -> None:
    """Python 3.12.1 crashes if the collector finds a buffer of `io.BytesIO` in a cycle, as multiprocessing makes."""
    done = run_capture(tmp_path, each_way, script(tmp_path, FORGETS))
    assert done.stdout == "60 0 []\n", done.stderr


#: Says which events there are, and which files.
AUDITS = """
import sys, time
seen = set()
sys.addaudithook(lambda event, arguments: seen.add((event, str(arguments[0]) if arguments else "")))
import atexit
atexit.register(lambda: print(*sorted(map(" ".join, seen)), sep="\\n"))  # after the agent's own
until = time.perf_counter() + 0.5
while time.perf_counter() < until: sum(range(1000))
"""
AUDITED = r"(open|os\.listdir|os\.rename|os\.symlink) (/proc/self/|\S*/\.run\.prof\.spool-|sampled$)"
AUDITED += r"|marshal\.dumps |sys\.setprofile $|sys\.monitoring\.register_callback "


def test_what_audit_hooks_see(tmp_path: Path, each_way: str) -> None:
    command = [each_way, script(tmp_path, AUDITS)]
    before = succeeded(command, tmp_path, env=environment()).stdout.splitlines()
    after = run_capture(tmp_path, *command, options=("--quiet",)).stdout.splitlines()
    added = [line for line in after if line not in before]
    assert added
    assert [line for line in added if not re.match(AUDITED, line)] == []


def test_what_programs_see_is_documented() -> None:
    text = (ROOT / "docs" / "limitations.md").read_text(encoding="utf-8")
    section = text.partition("\n## What a program sees of profkit\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
    assert set(listed) == {*ALWAYS, *BEFORE_MONITORING, *WITH_MONITORING, *ELSEWHERE}
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(("version", "own"), [("2.7", True), ("3.6", False), ("3.7", True)])
def test_older_pythons_are_left_alone(tmp_path: Path, version: str, own: bool) -> None:
    if own:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.own = 1\n")
    program = "import sys; print(hasattr(sys, 'own'), sys.path, sorted(sys.modules)); sys.exit(4)"
    env = environment(PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    command = (interpreter(version), "-c", program)
    bare = finished(command, tmp_path, 4, env=env)
    done = run_capture(tmp_path, *command, options=("--quiet",), env=env, status=4)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)


def test_without_site_the_agent_s_directory_is_on_the_path(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "import sys; print(*sys.path, sep='\\n')"]
    before = succeeded(command, tmp_path, env=environment()).stdout.splitlines()
    after = run_capture(tmp_path, *command, options=("--quiet",)).stdout.splitlines()
    assert [Path(entry).name for entry in more(before, after)] == ["inject"]


def lines_of(text: str) -> list[str]:
    """Lines of ``-v`` or ``-X importtime`` without addresses and times."""
    return [re.sub(r" at 0x\w+|^import time: [ \d|]+", "", line).strip() for line in text.splitlines()]


def test_what_the_interpreter_says_of_imports(tmp_path: Path, each_way: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").touch()
    env = environment(PYTHONPATH=str(tmp_path / "site"), PYTHONDONTWRITEBYTECODE="1")
    for option in (("-X", "importtime"), ("-v",)):
        command = [each_way, *option, "-c", "import json"]
        before = lines_of(succeeded(command, tmp_path, env=env).stderr)
        after = lines_of(run_capture(tmp_path, *command, options=("--quiet",), env=env).stderr)
        added = [line for line in after if line not in before]
        if option == ("-v",):
            # What is said of the interpreter's end depends on when modules are given up, not on what is imported.
            of_imports = [line for line in added if not re.match("# (cleanup|clear|destroy|restore)", line)]
            own = r"profkit|sitecustomize|_lsprof|atexit|\('(_functools|errno|gc|itertools)'\)"
            assert [line for line in of_imports if not re.search(own, line)] == []
        else:
            assert added in (["_lsprof"], ["_lsprof", "atexit"])
            assert len(after) == len(before) + len(added)


WATCHED = """
import sys, threading, time
events, seen = sys.monitoring.events, set()
sys.monitoring.use_tool_id(1, "own")
sys.monitoring.register_callback(1, events.PY_START, lambda code, place: seen.add(code.co_filename))
sys.monitoring.set_events(1, events.PY_START)
def leaf(n): return n
begun = time.process_time()
while time.process_time() - begun < 0.5:
    for n in range(1000): leaf(n)
sys.monitoring.set_events(1, 0)
print(seen)
"""


@pytest.mark.parametrize("version", ["3.12", "3.15"])
def test_a_target_that_watches_all_threads(tmp_path: Path, version: str) -> None:
    """The agent changes to samples in a thread of its own, unseen."""
    done = run_capture(tmp_path, interpreter(version), "-c", WATCHED, options=("--overhead", "1%"))
    assert done.stdout == "{'<string>'}\n"


#: Runs what profkit wraps and replaces, in threads and in children as well.
MEASURED = """
import cProfile, gc, multiprocessing, os, profile, subprocess, sys, threading
from package import module
def leaf(n):
    if n > 2:
        return "never" * n
    return n
def watch(frame, event, argument):
    return None
def in_a_thread():
    leaf(1)
    sys.setprofile(watch)
    leaf(1)
    sys.setprofile(None)
def many():
    total = 0
    for n in range(50_000):
        total += module.square(n)
    return total
if __name__ == "__main__":
    profiler = cProfile.Profile()
    profiler.enable()
    leaf(1)
    profiler.disable()
    profiler.create_stats()
    profile.Profile().runcall(leaf, 2)
    assert sys.getprofile() is None
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    pid = os.fork()
    if pid == 0:
        leaf(0)
        os._exit(0)
    os.waitpid(pid, 0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(module.square, range(3))
    subprocess.run([sys.executable, "-c", "pass"])
    try:
        os.execv("/nonexistent", ["nonexistent"])
    except OSError:
        pass
    many()
    gc.collect()
"""
MODULE = """
def square(n):
    return n * n
def never():
    return 1
"""
#: Of 2021, one that has wheels for Python 3.8, and what there is.
COVERAGE = [("3.8", "coverage==6.2", ("--branch",)), ("3.14", "coverage", ("--branch", "--source=."))]


@pytest.mark.parametrize(("version", "requirement", "options"), COVERAGE)
def test_coverage_measures_the_program_alone(
    tmp_path: Path, version: str, requirement: str, options: tuple[str, ...]
) -> None:
    python = interpreter(version)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "module.py").write_text(MODULE)
    script(tmp_path, MEASURED)
    # Whether a fork warns of other threads depends on whether those of the pool have ended.
    path = str(packages(python, requirement))
    env = environment(PYTHONPATH=path, PYTHONWARNINGS="ignore::DeprecationWarning")
    coverage = [python, "-m", "coverage"]
    command = [*coverage, "run", *options, "program.py"]

    def measured() -> Any:
        report = succeeded([*coverage, "report"], tmp_path, env=env)
        succeeded([*coverage, "json", "-o", "lines.json"], tmp_path, env=env)
        (tmp_path / ".coverage").unlink()
        return report.stdout, json.loads((tmp_path / "lines.json").read_text())["files"]

    bare = succeeded(command, tmp_path, env=env)
    before = measured()
    assert set(before[1]) == {"program.py", *map(os.path.join, ["package"] * 2, ["__init__.py", "module.py"])}
    for tier in ("--exact", "--sampled"):
        done = run_capture(tmp_path, *command, options=("--quiet", tier), env=env)
        assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
        assert measured() == before
