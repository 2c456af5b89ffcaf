"""What is said of lost data is true however a process ends: real programs, each ended in its own way."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.formats import load_run
from profkit.model import Notice, Run
from tests.integration.capturing import (
    calls,
    captured,
    codes,
    column,
    environment,
    in_process,
    on_a_small_disk,
    on_another_machine,
    profkit_command,
    run_capture,
    script,
    started,
    wait_until,
    works,
)
from tests.requirements import require
from tests.shared import finished, succeeded

#: Works for half a second, so that there are records, then does what is tried and works again in another function.
WORKS = """
import ctypes, itertools, os, resource, signal, sys, time
def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))
def late(seconds):
    work(seconds)
work(0.3)
"""

#: A single call of C that holds the interpreter, so that no thread of Python runs, until a signal ends the process.
STUCK = WORKS + "ctypes.CDLL(None).alarm(1)\nsum(itertools.repeat(1))\n"


def said(run: Run, *codes: str) -> Notice:
    """The one notice of a run; of these codes, if given."""
    (notice,) = run.warnings
    assert not codes or notice.code in codes
    return notice


def root() -> None:
    require("root", os.geteuid() == 0, "only root may change the user or the root directory")


def test_a_call_that_holds_the_interpreter_when_the_process_is_killed(tmp_path: Path) -> None:
    done = run_capture(tmp_path, sys.executable, script(tmp_path, STUCK), status=-signal.SIGALRM)
    (process,) = done.run.processes
    notice = said(done.run)
    assert (process.exit, notice.code, notice.subject) == ("killed", "killed-by-signal", "SIGALRM")
    assert notice.numbers.keys() == {"kept", "pids"}
    # The timer was set before the call, which has all of the time up to the end.
    assert 0.9 < column(process, "<built-in method builtins.sum>", "tottime") < process.wall_s
    # Of the 0.3 s and the 1 s nothing is lost; before the first function the interpreter starts, busy machine or not.
    assert 1.2 < process.threads[0].profile.total < process.wall_s
    assert "killed by SIGALRM; its functions are complete\n" in done.stderr


def test_of_a_sampled_process_that_is_killed_a_last_native_call_may_be_missing(tmp_path: Path) -> None:
    words = (sys.executable, script(tmp_path, STUCK))
    done = run_capture(tmp_path, *words, options=("--sampled",), status=-signal.SIGALRM)
    assert said(done.run).numbers.keys() == {"kept", "pids", "sampled"}
    assert (
        "its functions are complete, except for a native call that held the GIL at the end\n" in done.stderr
    )


def test_without_a_tracer_nothing_is_said_to_be_lost(tmp_path: Path) -> None:
    env = environment(PROFKIT_NO_NATIVE="1")
    run = captured(tmp_path, sys.executable, script(tmp_path, STUCK), env=env, status=-signal.SIGALRM)
    (process,) = run.processes
    notices = {notice.code: notice for notice in run.warnings}
    assert notices.keys() == {"killed-by-signal", "tracer-missing", "nvtx-missing"}
    assert "lost_s" not in notices["killed-by-signal"].numbers
    assert process.exit == "killed"
    assert (process.cpu_s or 0.0) > 0


@pytest.mark.parametrize(
    "act",
    [
        "os.setuid(65534)",
        "os.wait() and sys.exit() if os.fork() else os.setuid(65534)",
        "os.chroot('jail')",
        "try:\n    while True: os.dup(0)\nexcept OSError: pass",
    ],
    ids=["setuid", "setuid of a child at once", "chroot", "descriptors"],
)
def test_what_keeps_a_process_from_its_path_loses_nothing(tmp_path: Path, act: str) -> None:
    if "dup" not in act:
        root()
    (tmp_path / "jail").mkdir()
    text = f"{WORKS}resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))\n{act}\nlate(0.2)\n"
    run = captured(tmp_path, sys.executable, script(tmp_path, text))
    assert [process.exit for process in run.processes] == ["exited"] * (1 + ("fork" in act))
    assert calls(run.processes[-1])["late"] == 1
    assert [thread.open_calls for thread in run.processes[-1].threads] == [()]
    assert not run.warnings


def test_no_room_for_any_function_is_said(tmp_path: Path) -> None:
    name = script(tmp_path, WORKS + "late(0)\n")
    env = environment(PYTHONDONTWRITEBYTECODE="1")  # it would be cut as well
    done = run_capture(tmp_path, "bash", "-c", f"ulimit -f 20; '{sys.executable}' '{name}'", env=env)
    assert "all of them are missing" in done.stderr
    assert not any(calls(process) for process in done.run.processes)
    (notice,) = (notice for notice in done.run.warnings if notice.code == "tables-full")
    assert notice.numbers["functions"] == 0


def test_bytecode_of_the_agent_that_was_cut_is_made_again(tmp_path: Path) -> None:
    name, kept = script(tmp_path, WORKS + "late(0)\n"), tmp_path / "bytecode"
    env = environment(PYTHONPYCACHEPREFIX=str(kept))
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):
        run = captured(tmp_path, sys.executable, name, env=env, fresh=True)
        assert calls(run.processes[0])["late"] == 1
        # Others of the agent are the command's as well, and Python itself reads those.
        modules = [*kept.rglob("capture/agent/loader.*.pyc"), *kept.rglob("capture/agent/session.*.pyc")]
        assert len(modules) == 2
        for path in modules:
            path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize("size", [0, 1000])
def test_a_limit_on_the_size_of_files(tmp_path: Path, size: int) -> None:
    """The end is known although nothing can be written: a symbolic link needs no space, nor does what is mapped."""
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    before = limit + WORKS if size == 0 else WORKS + "late(0)\n" + limit
    text = f"import resource\n{before}late(0.3)\nsys.exit(3)\n"
    # Through a shell, so that the exit code is not known from outside.
    shell = "ulimit -f 0; " if size == 0 else ""
    command = f"{shell}'{sys.executable}' '{script(tmp_path, text)}'; test $? = 3"
    run = captured(tmp_path, "bash", "-c", command)
    if size:
        assert set(codes(run)) <= {"tables-full"}
        assert calls(next(p for p in run.processes if p.profiled))["late"] == 2
        return
    assert said(run, "process-unrecorded").subject == os.strerror(27)


def test_a_process_that_is_killed_before_its_first_record(tmp_path: Path) -> None:
    """It was profiled: not the environment is to blame."""
    code = "import os; os.kill(os.getpid(), 9)"
    done = run_capture(
        tmp_path, "bash", "-c", f"ulimit -f 0; exec '{sys.executable}' -c '{code}'", status=-signal.SIGKILL
    )
    (process,) = done.run.processes
    assert (process.exit, process.profiled) == ("killed", False)
    assert said(done.run) == Notice("process-unrecorded", "", {"pids": (process.pid,)})
    assert "environment" not in done.stderr


@pytest.mark.parametrize("words", [("-I",), ("-E",), ("-S",)])
def test_a_python_without_an_agent_is_not_said_to_have_begun(tmp_path: Path, words: tuple[str, ...]) -> None:
    run = captured(tmp_path, sys.executable, *words, "-c", "pass")
    assert run.processes[0].exit == "exited"
    assert said(run) == Notice("no-record")


def test_a_disk_that_was_full_when_the_process_began(tmp_path: Path) -> None:
    """Nothing could be mapped there: the tables are in memory, and written once there is room."""
    disk, mounted = on_a_small_disk(tmp_path, "1m")
    path = script(tmp_path, "import os\nos.remove('filler')\n" + WORKS + "late(0.1)\n")
    fill = f"cat /dev/zero >filler 2>&-; '{sys.executable}' '{path}'"
    capture = profkit_command("capture", "--exact", "-o", "run.prof", "--", "sh", "-c", fill)
    succeeded([*mounted, f"cd {disk}; {shlex.join(capture)}; cp run.prof {tmp_path}"], env=environment())
    run = load_run(tmp_path / "run.prof")
    process = next(process for process in run.processes if process.profiled)
    assert calls(process)["late"] == 1
    assert process.exit == "exited"


def test_a_full_disk(tmp_path: Path) -> None:
    disk, mounted = on_a_small_disk(tmp_path, "1m")
    fill = (
        "try:\n"
        "    with open('filler', 'wb', buffering=0) as file:\n"
        "        while True: file.write(b'x' * 4096)\n"
        "except OSError: pass\n"
    )
    path = script(tmp_path, WORKS + fill + "late(1)\nsys.exit(3)\n")
    capture = profkit_command("capture", "-o", "run.prof", "--", sys.executable, path)
    join = profkit_command("merge", "-o", str(tmp_path / "run.prof"))
    text = f"cd {disk}; set +e; {shlex.join(capture)}; rm filler; {shlex.join(join)} .run.prof.spool-*; echo merge $?"
    done = finished([*mounted, text], env=environment())
    assert done.stdout.endswith("merge 0\n"), done.stderr
    assert "No space left on device" in done.stderr
    run = load_run(tmp_path / "run.prof")
    assert run.manifest.exit_status == 3, "what the launcher knew at the end is lost"
    assert run.manifest.wall_s > 1
    found = {notice.code: notice for notice in run.warnings}
    full = found.pop("tables-full", None)
    assert set(found) == {"samples-not-saved"}
    assert {notice.subject for notice in found.values()} == {os.strerror(28)}
    assert run.processes[0].exit == "exited"
    assert calls(run.processes[0])["work"] >= 1
    assert "late" in calls(run.processes[0]) or full, "what is missing is said"


def test_an_exit_that_python_does_not_see(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, script(tmp_path, WORKS + "ctypes.CDLL(None)._exit(5)"), status=5)
    assert run.processes[0].exit == "exited"
    assert said(run, "exited-unrecorded").numbers["status"] == 5


LATE = """
import atexit, sys, time
def leaf(i): return i
def late():
    begun = time.process_time()
    while time.process_time() - begun < 0.5:
        for i in range(1000): leaf(i)
    print(getattr(sys, "last_type", None))
atexit.register(late)
"""


def test_a_sampled_process_that_computes_at_its_end(tmp_path: Path, each_way: str) -> None:
    """Python 3.8 prints an exception, in the thread that looks, where a burst is asked for; that could crash it."""
    done = run_capture(tmp_path, each_way, "-c", LATE, options=("--sampled",))
    assert done.stdout.startswith("None\n")
    assert column(done.run.processes[0], "late", "cumtime") > 0.4


GIVES_UP_ITS_USER = """
import os
def leaf(): pass
def work():
    for _ in range(300): leaf()
def fork(then):
    pid = os.fork()
    if pid == 0:
        work()
        then()
        os._exit(0)
    os.waitpid(pid, 0)
os.setgid(65534)
os.setuid(65534)
fork(lambda: None)
fork(lambda: fork(lambda: None))
work()
"""


def test_forks_of_a_process_that_gave_up_its_user_are_said_to_be_lost(tmp_path: Path, each_way: str) -> None:
    """They may not write to the spool directory; what they fork themselves is lost as well."""
    root()
    run = captured(tmp_path, each_way, script(tmp_path, GIVES_UP_ITS_USER))
    assert calls(run.processes[0])["leaf"] == 300
    assert said(run, "forks-unrecorded").numbers["forks"] == 3
    assert (
        "3 processes that it forked could record nothing"
        in in_process(tmp_path, "show", "run.prof", "--full").stdout
    )


#: The agent's next look comes while it ends, as it may in any process.
LOOKS_LATE = """
import gc, os, sys
class Last:
    def __del__(self, listdir=os.listdir, write=os.write): write(1, b"%d" % len(listdir("/proc/self/task")))
sys.last = Last()
(session,) = (one for one in gc.get_objects() if type(one).__name__ == "Session")
leave = session._windows.leave
session._windows.leave = lambda: (session._look(), leave())
"""


def test_no_thread_of_ours_outlives_the_interpreter(tmp_path: Path, each_way: str) -> None:
    """Python aborts where a thread gets a state after the last one was deleted."""
    done = run_capture(tmp_path, each_way, script(tmp_path, LOOKS_LATE))
    assert done.stdout == "1", done.stderr
    assert done.run.warnings == ()


def test_killed_after_an_exec_that_failed(tmp_path: Path) -> None:
    """Its record said that another program took its place, before that was known to be wrong."""
    failing = "try: os.execv('/nonexistent', ['x'])\nexcept OSError: pass\n"
    text = WORKS + failing + "time.sleep(1)\nos.kill(os.getpid(), 9)"
    run = captured(tmp_path, sys.executable, script(tmp_path, text), status=-signal.SIGKILL)
    assert [p.exit for p in run.processes] == ["killed"]
    said(run, "killed-by-signal")


def test_a_child_that_is_stopped_is_still_there(tmp_path: Path) -> None:
    text = WORKS + "os.kill(os.getpid(), signal.SIGSTOP)"
    wait = "until grep -q 'State:.T' /proc/$!/status; do sleep 0.05; done"
    start = f"'{sys.executable}' '{script(tmp_path, text)}' >/dev/null 2>&1 & echo $! > pid; {wait}"
    try:
        run = captured(tmp_path, "bash", "-c", start)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    (process,) = (p for p in run.processes if p.profiled)
    assert process.exit == "running"
    assert said(run, "process-running").numbers["pids"] == (process.pid,)


def test_a_process_with_a_number_of_its_own_namespace(tmp_path: Path) -> None:
    """It knows itself by another number than the one under which it is looked for here."""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    require("unshare", works(*apart, "true"), "this machine does not allow to make a PID namespace")
    path = script(tmp_path, WORKS + "open('ready', 'w').close()\nwork(60)\n")
    wait = "until test -e ready; do sleep 0.05; done; sleep 0.2"
    start = f"{' '.join(apart)} '{sys.executable}' '{path}' >/dev/null 2>&1 & echo $! > pid; {wait}"
    try:
        run = captured(tmp_path, "bash", "-c", start)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    (process,) = (p for p in run.processes if p.profiled)
    assert (process.pid, process.exit) == (1, "running")
    said(run, "process-running")


def start(directory: Path, text: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a capture; return it and its spool, when there is a record in it."""
    words = ("capture", "-o", "run.prof", "--", sys.executable, script(directory, text))
    nothing = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    launcher = started(directory, *words, **nothing, start_new_session=True)
    wait_until(lambda: list(directory.glob(".run.prof.spool-*/*.record")), "no record was written")
    (spool,) = directory.glob(".run.prof.spool-*")
    return launcher, spool


def merged(directory: Path, spool: Path, *before: str) -> Run:
    command = [*before, *profkit_command("merge", str(spool), "-o", "merged.prof")]
    succeeded(command, directory, env=environment())
    return load_run(directory / "merged.prof")


def test_a_capture_that_still_runs_is_not_said_to_be_killed(tmp_path: Path) -> None:
    launcher, spool = start(tmp_path, "import time; time.sleep(60)")
    try:
        run = merged(tmp_path, spool)
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
    assert [p.exit for p in run.processes] == ["running"]
    assert set(codes(run)) == {"capture-running", "process-running"}


def test_a_spool_that_is_merged_on_another_machine(tmp_path: Path) -> None:
    """Whether a process runs on a machine that is not this one cannot be seen from here."""
    elsewhere = on_another_machine(tmp_path)
    launcher, spool = start(tmp_path, "import time; time.sleep(60)")
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
    # As if the launcher had been killed before the sampler wrote anything down.
    (spool / "sampler.samples").unlink(missing_ok=True)
    there = merged(tmp_path, spool, *elsewhere)
    assert [p.exit for p in there.processes] == ["unknown"]
    assert set(codes(there)) == {"capture-unfinished", "end-unknown"}
    here = merged(tmp_path, spool)
    assert [p.exit for p in here.processes] == ["ended"]
    assert set(codes(here)) == {"capture-unfinished", "ended-unrecorded"}
