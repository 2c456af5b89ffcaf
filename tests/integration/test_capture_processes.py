"""Capturing whole process trees: every way of starting a child, and how its data come home."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.integration.capturing import calls, captured, codes, column, environment, run_capture, script
from tests.interpreters import BOTH_WAYS, interpreter, packages

#: Starts two children in the way that its argument names.
CHILDREN = """
import multiprocessing, sys, time
def child_work():
    end = time.perf_counter() + 0.15
    while time.perf_counter() < end:
        sum(range(500))
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=child_work) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
"""


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children(tmp_path: Path, way: str) -> None:
    run = captured(tmp_path, sys.executable, script(tmp_path, CHILDREN), way)
    workers = [p for p in run.processes if p.role == "worker"]
    assert len(workers) == 2
    for worker in workers:
        assert worker.exit == "exited"
        assert calls(worker)["child_work"] == 1
        assert column(worker, "child_work", "cumtime") >= 0.14
    main = run.processes[0]
    assert main.role == "main"
    assert "child_work" not in calls(main), "a child's calls are counted in its parent"
    assert {w.parent for w in workers} <= {p.pid for p in run.processes}
    files = [text for p in run.processes for thread in p.threads for text in thread.profile.strings]
    assert not [file for file in files if "profkit/capture" in file], "the agent's own functions"


def test_exec_keeps_what_the_first_image_did(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import os, sys\n"
        "exec(f'def {sys.argv[1]}(): pass\\n{sys.argv[1]}()')\n"
        "if sys.argv[1] == 'first': os.execv(sys.executable, [sys.executable, __file__, 'second'])\n",
    )
    second, first = captured(tmp_path, sys.executable, program, "first").processes
    assert (first.exit, second.exit) == ("replaced", "exited")
    assert first.pid == second.pid
    assert second.role == first.role == "main"
    assert (calls(first)["first"], calls(second)["second"]) == (1, 1)


def test_module_script_and_job(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "tool.py").write_text("def f():\n    return 1\n\nf()\n")
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable}\ndef g():\n    return 1\n\ng()\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    job = tmp_path / "job.sh"
    job.write_text(f"set -e\n'{sys.executable}' -m package.tool\n./script\n")
    run = captured(tmp_path, "bash", "job.sh")
    counted = {(calls(p).get("f", 0), calls(p).get("g", 0)) for p in run.processes if p.profiled}
    assert counted == {(1, 0), (0, 1)}
    assert run.manifest.command == ("bash", "job.sh")
    assert calls(captured(tmp_path, sys.executable, "-m", "package.tool").processes[0])["f"] == 1
    assert calls(captured(tmp_path, "./script").processes[0])["g"] == 1


def test_the_main_program_of_a_job_is_one_that_runs_much_longer(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").write_text("import time\ndef prepare():\n    time.sleep(0.1)\nprepare()\n")
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "def train():\n    time.sleep(2 + 3 * (time.time() - os.path.getmtime('begun')))\n"
        "train()\n"
    )
    (tmp_path / "job.sh").write_text(f"set -e\ntouch begun\nfor step; do '{sys.executable}' $step.py; done\n")
    for steps in (("prepare", "train"), ("train", "prepare"), ("prepare", "train", "prepare")):
        run = captured(tmp_path, "bash", "job.sh", *steps)
        assert [p.role for p in run.processes if p.profiled] == ["main", *["child"] * (len(steps) - 1)]
        assert calls(run.processes[0])["train"] == 1


#: The program itself is rank 0, and starts the others of its node.
LIGHTNING = """
import os, subprocess, sys
SIZE = 3
def train():
    return sum(i for i in range(200000))
others = []
if "LOCAL_RANK" not in os.environ:
    os.environ.update(NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(SIZE))
    others = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": str(rank)})
        for rank in range(1, SIZE)
    ]
train()
del os.environ["WORLD_SIZE"]
sys.exit(max((other.wait() for other in others), default=0))
"""


def test_ranks_that_the_first_of_them_starts(tmp_path: Path) -> None:
    """As Lightning does; they are known by what they were started with."""
    run = captured(tmp_path, sys.executable, script(tmp_path, LIGHTNING))
    assert run.processes[0].rank == 0, "viewers see rank 0"
    ranks = [p for p in run.processes if p.role == "rank"]
    assert [p.rank for p in ranks] == [0, 1, 2]
    assert all(calls(p)["train"] == 1 for p in ranks)
    assert ranks[1].parent == ranks[2].parent == ranks[0].pid


def test_ranks_of_two_steps_in_one_capture_are_said(tmp_path: Path) -> None:
    """A batch script with two commands of srun."""
    steps = "\n".join(
        f"SLURM_STEP_ID={step} SLURM_PROCID={rank} SLURM_NTASKS=2 {sys.executable} -c 'sum(range(1000))'"
        for step in (0, 1)
        for rank in (0, 1)
    )
    run = captured(tmp_path, "sh", "-c", steps, env=environment(SLURM_JOB_ID="7"))
    assert [p.rank for p in run.processes if p.role == "rank"] == [0, 0, 1, 1]
    assert [n.numbers["steps"] for n in run.warnings if n.code == "ranks-of-steps"] == [2]


def test_a_process_that_replaces_its_program_is_one_in_what_is_said(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import ctypes, os, sys\n"
        "if hasattr(sys, 'monitoring'): sys.monitoring.set_events(2, 0)\n"
        "ctypes.pythonapi.PyEval_SetProfile(None, None)\n"
        "more = int(sys.argv[1])\n"
        "if more: os.execv(sys.executable, [sys.executable, __file__, str(more - 1)])\n",
    )
    run = captured(tmp_path, sys.executable, program, "2")
    (said,) = (notice for notice in run.warnings if notice.code == "profile-function-replaced")
    assert said.numbers == {"pids": (run.processes[0].pid,)}


def test_child_that_outlives_the_target(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import os\n"
        "def leaf():\n"
        "    return sum(range(1000))\n"
        "for _ in range(100): leaf()\n"
        "open('begun', 'w').close()\n"
        "while not os.path.exists('end'): leaf()\n",
    )
    start = f"'{sys.executable}' {program} </dev/null >/dev/null 2>&1 &"
    try:
        run = captured(tmp_path, "bash", "-c", f"{start} until test -e begun; do sleep 0.05; done; sleep 0.5")
    finally:
        (tmp_path / "end").touch()
    (child,) = (p for p in run.processes if p.profiled)
    assert child.exit == "running"
    assert calls(child)["leaf"] > 10
    (running,) = run.warnings
    assert (running.code, running.numbers["pids"]) == ("process-running", (child.pid,))


@pytest.mark.alone
def test_forks_of_many_threads(tmp_path: Path, both_ways: str) -> None:
    """The agent's thread is stopped and started around each fork; here several threads do so at once."""
    program = script(
        tmp_path,
        "import os, threading\n"
        "def child(): os._exit(0)\n"
        "def forks():\n"
        "    for _ in range(8):\n"
        "        pid = os.fork()\n"
        "        if pid == 0: child()\n"
        "        os.waitpid(pid, 0)\n"
        "threads = [threading.Thread(target=forks) for _ in range(6)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n",
    )
    # From 3.12 on such a program is warned by Python itself.
    command = [both_ways, "-W", "ignore::DeprecationWarning", program]
    done = run_capture(tmp_path, *command, options=("--quiet",), timeout=30)
    assert done.stderr == ""
    run = done.run
    assert len(run.processes) == 49
    assert {p.exit for p in run.processes} == {"exited"}
    assert "snapshots-not-written" not in codes(run)
    assert run.manifest.wall_s < 1.9, "a fork waited for the agent's thread until its time was out"


#: What makes greenlets of threads: how, and the packages that it needs.
GREEN = {
    "gevent": ("from gevent import monkey; monkey.patch_all()", "greenlet", "zope.event", "zope.interface"),
    "eventlet": ("import eventlet; eventlet.monkey_patch()", "greenlet", "dnspython"),
}


@pytest.mark.parametrize(("library", "version"), [*zip(GREEN, BOTH_WAYS, strict=True)])
def test_greenlets_that_stand_for_threads_are_recorded_with_the_thread_that_runs_them(
    tmp_path: Path, library: str, version: str
) -> None:
    start, *needed = GREEN[library]
    program = script(
        tmp_path,
        f"{start}\n"
        "import threading, time\n"
        "def at_first(): time.sleep(0.01)\n"
        "def leaf(): pass\n"
        "def inside():\n"
        "    for _ in range(50): leaf()\n"
        "    time.sleep(0.01)\n"
        "    for _ in range(50): leaf()\n"
        "def at_last(): time.sleep(0.01)\n"
        "at_first()\n"
        "threads = [threading.Thread(target=inside) for _ in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "at_last()\n",
    )
    python = interpreter(version)
    env = environment(PYTHONPATH=str(packages(python, library, *needed)))
    # eventlet warns that it is deprecated.
    run = captured(tmp_path, python, "-W", "ignore", program, env=env)
    (main,) = (thread for thread in run.processes[0].threads if len(thread.profile))
    assert (main.name, main.open_calls) == ("MainThread", ())
    found = calls(run.processes[0])
    assert [found[name] for name in ("at_first", "inside", "leaf", "at_last")] == [1, 3, 300, 1]
    assert "profile-function-replaced" not in codes(run)


def test_exec_that_fails_leaves_the_targets_own_profiler_on(tmp_path: Path) -> None:
    program = (
        "import cProfile, os, pstats\n"
        "def after(): pass\n"
        "own = cProfile.Profile()\n"
        "own.enable()\n"
        "try: os.execv('/nonexistent', ['x'])\n"
        "except OSError: pass\n"
        "after()\n"
        "own.disable()\n"
        "print(sum(key[2] == 'after' for key in pstats.Stats(own).stats))\n"
    )
    assert run_capture(tmp_path, interpreter("3.11"), "-c", program).stdout == "1\n"


def test_a_title_that_a_process_gave_itself_is_its_command(tmp_path: Path) -> None:
    """As workers of Ray and of PostgreSQL do: the kernel shows zeros behind it."""
    script(tmp_path, "import setproctitle, time\nsetproctitle.setproctitle('ray::task')\ntime.sleep(0.3)\n")
    env = environment(PYTHONPATH=str(packages(sys.executable, "setproctitle")))
    words = [sys.executable, "program.py", *["an argument"] * 20]
    (process,) = (process for process in captured(tmp_path, *words, env=env).processes if process.profiled)
    assert process.command == ("ray::task",)


def test_path_entries_of_a_subclass_of_str(tmp_path: Path) -> None:
    program = "import sys\nclass P(str): pass\nsys.path.append(P('/lib'))\ndef f(): pass\nf()"
    run = captured(tmp_path, sys.executable, "-c", program)
    assert calls(run.processes[0])["f"] == 1
    assert run.processes[0].exit == "exited"


def test_target_that_stops_the_clock(tmp_path: Path) -> None:
    """Tests freeze time by replacing what the module `time` holds: the record must not be of that time."""
    program = "import time\nreal = time.sleep\ntime.time = time.perf_counter = lambda: 1e12\nreal(0.2)"
    run = captured(tmp_path, sys.executable, "-c", program)
    assert 0.2 <= run.processes[0].wall_s < 10


def test_target_that_profiles_itself_very_often(tmp_path: Path) -> None:
    program = "import cProfile\nfor _ in range(50):\n p = cProfile.Profile()\n p.enable()\n p.disable()\n"
    run = captured(tmp_path, sys.executable, "-c", program)
    (said,) = (notice for notice in run.warnings if notice.code == "own-cprofile")
    assert said.numbers["times"] == 50


#: Forks until the capture has put files of ended processes together, says how many, and forks a few more.
MANY_CHILDREN = """
import os
def child_work():
    return 1
def fork():
    pid = os.fork()
    if not pid:
        child_work()
        os._exit(0)
    os.waitpid(pid, 0)
spool = next(value for value in os.environ.values() if ".spool-" in value)
number = 0
while number < 5000 and not os.path.exists(os.path.join(spool, "ended.gathered")):
    fork()
    number += 1
for _ in range(3):
    fork()
print(number + 3)
"""


def test_files_of_ended_processes_are_put_together(tmp_path: Path) -> None:
    """A program that starts a process for each task must not fill the disk, and each process is in the run."""
    done = run_capture(tmp_path, sys.executable, script(tmp_path, MANY_CHILDREN))
    children = int(done.stdout)
    assert children < 5000, "nothing was put together"
    assert [calls(process)["child_work"] for process in done.run.processes[1:]] == [1] * children
    assert not done.run.warnings
