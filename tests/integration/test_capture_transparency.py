"""The target behaves as without profkit: output, status, signals, what it sees of its interpreter."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from profkit.capture.sampler import SAMPLES_NAME
from profkit.capture.spool import left_behind
from profkit.formats import load_run
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    codes,
    column,
    ended,
    environment,
    profkit,
    profkit_command,
    run_capture,
    script,
    started,
    wait_until,
)
from tests.integration.tracing import NEW
from tests.interpreters import EACH_WAY, interpreter, packages
from tests.shared import finished, succeeded

#: Starts a command that may use the first so many CPUs only.
PINNED = (
    "import os, sys\n"
    "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)
HANDLES_SIGNALS = str(PROGRAMS / "handles_signals.py")


def test_arguments_and_streams_are_the_target_s(tmp_path: Path) -> None:
    program = (
        "import os, sys; print(sys.argv, os._exit.__name__, sys.stdin.read()); print('e', file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "-o", "x", "--", "y"]
    done = run_capture(tmp_path, *command, options=("--quiet",), input="typed")
    assert done.stdout == "['-c', '-o', 'x', '--', 'y'] _exit typed\n"
    assert done.stderr == "e\n"


@pytest.mark.parametrize("version", EACH_WAY)
def test_profile_functions_of_the_target_s_see_what_they_see_alone(tmp_path: Path, version: str) -> None:
    """No event of the call that sets them; the target is traced before, after and, from 3.12 on, meanwhile."""
    command = [interpreter(version), str(PROGRAMS / "own_function.py")]
    bare = succeeded(command, tmp_path, env=environment())
    done = run_capture(tmp_path, *command, options=("--quiet",))
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)
    found = calls(done.run.processes[0])
    assert (found["before"], found["between"], found["after"]) == (1, 1, 1)
    meanwhile = version in NEW
    assert found.get("meanwhile", 0) == (4 if meanwhile else 0)
    said = codes(done.run)
    assert ("own-cprofile" in said, "profile-function-replaced" in said) == (not meanwhile, False)


@pytest.mark.parametrize(
    "tool",
    [
        ("-m", "cProfile"),
        ("-m", "trace", "--listfuncs"),
        ("-m", "pdb", "-c", "break leaf", "-c", "continue", "-c", "where", "-c", "quit"),
    ],
    ids=lambda words: words[1],
)
def test_tools_of_the_standard_library_say_what_they_say_alone(
    tmp_path: Path, both_ways: str, tool: tuple[str, ...]
) -> None:
    (tmp_path / "calls.py").write_text(
        "def leaf(n):\n    return sum(range(n))\n\n\nfor i in range(20):\n    leaf(i)\nprint('done')\n"
    )
    command = [both_ways, *tool, "calls.py"]
    bare = finished(command, tmp_path, env=environment())
    done = run_capture(tmp_path, *command, options=("--quiet",), status=bare.returncode)
    assert _without_times(done.stderr) == _without_times(bare.stderr)
    # `runpy` and the import system are called more often where they look into one directory more.
    assert _calls_of(done.stdout) == _calls_of(bare.stdout) != []


def _without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+|0x[0-9a-f]+", "", text)


def _calls_of(output: str) -> list[str]:
    """Lines about the program, with what a profiler says of times left out."""
    lines = [line for line in output.splitlines() if "calls.py" in line or line == "done"]
    return [" ".join(_without_times(line).split()) for line in lines]


REPLACED = "replaced profkit's profile function: functions are not recorded from then on"
#: What takes the tracer's place, and whether records go on; ``None`` where nothing is said of what comes later.
TAKES_THE_PLACE = [
    *((version, "ctypes.pythonapi.PyEval_SetProfile(None, None)", False) for version in EACH_WAY[:2]),
    *(
        (version, f"monitoring = sys.monitoring; {text}", goes_on)
        for version in EACH_WAY[2:]
        for text, goes_on in (
            ("monitoring.set_events(2, 0); monitoring.free_tool_id(2)", False),  # as VizTracer leaves it
            ("monitoring.free_tool_id(2)", version < "3.14"),  # then events stop with their place
            ("monitoring.free_tool_id(2); monitoring.use_tool_id(2, 'other')", None),
        )
    ),
]


@pytest.mark.parametrize(("version", "text", "goes_on"), TAKES_THE_PLACE)
def test_a_target_that_takes_the_profilers_place_keeps_its_record(
    tmp_path: Path, version: str, text: str, goes_on: bool | None
) -> None:
    """What came before is in the run, and it is said where the rest is not; nobody's events are unset."""
    program = (
        "import time\n"
        "begin = time.perf_counter()\n"
        "import ctypes, sys\n"
        "def before(): sum(range(1000))\n"
        "def after(): time.sleep(0.5)\n"
        f"before()\n{text}\n"
        "print(time.perf_counter() - begin)\n"
        "after()\n"
        "sys.exit(3)\n"
    )
    done = run_capture(tmp_path, interpreter(version), "-c", program, status=3)
    assert (done.stderr.count(REPLACED), "agent failed" in done.stderr) == (not goes_on, False), done.stderr
    main = done.run.processes[0]
    assert main.exit == "exited"
    found = calls(main)
    assert found["before"] == 1
    if goes_on is not None:
        assert found.get("after", 0) == goes_on
        ours = "monitoring" if "monitoring" in text else ""
        most = float(done.stdout) + 0.4
        late = [name for name in found if ours in name and column(main, name, "cumtime") > most]
        assert late == [], "charged with what came later"


def test_viztracer_traces_as_without_capture(tmp_path: Path, both_ways: str) -> None:
    """It takes the profiler's place in both threads, and has an audit hook; its own trace is whole."""
    script(
        tmp_path,
        "import sys, threading\n"
        "def leaf(): pass\n"
        "def work():\n"
        "    for _ in range(500): leaf()\n"
        "work()\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n"
        "sys.exit(3)\n",
    )
    env = environment(PYTHONPATH=str(packages(both_ways, "viztracer", "objprint")))
    command = [both_ways, "-m", "viztracer", "--quiet", "-o", "trace.json", "program.py"]
    traced = []
    for under_capture in (False, True):
        done = (
            run_capture(tmp_path, *command, env=env, status=3)
            if under_capture
            else finished(command, tmp_path, env=env)
        )
        assert (done.returncode, "agent failed" in done.stderr) == (3, False), done.stderr
        assert done.stderr.count(REPLACED) == under_capture
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        (tmp_path / "trace.json").unlink()
        names = Counter(event["name"].split()[0] for event in events if event["ph"] == "X")
        traced.append({name: names[name] for name in ("leaf", "work")})
        assert not [event for event in events if "profkit" in event["name"]], "what profkit calls"
    assert traced == [{"leaf": 1000, "work": 2}] * 2
    main = load_run(tmp_path / "run.prof").processes[0]
    assert main.exit == "exited"
    assert calls(main)["run_code"] == 1, "what came before VizTracer began"


def test_uncaught_exception_looks_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "def f():\n    return 1 / 0\nf()"]
    bare = finished(command, status=1, env=environment())
    done = run_capture(tmp_path, *command, options=("--quiet",), status=1)
    assert (done.stdout, done.stderr) == (bare.stdout, bare.stderr)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os._exit(255)", 255),
        ("os.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
        ("ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_the_status_is_passed_on_and_kept(tmp_path: Path, end: str, status: int) -> None:
    run = captured(tmp_path, sys.executable, "-c", f"import ctypes, os; {end}", status=status)
    assert run.manifest.exit_status == (status if status > 0 else 128 - status)


def start(tmp_path: Path) -> subprocess.Popen[str]:
    words = ("capture", "-o", "run.prof", "--quiet", "--", sys.executable, HANDLES_SIGNALS)
    launcher = started(tmp_path, *words, start_new_session=True)
    assert launcher.stdout.readline() == "ready\n"
    return launcher


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_signal_to_the_launcher_reaches_the_target_once(tmp_path: Path, name: str) -> None:
    launcher = start(tmp_path)
    os.kill(launcher.pid, getattr(signal, name))
    assert ended(launcher, 5)[0] == f"['{name}']\n"


def test_signal_to_the_group_in_the_first_moment_reaches_the_target_once(tmp_path: Path) -> None:
    # A shell, because it is there sooner than a Python, and sooner than the launcher has its imports done.
    program = (
        "n=0; trap 'n=$((n+1))' USR1; kill -USR1 0; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; echo $n"
    )
    done = run_capture(tmp_path, "bash", "-c", program, start_new_session=True)
    assert done.stdout == "1\n", done.stderr


def test_signal_that_the_target_blocks_and_waits_for(tmp_path: Path, both_ways: str) -> None:
    """A thread of the agent that did not block it would be given the signal, and the process die of it."""
    program = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "print(int(signal.sigwait({signal.SIGUSR1})) == signal.SIGUSR1)\n"
    )
    done = run_capture(tmp_path, both_ways, "-c", program)
    assert done.stdout == "True\n"


def test_a_recursion_in_a_thread_with_a_small_stack(tmp_path: Path, both_ways: str) -> None:
    """Python calls take none of the C stack from 3.11 on, but in 3.11 those that the tracer lets run do."""
    program = (
        "import threading\n"
        "def down(n): return 1 + down(n - 1) if n else 0\n"
        "threading.stack_size(128 << 10)\n"
        "thread = threading.Thread(target=lambda: print(down(900)))\n"
        "thread.start(); thread.join()\n"
    )
    done = run_capture(tmp_path, both_ways, "-c", program)
    assert done.stdout == "900\n", done.stderr
    assert calls(done.run.processes[0])["down"] == 901


HANDLERS = """
import cmath, math, operator, os, random, signal

class Alarm(Exception): pass

def handler(number, frame):
    handled.append(number)
    raise Alarm

def child():
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.003))
    for function in functions:
        try: function(1)
        except Alarm: raise
        except Exception: pass
    while not handled: pass

# The tracer names a function when it is first called.
functions = []
for holder in (cmath, math, operator, "", b"", [], {}, 1, 1.5, 1j, set(), (), bytearray(), memoryview(b"")):
    found = [getattr(holder, name) for name in dir(holder) if not name.startswith("__")]
    functions += [one for one in found if type(one).__name__ == "builtin_function_or_method"]
signal.signal(signal.SIGALRM, handler)
handled, lost = [], 0
for number in range(40):
    if not os.fork():
        try: child()
        except Alarm: os._exit(0)
        os._exit(1)
    lost += os.wait()[1] != 0
print(len(functions) > 100, lost)
"""


def test_what_a_signal_handler_raises_is_not_lost(tmp_path: Path, each_way: str) -> None:
    command = each_way, script(tmp_path, HANDLERS)
    done = run_capture(tmp_path, *command, options=("--quiet", "--exact"))
    assert done.stdout == "True 0\n", done.stderr


#: Works at its limit of recursion, and three calls before it, for longer than the agent lets pass without a look, and
#: goes beyond it.
AT_THE_LIMIT = """
import time
def leaf(): pass
def once(): leaf(), time.monotonic()
def work():
    until = time.monotonic() + 0.25
    while time.monotonic() < until: leaf()
    try: down(100, leaf)
    except RecursionError: pass
def down(calls, last): down(calls - 1, last) if calls else last()
calls = 900
try:
    while True:
        down(calls, once)
        calls += 1
except RecursionError:
    calls -= 1
for less in (0, 3): down(calls - less, work)
"""


def test_a_target_at_its_limit_of_recursion_does_not_meet_the_agent(tmp_path: Path, each_way: str) -> None:
    done = run_capture(tmp_path, each_way, script(tmp_path, AT_THE_LIMIT), options=("--quiet", "--exact"))
    assert (done.stderr, codes(done.run)) == ("", [])
    assert calls(done.run.processes[0])["work"] == 2


#: Code that ran for some ms and is freed before the tracer books its samples. In its place comes memory of C code
#: that resembles a code object, as arguments of C++ functions do while PyTorch is imported.
FREED = """
import ctypes, struct, sys, time
allocate, free = ctypes.pythonapi.PyObject_Malloc, ctypes.pythonapi.PyObject_Free
allocate.restype, allocate.argtypes, free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
CODE = type((lambda: 0).__code__)
HEAD = CODE.__basicsize__
BLOCK = HEAD if sys.version_info < (3, 11) else 1100
SOURCE = "until = clock() + 0.003\\nwhile clock() < until: pass\\n" + "n = 1\\n" * 300
found = 0
for _ in range(1000):
    code = compile(SOURCE, "gone.py", "exec")
    exec(code, {"clock": time.perf_counter})
    at = id(code)
    del code
    blocks = [allocate(BLOCK) for _ in range(300)]
    if any(block <= at <= block + BLOCK - HEAD for block in blocks):
        found += 1
        ctypes.memset(at, 1, HEAD)
        ctypes.memmove(at, struct.pack("nP", 2, id(CODE)), 16)
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            sum(range(100))
    for block in blocks:
        free(block)
    if found == 10:
        break
print(found)
"""


def test_code_that_was_freed_is_not_looked_at(tmp_path: Path, each_way: str) -> None:
    command = each_way, script(tmp_path, FREED)
    done = run_capture(tmp_path, *command, options=("--quiet", "--sampled"))
    # Where the allocator seldom gives that memory again, fewer cases were met.
    assert 1 <= int(done.stdout) <= 10


def test_ctrl_c_at_a_terminal(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    words = ("capture", "-o", "run.prof", "--quiet", "--", sys.executable, HANDLES_SIGNALS)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
    launcher = started(tmp_path, *words, before=("setsid", "--ctty", "--wait"), **streams)
    os.close(follower)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(leader, 1000)
    os.write(leader, b"\x03")
    launcher.wait(timeout=30)
    while b"]" not in seen:
        seen += os.read(leader, 1000)
    os.close(leader)
    assert b"['SIGINT']" in seen
    assert launcher.returncode == 5


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def test_existing_sitecustomize_still_runs(tmp_path: Path, site: Path) -> None:
    (site / "sitecustomize.py").write_text("import sys\nsys.custom = __file__\n")
    program = "import sys, sitecustomize; print(sys.custom == sitecustomize.__file__, sys.custom)"
    env = environment(PYTHONPATH=str(site))
    done = run_capture(tmp_path, sys.executable, "-c", program, options=("--quiet",), env=env, fresh=True)
    assert (done.stdout, done.stderr) == (f"True {site / 'sitecustomize.py'}\n", "")


def test_sitecustomize_that_fails_is_reported_as_always(tmp_path: Path, site: Path) -> None:
    # For the target alone: profkit's launcher is a Python program too, and would say the same of itself.
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.orig_argv[1] == '-c' and sys.orig_argv[2] == \"print('on')\":\n"
        "    raise RuntimeError('mine')\n"
    )
    env = environment(PYTHONPATH=str(site))
    command = [sys.executable, "-c", "print('on')"]
    bare = finished(command, env=env)
    done = run_capture(tmp_path, *command, options=("--quiet",), env=env, fresh=True, status=bare.returncode)
    assert done.stdout == bare.stdout
    assert "mine" in bare.stderr
    assert done.stderr == bare.stderr


def test_who_comes_after_a_killed_capture_is_told(tmp_path: Path) -> None:
    # Launcher, guard and target at once, as when a container runs out of memory.
    launcher = start(tmp_path)
    wait_until(lambda: list(tmp_path.glob(f".run.prof.spool-*/{SAMPLES_NAME}")))
    assert left_behind(tmp_path) == [], "it still runs"
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.communicate(timeout=10)
    assert [left.output.name for left in left_behind(tmp_path)] == ["run.prof"]
    (spool,) = tmp_path.glob(".run.prof.spool-*")
    line = f"a capture was killed here and left {spool.name}; rescue it with: profkit merge"
    next_one = run_capture(tmp_path, sys.executable, "-c", "pass", options=("-o", "next.prof"))
    assert next_one.stderr.count(line) == 1
    assert profkit(tmp_path, "show", "next.prof").stderr.count(line) == 1
    quiet = ("-q", "-o", "q.prof")
    assert line not in run_capture(tmp_path, sys.executable, "-c", "pass", options=quiet).stderr
    # Who asks for the file that was never written is told.
    shown = profkit(tmp_path, "show", "run.prof", status=2)
    assert f"profkit merge {spool.name} -o run.prof" in shown.stderr
    # Merged without a name: under the one that the capture was to write, and said no more.
    profkit(tmp_path, "merge")
    run = load_run(tmp_path / "run.prof")
    assert run.processes[0].exit == "ended"
    assert "capture-unfinished" in codes(run)
    assert run.series is not None, "what was seen from outside"
    assert "killed here" not in profkit(tmp_path, "show", "next.prof").stderr
    again = profkit(tmp_path, "merge", status=2)
    assert len(again.stderr.splitlines()) == 1


@pytest.mark.parametrize(("command", "code"), [(["/nonexistent/program"], 127), (["/etc/passwd"], 126)])
def test_command_that_cannot_be_started(tmp_path: Path, command: list[str], code: int) -> None:
    done = run_capture(tmp_path, *command, status=code)
    assert done.stderr.startswith("profkit: error: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_descriptors_are_inherited(tmp_path: Path) -> None:
    """Process substitution, make's job server and MPI's process managers name them by number."""
    read, write = os.pipe()
    os.write(write, b"handed down")
    os.close(write)
    program = f"import os; print(os.read({read}, 100))"
    done = run_capture(tmp_path, sys.executable, "-c", program, pass_fds=(read,))
    os.close(read)
    assert done.stdout == "b'handed down'\n", done.stderr


def test_empty_entry_of_pythonpath_stays_the_current_directory(tmp_path: Path) -> None:
    # What `PYTHONPATH=$PYTHONPATH:lib` makes where the variable was not set.
    (tmp_path / "beside.py").touch()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("import beside; print('found')\n")
    env = environment(PYTHONPATH=":lib")
    done = run_capture(tmp_path, sys.executable, "scripts/train.py", env=env, fresh=True)
    assert done.stdout == "found\n", done.stderr


def test_nobody_reads_what_profkit_says(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = profkit_command("capture", "-o", "run.prof", "--", sys.executable, "-c", "raise SystemExit(7)")
    closed = ["bash", "-c", 'exec "$@" 2>&-', "-", *command]
    for words, stderr in ((command, write), (closed, None)):
        done = subprocess.run(words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=stderr)
        assert (done.returncode, done.stdout) == (7, b""), "the message went to the target's output"
    os.close(write)


def test_target_that_removes_its_directory(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    done = run_capture(tmp_path / "work", "bash", "-c", "rm -rf ../work; exit 4", status=4)
    assert "ended with status 4" in done.stderr
    assert done.stderr.count("\n") == 1


def test_working_directory_that_is_gone(tmp_path: Path) -> None:
    leave = ["bash", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "-"]
    command = profkit_command("capture", "-o", str(tmp_path / "run.prof"), "--", "echo", "ran")
    assert succeeded([*leave, *command], tmp_path, env=environment()).stdout == "ran\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="CPUs cannot be chosen on this system")
@pytest.mark.parametrize("cpus", [1, pytest.param(2, marks=pytest.mark.alone)])
def test_what_packing_needs_is_prepared_on_another_cpu_or_afterwards(tmp_path: Path, cpus: int) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < cpus:
        pytest.skip("this machine has one CPU")
    # It waits until the launcher has prepared, or has not although the machine had a free CPU for 100 looks.
    program = script(
        tmp_path,
        "import os, time\n"
        "deadline = time.monotonic() + (0.6 if len(os.sched_getaffinity(0)) < 2 else 30.0)\n"
        "found, free = False, 0\n"
        "while not found and free < 100 and time.monotonic() < deadline:\n"
        "    time.sleep(0.02)\n"
        "    free = free + 1 if int(open('/proc/loadavg').read().split()[3].split('/')[0]) <= 2 else 0\n"
        "    found = 'numpy' in open(f'/proc/{os.getppid()}/maps').read()\n"
        "print('prepared' if found else 'not prepared' if free >= 100 else 'never free')\n",
    )
    launcher = profkit_command("capture", "--quiet", "-o", "run.prof", "--", sys.executable, program)
    words = [sys.executable, "-c", PINNED, str(cpus), *launcher]
    found = succeeded(words, tmp_path, env=environment()).stdout.strip()
    if cpus > 1 and found == "never free":
        pytest.skip("other programs kept all CPUs busy for 30 s")
    assert found == "prepared" if cpus > 1 else found != "prepared"


def test_a_process_that_does_nothing_is_left_alone(tmp_path: Path) -> None:
    """However large it is: soon no record of it is written any more."""
    program = script(
        tmp_path,
        "import os\n"
        "def made(number):\n"
        "    names = {}\n"
        "    exec(compile('def f(): pass', '/file%d.py' % number, 'exec'), names)\n"
        "    return names['f']\n"
        "for function in [made(number) for number in range(10_000)]:\n"
        "    function()\n"
        "open('idle', 'w').close()\n"
        "os.read(0, 1)\n",
    )
    words = ("capture", "-q", "-o", "run.prof", "--", sys.executable, program)
    launcher = started(tmp_path, *words, stdin=subprocess.PIPE)
    wait_until((tmp_path / "idle").exists, "the program does not begin")
    records = set()
    end = time.monotonic() + 4.5
    while time.monotonic() < end:
        records |= {path.stat().st_mtime_ns for path in tmp_path.glob(".run.prof.spool-*/*.record")}
        time.sleep(0.05)
    ended(launcher)
    # One that was due when it began to do nothing.
    assert 1 <= len(records) <= 2


#: Of CPython 3.13.0 the first ended with "double free or corruption", that of 3.8 with a fatal error.
INTERPRETERS = """
import sys, threading
try:
    import _interpreters as made
except ImportError:
    import _xxsubinterpreters as made
def leaf(n):
    return n
def other():
    one = made.create()
    made.run_string(one, "def leaf(i): return i\\nfor k in range(100): leaf(k)")
    made.destroy(one)
other()
thread = threading.Thread(target=other)
thread.start()
thread.join()
print([leaf(n) for n in range(3)])
"""


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.13"])
def test_further_interpreters_are_left_alone_and_that_is_said(tmp_path: Path, version: str) -> None:
    done = run_capture(tmp_path, interpreter(version), script(tmp_path, INTERPRETERS))
    assert done.stdout == "[0, 1, 2]\n", done.stderr
    assert codes(done.run) == ["subinterpreters"]
    (process,) = done.run.processes
    assert calls(process)["leaf"] == 3
