"""Nothing of what was called is lost: however a process ends, whoever starts its threads, however short it lives."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from profkit.formats import load_run
from profkit.measure.range_functions import range_functions
from profkit.measure.range_stats import range_rows
from profkit.model import Process
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    names,
    run_capture,
    script,
    started,
    wait_until,
)
from tests.integration.tracing import compiled
from tests.interpreters import EACH_WAY, interpreter
from tests.shared import succeeded

COUNTS = str(PROGRAMS / "counts_itself.py")
SLOTS = 64


def page(directory: Path) -> Path:
    path = directory / "page"
    path.write_bytes(bytes(SLOTS * 8))
    return path


def slots(path: Path) -> list[int]:
    data = path.read_bytes()
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]


def counts_by_thread(process: Process, name: str) -> list[int]:
    """Calls of a function in each thread of a process that has made any."""
    found = [calls(process, index).get(name, 0) for index in range(len(process.threads))]
    return [count for count in found if count]


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_a_process_that_is_killed_at_any_moment_has_every_call(tmp_path: Path, version: str) -> None:
    moments, path = random.Random(version), page(tmp_path)
    words = ("capture", "-o", "run.prof", "--exact", "--", interpreter(version), COUNTS, str(path))
    for _ in range(int(os.environ.get("PROFKIT_TEST_KILLS", "4"))):
        page(tmp_path)  # from 0 on
        launcher = started(tmp_path, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: slots(path)[-1], "the program does not begin")
        time.sleep(moments.uniform(0.0, 0.4))
        os.kill(slots(path)[-1], signal.SIGKILL)
        launcher.wait(30)
        run = load_run(tmp_path / "run.prof")
        (process,) = run.processes
        assert process.exit == "killed"
        ours, there = counts_by_thread(process, "counted"), [count for count in slots(path)[:-1] if count]
        # The last call of each thread may have counted, and not returned or not been made.
        assert len(ours) == len(there)
        for mine, theirs in zip(sorted(ours), sorted(there), strict=True):
            assert abs(mine - theirs) <= 1
        (notice,) = run.warnings
        assert (notice.code, notice.numbers.keys()) == ("killed-by-signal", {"kept", "pids"})


ENDS = (
    *("os._exit(0)", "ctypes.CDLL(None)._exit(0)", "ctypes.string_at(0)", "os.abort()"),
    "os.kill(os.getpid(), 15)",
)


def test_however_a_process_ends_every_call_is_there(tmp_path: Path, both_ways: str) -> None:
    script(
        tmp_path, "import ctypes, os, sys\ndef step(): pass\nfor _ in range(12345): step()\nexec(sys.argv[1])"
    )
    one_by_one = 'python="$1"; shift; for end; do "$python" program.py "$end"; done; true'
    words = ("bash", "-c", one_by_one, "-", both_ways, *ENDS)
    ended = [process for process in captured(tmp_path, *words).processes if process.profiled]
    found = {process.command[-1]: calls(process)["step"] for process in ended}
    assert found == dict.fromkeys(ENDS, 12345)


def test_workers_that_a_pool_terminates_lose_nothing(tmp_path: Path, both_ways: str) -> None:
    """Spawned workers that worked for a tenth of a second; they are terminated when the last result is there."""
    path = page(tmp_path)
    words = (both_ways, COUNTS, str(path), "pool")
    run = captured(tmp_path, *words)
    workers = [process for process in run.processes if process.role == "worker"]
    assert workers
    assert sum(calls(process).get("augment", 0) for process in workers) == 6
    assert sum(sum(counts_by_thread(process, "counted")) for process in workers) == sum(slots(path))
    # The process that follows resources may outlive the main one, which is said.
    pids = {process.pid for process in workers}
    assert not [notice for notice in run.warnings if not pids.isdisjoint(notice.numbers.get("pids", pids))]


def test_forked_children_have_tables_of_their_own(tmp_path: Path, both_ways: str) -> None:
    """What a child does is in no table of its parent's, which it shares memory with, nor the other way round."""
    program = script(
        tmp_path,
        "import os\n"
        "def step(): pass\n"
        "def of_child(): pass\n"
        "def outer(depth):\n"
        "    step()\n"
        "    if depth:\n"
        "        outer(depth - 1)\n"
        "        return\n"
        "    if os.fork() == 0:\n"
        "        for _ in range(1000): of_child()\n"
        "        os.kill(os.getpid(), 9)\n"
        "    os.wait()\n"
        "outer(10)\n"
        "for _ in range(500): step()\n",
    )
    run = captured(tmp_path, both_ways, program)
    parent, child = run.processes
    assert (calls(parent)["step"], calls(parent)["outer"], "of_child" in calls(parent)) == (511, 11, False)
    assert (calls(child)["of_child"], "outer" in calls(child)) == (1000, False)


#: What a forked child does first, and the calls that it then has.
FIRSTS: list[tuple[str, dict[str, int]]] = [
    ("leaves()", {"leaves": 1}),
    ("[].append(1)", {"<method 'append' of 'list' objects>": 1}),
    ("next(waiting, None)", {"<built-in method builtins.next>": 1, "yields": 1}),
    ("for _ in waiting: pass", {"yields": 1}),
    (
        "import cProfile; profile = cProfile.Profile(); profile.enable(); profile.disable(); leaves()",
        {"leaves": 1},
    ),
    ("sys.setprofile(lambda *_: None); sys.setprofile(None); leaves()", {"leaves": 1}),
    ("try: os._exit('x')\n    except TypeError: leaves()", {"leaves": 1}),
    ("try: os.execv('/nowhere', ['x'])\n    except OSError: leaves()", {"leaves": 1}),
    ("until = 0\n    while until < 10**7: until += 1", {}),
]


def test_a_forked_child_has_its_first_call(tmp_path: Path, both_ways: str) -> None:
    """A child's agent begins with what it calls first, whatever that is."""
    forked = "pid = os.fork()\nif not pid:\n    {}\n    os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0\n"
    program = script(
        tmp_path,
        "import os, sys\n"
        "def leaves(): return 1\n"
        "def yields():\n    yield 1\n"
        "waiting = yields()\n"
        "next(waiting)\n" + "print(pid)\n".join([*(forked.format(first) for first, _ in FIRSTS), ""]),
    )
    done = run_capture(tmp_path, both_ways, program)
    run = done.run
    assert run.manifest.exit_status == 0, done.stderr
    children = {process.pid: process for process in run.processes[1:]}
    for pid, (first, counts) in zip(map(int, done.stdout.split()), FIRSTS, strict=True):
        child = children[pid]
        assert (child.parent, child.exit, child.profiled) == (run.processes[0].pid, "exited", True), first
        assert {name: calls(child).get(name) for name in counts} == counts, first
    assert {notice.code for notice in run.warnings} <= {"own-cprofile"}


def test_children_that_call_nothing_leave_nothing(tmp_path: Path, both_ways: str) -> None:
    program = script(
        tmp_path,
        "import os\n"
        "spool = os.environ['PROFKIT_SPOOL']\n"
        "there = sorted(os.listdir(spool))\n"
        "for _ in range(20):\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        os._exit(7)\n"
        "    assert os.waitpid(pid, 0)[1] == 7 << 8\n"
        "assert set(os.listdir(spool)) - set(there) <= {'sampler.samples'}\n",
    )
    run = captured(tmp_path, both_ways, program)
    assert run.manifest.exit_status == 0
    assert [process.exit for process in run.processes if process.profiled] == ["exited"]
    assert run.warnings == ()
    assert calls(run.processes[0])["<built-in method posix.fork>"] == 20


def test_short_threads_are_summed_and_all_there(tmp_path: Path, both_ways: str) -> None:
    program = script(
        tmp_path,
        "import os, threading\n"
        "def step(): pass\n"
        "def task():\n"
        "    for _ in range(7): step()\n"
        "for _ in range(1500):\n"
        "    thread = threading.Thread(target=task)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "os.kill(os.getpid(), 9)\n",
    )
    (process,) = captured(tmp_path, both_ways, program, status=-9).processes
    assert calls(process)["step"] == 7 * 1500
    assert calls(process)["task"] == 1500
    # Beside those that the tracer keeps apart there are threads that were seen from outside.
    assert sum(len(thread.profile) > 0 for thread in process.threads) < 120
    assert sum("more ended threads" in thread.name for thread in process.threads) == 1


def test_code_that_is_compiled_as_it_goes_is_one_function(tmp_path: Path, both_ways: str) -> None:
    """Its code objects are neither kept nor mixed up with others that get their addresses."""
    program = script(
        tmp_path,
        "import weakref\n"
        "codes = []\n"
        "for number in range(3000):\n"
        "    exec(f'def made():\\n    return {number}\\nmade()\\n')\n"
        "    codes.append(weakref.ref(made.__code__))\n"
        "    exec(f'def other():\\n    return {number}\\nother(); other()\\n')\n"
        "open('alive', 'w').write(str(sum(code() is not None for code in codes)))\n",
    )
    run = captured(tmp_path, both_ways, program)
    (process,) = run.processes
    assert calls(process)["made"] == 3000
    assert int((tmp_path / "alive").read_text()) <= 300, "it is kept, for each code object"
    assert calls(process)["other"] == 6000
    assert sum(name in ("made", "other") for name in names(process.threads[0].profile)) == 2


#: Makes cycles that a collection has to find, slowly, so that snapshots of its 3 000 functions come in between.
FINALISERS = """
import gc, os, sqlite3, threading, time
main = threading.get_ident()
here, elsewhere = [], []
class Cycle:
    def __init__(self):
        self.me, self.connection = self, sqlite3.connect(":memory:")
    def __del__(self):
        (here if threading.get_ident() == main else elsewhere).append(1)
        self.connection.close()
def make(number):
    names = {}
    exec(compile("def f(): pass", "/file%d.py" % number, "exec"), names)
    return names["f"]
for function in [make(number) for number in range(3000)]:
    function()
for _ in range(300):
    Cycle()
    time.sleep(0.003)
threads = len(os.listdir("/proc/self/task"))
gc.collect()
print(threads, len(elsewhere), len(here), gc.get_threshold() == before)
"""


def test_no_finaliser_of_the_targets_runs_in_a_thread_of_ours(tmp_path: Path, both_ways: str) -> None:
    program = script(tmp_path, "import gc\nbefore = gc.get_threshold()\n" + FINALISERS)
    done = run_capture(tmp_path, both_ways, program)
    threads, elsewhere, here, same = done.stdout.split()
    assert (elsewhere, here) == ("0", "300"), done.stderr
    assert threads == "3"
    assert same == "True"
    assert "ProgrammingError" not in done.stderr


CALLS_BACK = """
#include <pthread.h>
#include <unistd.h>
typedef int (*callback)(int);
struct job { callback call; int n; };
static void *run(void *given) {
    struct job *job = given;
    for (int i = 0; i < job->n; i++)
        job->call(i);
    return 0;
}
void call_from_thread(callback call, int n) {
    struct job job = {call, n};
    pthread_t thread;
    pthread_create(&thread, 0, run, &job);
    pthread_join(thread, 0);
}
static void wait(void *unused) {
    usleep(400000);
}
void linger(void) {
    pthread_key_t key;
    pthread_key_create(&key, wait);
    pthread_setspecific(key, &wait);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that calls back from a thread of its own, and keeps one that ends for a while."""
    directory = tmp_path_factory.mktemp("library")
    (directory / "calls.c").write_text(CALLS_BACK)
    return compiled(directory / "calls.so", directory / "calls.c")


@pytest.mark.parametrize("version", EACH_WAY[1:])
def test_every_call_in_threads_of_other_origin_is_there(tmp_path: Path, version: str, library: str) -> None:
    program = str(PROGRAMS / "other_threads.py")
    plain = succeeded([interpreter(version), program, library]).stdout
    done = run_capture(tmp_path, interpreter(version), program, library)
    assert done.stdout == plain, done.stderr
    main = done.run.processes[0]
    # A thread of C code may have a state of its own for each call.
    assert counts_by_thread(main, "called") == counts_by_thread(main, "inner") == [3000, 2000]
    assert counts_by_thread(main, "by_hand") == [400, 400]
    # Those that `threading` starts have one table each, and nothing that never ended.
    assert counts_by_thread(main, "by_thread") == [100, 100, 100]
    assert counts_by_thread(main, "deep") == [20_001]
    assert all(not thread.open_calls for thread in main.threads)
    assert done.run.warnings == ()


RANGES_IN_A_THREAD = """
import ctypes, os, sys, threading, time
nvtx = ctypes.PyDLL(os.environ["NVTX_INJECTION64_PATH"])
def work(seconds):
    begun = time.thread_time()
    while time.thread_time() - begun < seconds: pass
def ranges():
    ctypes.CDLL(sys.argv[1]).linger()
    for i in range(20):
        nvtx.profkit_nvtx_push(b"range")
        work(0.01)
        nvtx.profkit_nvtx_pop()
for _ in range(3):
    thread = threading.Thread(target=ranges)
    thread.start()
    thread.join()
    work(0.3)
"""


def test_samples_in_ranges_stay_with_a_thread_that_has_left_python(
    tmp_path: Path, each_way: str, library: str
) -> None:
    """They are booked when it has no Python state any more, and still runs."""
    program = script(tmp_path, RANGES_IN_A_THREAD)
    run = captured(tmp_path, each_way, program, library, options=("--sampled",))
    assert run.warnings == ()
    whole = sum(row.total_s for row in range_rows(run.processes))
    (inside,) = range_functions(run).values()
    assert 0.3 * whole < inside.total_s < 1.2 * whole


AUDITED = """
import _thread, sys
asked = []
def objects(event, arguments):
    if event == "sys.setprofile":
        asked.append(_thread.get_ident())
        raise RuntimeError("no")
def hears(event, arguments):
    if event == "mine": print(*arguments)
def leaf(): pass
def alone():
    for _ in range(400): leaf()
    sys.audit("mine", "heard")
    print(asked.count(_thread.get_ident()) <= 1)
    done.release()
sys.addaudithook(globals()[sys.argv[1]])
done = _thread.allocate_lock()
done.acquire()
_thread.start_new_thread(alone, ())
done.acquire()
"""


@pytest.mark.parametrize(("hook", "printed"), [("hears", "heard\nTrue\n"), ("objects", "True\n")])
def test_an_audit_hook_in_python_sees_threads_of_other_origin(
    tmp_path: Path, both_ways: str, hook: str, printed: str
) -> None:
    """Putting a profile function in asks the hook, once a thread, which is itself called in that thread."""
    command = (both_ways, script(tmp_path, AUDITED), hook)
    done = run_capture(tmp_path, *command, options=("--quiet",))
    assert done.stdout == printed, done.stderr
    if hook == "hears":
        assert done.stderr == ""
        assert calls(done.run.processes[0])["leaf"] == 400


# Processes that live for milliseconds: nothing is loaded either that they do not use.

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


def test_the_agent_imports_nothing_for_a_program_that_does_not(tmp_path: Path, each_way: str) -> None:
    code = f"import sys; print([m for m in {MODULES} if m in sys.modules])"
    # An environment without packages, whose .pth files may import anything.
    subprocess.run([each_way, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    command = [str(tmp_path / "env" / "bin" / "python"), "-c", code]
    plain = succeeded(command).stdout
    assert "threading" not in plain  # else this would not show that it is left to the program
    assert run_capture(tmp_path, *command).stdout == plain


def test_threads_are_traced_where_the_program_imports_threading_itself(tmp_path: Path, each_way: str) -> None:
    command = [each_way, script(tmp_path, THREADS.format(before="", meanwhile=""))]
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


def test_what_events_cost_is_measured_once_unless_it_cannot_be_read(tmp_path: Path, both_ways: str) -> None:
    build = " ".join(succeeded([both_ways, "-c", "import sys; print(sys.version)"]).stdout.split())
    values = "\n".join(["1e-7"] * 5)
    damaged = ["", "garbage", f"{build}\n1e-7", f"{build}\n{values}\n1e-7", f"another\n{values}"]
    damaged += [f"{build}\n{values.replace('1e-7', wrong, 1)}" for wrong in ("nan", "inf", "-1", "60")]
    done = run_capture(tmp_path, both_ways, script(tmp_path, COSTS.format(damaged=damaged)))
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


def test_processes_read_the_agent_s_code_from_one_file_of_their_own_user(
    tmp_path: Path, each_way: str
) -> None:
    """A child that finds none, or a damaged one, reads the modules; what the file says is what is run."""
    done = run_capture(tmp_path, each_way, script(tmp_path, CODE))
    assert done.stdout == "True True [False, False, False, True]\n", done.stderr
    assert [calls(process).get("leaf", 0) for process in done.run.processes[1:4]] == [1] * 3
