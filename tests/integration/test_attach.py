"""``profkit attach``: running programs, looked at for a while and then left as they were."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.pyspy import sampler_command
from profkit.capture.running import read_running
from profkit.formats import load_run
from profkit.model import Process, Run
from tests.integration.capturing import (
    ROOT,
    calls,
    captured,
    codes,
    column,
    ended,
    environment,
    in_process,
    names,
    profkit,
    profkit_command,
    script,
    started,
    state,
    wait_until,
)
from tests.interpreters import interpreter
from tests.requirements import require
from tests.shared import succeeded

#: Two workers count their calls of `leaf`; one more is started in every round. Worked before, if told so.
POOL = """
import multiprocessing, os, sys, time
def leaf(n): return sum(range(n))
def task(n):
    for _ in range(50): leaf(4000)
def one_more():
    leaf(10)
    os._exit(0)
def feed(pool):
    for number, _ in enumerate(pool.imap_unordered(task, range(10**9))):
        if number % 100 == 0:
            child = os.fork()
            if child == 0: one_more()
            os.waitpid(child, 0)
def before(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: leaf(1000)
if __name__ == "__main__":
    before(float(sys.argv[1]) if sys.argv[1:] else 0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("ready", flush=True)
        feed(pool)
"""

#: Works a little, and says what can be seen of a tool in it when it is asked.
QUIET = """
import atexit, json, os, signal, sys, threading, time

def step(): return sum(range(200))
def look():
    files = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            files[number] = os.readlink("/proc/self/fd/" + number)
        except OSError:
            pass
    print(json.dumps({
        "files": files,
        "tools": [sys.monitoring.get_tool(place) for place in range(6)],
        "threads": [threading.active_count(), len(os.listdir("/proc/self/task"))],
        "at exit": atexit._ncallbacks(),
        "modules": sorted(sys.modules),
        "variables": sorted(os.environ),
        "path": sys.path,
        "functions": [sys.getprofile(), sys.gettrace()],
        "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }), flush=True)
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
print("ready", flush=True)
while True:
    for _ in range(200): step()
    time.sleep(0.002)
    if asked:
        asked.clear()
        look()
"""


@contextmanager
def running(directory: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program, wait until it says that it is ready, and end it with all that it has started."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with (directory / "stderr").open("w") as errors:
        process = subprocess.Popen(command, cwd=directory, env=environment(), stderr=errors, **streams)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def attach(directory: Path, pid: int, *options: str, seconds: float = 1.0, status: int = 0) -> str:
    """Attach, which must end so; return what is said of it."""
    words = ["attach", str(pid), "--duration", str(seconds), "-o", "attached.prof", *options]
    done = profkit(directory, *words, status=status, timeout=60)
    assert done.stdout == ""
    return done.stderr


def attached(directory: Path, pid: int, seconds: float = 1.0) -> Run:
    attach(directory, pid, seconds=seconds)
    assert not list(directory.glob(".attached*")), "the spool directory, or the lock, was left behind"
    return load_run(directory / "attached.prof")


def begin(directory: Path, pid: int) -> subprocess.Popen[str]:
    words = ("attach", str(pid), "--duration", "600", "-o", "attached.prof")
    look = started(directory, *words, start_new_session=True)
    wait_until(lambda: list(directory.glob(".attached.prof.spool-*/*.traced")), "it is not traced")
    return look


def workers(run: Run) -> list[Process]:
    return [p for p in run.processes if any("task" in names(thread.profile) for thread in p.threads)]


def clock(pid: int) -> float:
    """Return the CPU seconds of a process."""
    return time.clock_gettime(~pid << 3 | 2)


def left_scripts(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"profkit-attach-{pid}-*"))


def tiers(run: Run) -> list[str]:
    return [tier.kind for process in run.processes[:1] for tier in process.tiers]


CALLS_MUCH = """
import time
def leaf(): pass
print("ready", flush=True)
while True:
    for _ in range(100_000): leaf()
    time.sleep(0.001)
"""


def test_a_sampled_process_is_attached_to_again_when_the_first_has_ended(tmp_path: Path) -> None:
    """While it is sampled no profiler's place is taken that would tell the second one."""
    with running(tmp_path, interpreter("3.15"), script(tmp_path, CALLS_MUCH)) as process:
        words = ("attach", str(process.pid), "--duration", "600", "-o", "first.prof")
        with started(tmp_path, *words) as first:
            wait_until(lambda: list(tmp_path.glob(".first.prof.spool-*/*.traced")), "it is not traced")
            (spool,) = tmp_path.glob(".first.prof.spool-*")
            wait_until(lambda: tiers(read_running(spool)) == ["exact", "sampled"], "it is not sampled")
            second = attached(tmp_path, process.pid)
            first.send_signal(signal.SIGINT)
        for _ in range(10):  # the agent ends when the interpreter lets it run, which may be after the command
            third = attached(tmp_path, process.pid)
            if "attach-not-traced" not in codes(third):
                break
        assert process.poll() is None, "the target has ended"
    runs = load_run(tmp_path / "first.prof"), third
    assert [tiers(run) for run in runs] == [["exact", "sampled"]] * 2
    assert "attach-not-traced" in codes(second)
    assert "attach-not-traced" not in codes(third)


def test_a_tree_with_pool_workers_is_traced(tmp_path: Path) -> None:
    with running(tmp_path, interpreter("3.14"), script(tmp_path, POOL), "1.5") as process:
        run = attached(tmp_path, process.pid)
        assert process.poll() is None, "the target has ended"
        # Again, and it is no other program to profkit.
        again = attached(tmp_path, process.pid)
    main = run.processes[0]
    assert (main.pid, main.role, main.exit) == (process.pid, "main", "running")
    assert main.python.startswith("3.14")
    for one in (run, again):
        both = workers(one)
        assert [worker.role for worker in both] == ["worker"] * 2
        for worker in both:
            found = calls(worker)
            # Up to the call that was in progress at either end.
            assert 50 * (found["task"] - 2) <= found["leaf"] <= 50 * (found["task"] + 2)
            assert found["<built-in method builtins.sum>"] >= found["leaf"] - 1
    assert run.manifest.command[-2].endswith("program.py")
    assert codes(run) == ["attached"]
    # Of the counters nothing is from before: the main process had used 1.5 s of CPU by then.
    assert main.cpu_s < run.manifest.wall_s * len(main.threads)
    assert main.threads[0].run_s <= run.manifest.wall_s
    assert main.run_queue_wait_s is not None
    # Who was forked meanwhile is in it, and has what it did.
    forked = [p for p in run.processes if calls(p).get("one_more")]
    assert forked
    assert all(calls(p)["leaf"] == 1 for p in forked)
    assert not left_scripts(process.pid)


def test_nothing_is_left_in_the_target(tmp_path: Path) -> None:
    with running(tmp_path, interpreter("3.15"), script(tmp_path, QUIET)) as process:

        def seen() -> dict[str, object]:
            process.send_signal(signal.SIGUSR1)
            found: dict[str, object] = json.loads(process.stdout.readline())
            return found

        before = seen()
        for _ in range(2):
            run = attached(tmp_path, process.pid)
            assert "step" in calls(run.processes[0])  # sampled on a busy machine: then calls may be unknown
            # A process that gets no CPU for some seconds takes the agent back later.
            deadline = time.monotonic() + 30
            while (now := seen()) != before and time.monotonic() < deadline:
                time.sleep(0.1)
            assert now == before
    assert (tmp_path / "stderr").read_text() == ""


def test_forks_while_the_agent_leaves_warn_of_no_thread(tmp_path: Path) -> None:
    program = """
import os
print("ready", flush=True)
while True:
    if os.fork() == 0: os._exit(0)
    os.wait()
"""
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        for _ in range(3):
            run = attached(tmp_path, process.pid, seconds=0.2)
            assert run.processes[0].pid == process.pid
            assert codes(run) == ["attached"]
    assert (tmp_path / "stderr").read_text() == ""


def test_threads_with_little_stack_go_on(tmp_path: Path) -> None:
    program = """
import threading, time
def work():
    while True: time.sleep(0.001), sum(range(1000))
threading.stack_size(1 << 16)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
work()
"""
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        attached(tmp_path, process.pid, seconds=0.5)
        left = f"/proc/{process.pid}/task"
        wait_until(lambda: len(os.listdir(left)) <= 5, "the agent has not left")
        assert len(os.listdir(left)) == 5
    assert (tmp_path / "stderr").read_text() == ""


#: Two threads that never come back to what called them.
LOOPS = """
import threading, time
def aside():
    total = 0
    while True:
        for number in range(20000): total += number
        time.sleep(0.001)
def inner():
    total = 0
    while True:
        for number in range(20000): total += number
        leaf()
def leaf(): time.sleep(0.0005)
def main():
    threading.Thread(target=aside, name="aside", daemon=True).start()
    print("ready", flush=True)
    inner()
main()
"""


def test_calls_that_were_in_progress_are_there_in_every_thread(tmp_path: Path) -> None:
    with running(tmp_path, interpreter("3.14"), script(tmp_path, LOOPS)) as process:
        run = attached(tmp_path, process.pid)
    threads = {thread.name: thread.profile for thread in run.processes[0].threads}
    for name, functions in (
        ("MainThread", ("<module>", "main", "inner", "leaf")),
        ("aside", ("run", "aside")),
    ):
        profile, found = threads[name], names(threads[name])
        for around, function in itertools.pairwise(functions):
            assert profile.cumtime[found.index(around)] >= profile.cumtime[found.index(function)] > 0
        assert profile.tottime[found.index(functions[-1] if name == "aside" else "inner")] > 0
        # Nothing of ours is among them.
        assert not {"_profkit", "begin", "_trace"} & set(found)


def test_a_main_thread_that_is_in_one_call_is_said_and_not_traced_later(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        wait_until(lambda: state(process.pid) == "S")
        run = attached(tmp_path, process.pid, seconds=0.5)
        assert codes(run) == ["attached", "attach-not-reached"]
        assert run.processes[0].pid == process.pid
        assert len(left_scripts(process.pid)) == 1
        process.send_signal(signal.SIGUSR1)  # a handler in Python: the process comes to the script
        wait_until(lambda: not left_scripts(process.pid), "what was left behind is not removed")
        assert process.poll() is None
        assert "_tracer" not in Path(f"/proc/{process.pid}/maps").read_text(), "it was traced afterwards"
    assert (tmp_path / "stderr").read_text() == ""


def test_a_target_that_ends_meanwhile_keeps_its_functions(tmp_path: Path) -> None:
    program = QUIET.replace("while True:", "while not os.path.exists('end'):")
    with running(tmp_path, interpreter("3.15"), script(tmp_path, program)) as process:
        look = begin(tmp_path, process.pid)
        time.sleep(0.3)
        (tmp_path / "end").touch()
        ended(look)
        assert process.wait(10) == 0
    run = load_run(tmp_path / "attached.prof")
    (main,) = run.processes
    assert calls(main)["step"] > 100
    assert main.exit == "exited"
    assert run.manifest.wall_s < 600


def test_what_ran_before_does_not_count_as_waiting_in_the_last_call(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "def step(): return sum(range(100))\n"
        "def long(): return sum(range(10**13))\n"
        "while time.process_time() < 4: step()\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists('go'): step()\n"
        "print('long', flush=True)\n"
        "long()\n"
    )
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        look = begin(tmp_path, process.pid)
        (tmp_path / "go").touch()
        assert process.stdout.readline() == "long\n"
        until = clock(process.pid) + 2
        wait_until(lambda: clock(process.pid) > until)
        process.kill()
        ended(look)
    (main,) = load_run(tmp_path / "attached.prof").processes
    assert column(main, "long", "cumtime") > 1.5
    assert column(main, "long", "cumblocked") < 0.5 * column(main, "long", "cumtime")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_and_what_was_seen_is_written(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, interpreter("3.14"), script(tmp_path, QUIET)) as process:
        look = begin(tmp_path, process.pid)
        time.sleep(0.3)
        os.killpg(look.pid, number)
        ended(look)
        assert process.poll() is None
        assert "_tracer" in Path(f"/proc/{process.pid}/maps").read_text()
    run = load_run(tmp_path / "attached.prof")
    assert calls(run.processes[0])["step"] > 10


@pytest.mark.alone
def test_where_tracing_is_not_possible_stacks_are_sampled(tmp_path: Path) -> None:
    require("py-spy", sampler_command() is not None, "py-spy is not installed")
    with running(tmp_path, sys.executable, script(tmp_path, POOL)) as process:
        run = attached(tmp_path, process.pid, seconds=2.0)
        assert process.poll() is None
    if sys.version_info >= (3, 14):
        pytest.skip("this interpreter can be traced")
    assert codes(run)[:4] == ["attached", "attach-not-traced", "attach-sampled", "foreign-samples"]
    both = workers(run)
    assert len(both) == 2
    for worker in both:
        thread = next(thread for thread in worker.threads if thread.tid == worker.pid)
        assert thread.name == "MainThread"
        profile, functions = thread.profile, names(thread.profile)
        assert {"leaf", "task"} <= set(functions)
        assert functions.count("leaf") == 1, "lines are folded"
        leaf = functions.index("leaf")
        assert int(profile.line[leaf]) == POOL[: POOL.index("def leaf")].count("\n") + 1
        # py-spy does not stop the program: a few stacks are without their callers.
        assert profile.cumtime[functions.index("task")] >= 0.5 * profile.cumtime[leaf] > 0
        # The kernel's counters are of the same thread.
        assert thread.run_s > 0
    # Against a capture of the same program: by share, and only so.
    captured(tmp_path, sys.executable, script(tmp_path, POOL.replace("10**9", "600")))
    done = in_process(tmp_path, "diff", "run.prof", "attached.prof", "--format", "json")
    found = json.loads(done.stdout)
    assert found["by_share"]
    (row,) = (row for row in found["functions"] if row["name"] == "leaf")
    assert row["baseline"] is not None
    assert row["candidate"] is not None


#: One thread calls, and the others wait.
WAITING = """
import threading, time
def leaf(): return 1
def wait(): time.sleep(600)
for _ in range(30): threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
while True:
    for _ in range(1000): leaf()
    time.sleep(0.001)
"""


def test_a_sampled_target_is_never_stopped_and_what_is_not_seen_is_said(tmp_path: Path) -> None:
    """A thread that is stopped has the state t or T; one that could be has a tracer."""
    require("py-spy", sampler_command() is not None, "py-spy is not installed")
    with running(tmp_path, sys.executable, script(tmp_path, WAITING)) as process:
        words = ("--duration", "600", "--functions", "sample", "-o", "attached.prof")
        seen: set[str] = set()
        for seconds in (1.5, 6.0, 24.0):  # a sampler that gets no CPU begins late
            look = started(tmp_path, "attach", str(process.pid), *words)
            first, second = look.stderr.readline(), look.stderr.readline()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
                    lines = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
                    seen |= {lines["State"].split()[0], "tracer" * (lines["TracerPid"].strip() != "0")}
            look.send_signal(signal.SIGINT)
            said = ended(look)[1]
            run = load_run(tmp_path / "attached.prof")
            if any("wait" in names(thread.profile) for thread in run.processes[0].threads):
                break
    assert "what the program did before is not recorded" in first
    assert "not how often they are called or what they wait for" in second
    assert "wrote attached.prof" in said
    assert seen <= {"R", "S", "D", ""}
    (main,) = run.processes
    assert sum("wait" in names(thread.profile) for thread in main.threads) == 30
    assert "<module>" in names(main.threads[0].profile)
    (sampled,) = (notice for notice in run.warnings if notice.code == "attach-sampled")
    assert 0 < sampled.numbers["rate"] <= 100


def test_threads_of_older_pythons_keep_their_counters(tmp_path: Path) -> None:
    """py-spy knows the addresses of these threads, and not the kernel's numbers of them."""
    require("py-spy", sampler_command() is not None, "py-spy is not installed")
    with running(tmp_path, interpreter("3.10"), script(tmp_path, WAITING)) as process:
        run = attached(tmp_path, process.pid, seconds=2.0)
    threads = run.processes[0].threads
    assert len(threads) == 31
    assert sum("wait" in names(thread.profile) and thread.run_s is not None for thread in threads) == 30


def not_traced(run: Run) -> list[str]:
    return [notice.subject for notice in run.warnings if notice.code == "attach-not-traced"]


def test_a_program_that_gave_up_root_is_left_to_its_user(tmp_path: Path) -> None:
    """What another user could write to, root does not write to, read or remove."""
    require("root", os.geteuid() == 0, "only root can be two users")
    program = QUIET.replace("asked = []", "asked = []; os.setgid(65534); os.setuid(65534)")
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        run = attached(tmp_path, process.pid)
    (problem,) = not_traced(run)
    assert problem == (
        f"it is another user's: attach as that user (sudo -u '#65534' profkit attach {process.pid})"
    )
    assert (run.processes[0].cpu_s or 0.0) > 0


ANOTHER = """
import _thread, concurrent.interpreters as them
_thread.start_new_thread(them.create().exec, ("while True: sum(range(9))",))
"""


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (
            ANOTHER,
            "Python ran the agent in the latest of its interpreters, not in the main one",
        ),
        ("import os; os.path.exists = None", "the agent could not begin in it"),
    ],
    ids=["interpreters", "os"],
)
def test_why_a_process_could_not_be_traced_is_said(tmp_path: Path, first: str, problem: str) -> None:
    program = f"{first}\nprint('ready', flush=True)\nwhile True: sum(range(100))\n"
    with running(tmp_path, interpreter("3.14"), script(tmp_path, program)) as process:
        assert not_traced(attached(tmp_path, process.pid, seconds=0.5)) == [problem]


def test_without_a_sampler_there_are_counters_and_it_is_said(tmp_path: Path) -> None:
    """py-spy is looked for beside the interpreter and on the path; here it is in neither."""
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.executable = '/nowhere/python'; "
        "from profkit.cli import main; main()"
    )
    with running(tmp_path, sys.executable, script(tmp_path, POOL)) as process:
        words = ["attach", str(process.pid), "--duration", "1", "-o", "attached.prof"]
        done = succeeded([sys.executable, "-c", start, *words], tmp_path, env=environment(PATH="/usr/sbin"))
    assert done.stderr.count("py-spy is not installed (pip install 'profkit[attach]'): counters only") == 1
    run = load_run(tmp_path / "attached.prof")
    assert len(run.processes) >= 3
    assert not any(process.profiled for process in run.processes)
    assert sum(process.cpu_s or 0.0 for process in run.processes) > 0
    assert run.machine is not None


def test_a_program_that_is_no_python_has_counters(tmp_path: Path) -> None:
    with running(tmp_path, "bash", "-c", "(while :; do :; done) & echo ready; wait") as process:
        run = attached(tmp_path, process.pid)
    assert codes(run) == ["attached", "attach-not-python"]
    root, busy = run.processes
    assert (root.pid, busy.parent) == (process.pid, process.pid)
    assert busy.cpu_s > 0


def test_what_may_not_be_looked_at_has_counters(tmp_path: Path) -> None:
    """A process of another user's, by a root that has lost a right."""
    setpriv = shutil.which("setpriv")
    require("root", os.geteuid() == 0 and setpriv is not None, "only root can be two users")
    as_nobody = [str(setpriv), "--reuid", "65534", "--clear-groups", "--"]
    without = [str(setpriv), "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", "--"]
    with running(tmp_path, *as_nobody, "bash", "-c", "echo ready; while :; do :; done") as process:
        words = ["attach", str(process.pid), "--duration", "0.5", "-o", "attached.prof"]
        done = succeeded([*without, *profkit_command(*words)], tmp_path, env=environment())
    run = load_run(tmp_path / "attached.prof")
    assert "attach-not-traced" in codes(run)
    assert "access to it was denied" in done.stderr
    assert (run.processes[0].cpu_s or 0.0) > 0


def test_whose_shell_it_is_is_not_looked_at(tmp_path: Path) -> None:
    """profkit is a child of the process that it looks at."""
    words = shlex.join(profkit_command("attach", "$$", "--duration", "1", "-o", "attached.prof", "-q"))
    program = f"(while :; do :; done) >&- 2>&- & {words.replace(shlex.quote('$$'), '$$')}; kill $!"
    assert succeeded(["bash", "-c", program], tmp_path, env=environment(), timeout=60).stderr == ""
    run = load_run(tmp_path / "attached.prof")
    shell, busy = run.processes
    assert (shell.role, busy.parent) == ("main", shell.pid)


def test_a_thread_is_no_process(tmp_path: Path) -> None:
    program = (
        "import threading, time\n"
        "thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)\n"
        "thread.start()\n"
        "print('ready', flush=True)\n"
        "print(thread.native_id, flush=True)\n"
        "time.sleep(60)\n"
    )
    with running(tmp_path, sys.executable, script(tmp_path, program)) as process:
        said = attach(tmp_path, int(process.stdout.readline()), status=2)
    assert f"it is a thread; name its process, {process.pid}" in said


@pytest.mark.parametrize(
    ("which", "said"),
    [("gone", "no such process"), ("zombie", "has ended"), ("own place", "no such directory")],
)
def test_what_cannot_be_attached_to_is_one_line(tmp_path: Path, which: str, said: str) -> None:
    output = tmp_path / "no" / "run.prof" if which == "own place" else tmp_path / "attached.prof"
    with subprocess.Popen(["sleep", "60"] if which == "own place" else ["true"]) as process:
        if which == "gone":
            process.wait()
        elif which == "zombie":
            wait_until(lambda: state(process.pid) == "Z")
        printed = attach(tmp_path, process.pid, "-o", str(output), status=2)
        process.kill()
    *_, line = (line for line in printed.splitlines() if line.startswith("Error") or "profkit" in line)
    assert said in line
    assert "Traceback" not in printed
    assert not list(tmp_path.glob("*.prof"))
