"""Watching a target from outside: threads, processes without an agent, the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from profkit.formats import load_run
from profkit.model import Machine, Process, Run
from tests.integration.capturing import (
    PROGRAMS,
    captured,
    codes,
    environment,
    in_process,
    limited_cgroup,
    on_another_machine,
    profkit_command,
    removed,
    run_capture,
    script,
    small_cgroup,
    wait_until,
    works,
)
from tests.integration.tracing import compiled
from tests.requirements import require
from tests.shared import check_schema


def requires_schedstat() -> None:
    require("schedstat", os.path.exists("/proc/self/schedstat"), "this kernel has no schedstat")


#: Words that run a command where it sees no process of others.
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture(scope="session")
def busy_threads(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``busy_threads THREADS CPU_SECONDS``: a C program that prints what it used, and leaves its threads idle."""
    requires_schedstat()
    return compiled(tmp_path_factory.mktemp("bin") / "busy_threads", PROGRAMS / "busy_threads.c", "-O1")


def show_run(directory: Path, *words: str) -> str:
    return in_process(directory, "show", "run.prof", *words).stdout


def last_rows(process: Process) -> dict[int, tuple[int, int]]:
    samples = process.samples
    ends = np.flatnonzero(np.append(np.diff(samples.tid) != 0, True))
    return {int(samples.tid[i]): (int(samples.run_ns[i]), int(samples.wait_ns[i])) for i in ends}


def watched(run: Run, name: str) -> Process:
    """The one process that was not profiled and whose program has that name."""
    others = (p for p in run.processes if not p.profiled and p.command)
    (found,) = (p for p in others if os.path.basename(p.command[0]) == name)
    return found


def test_threads_of_another_language_are_counted_as_the_kernel_does(
    tmp_path: Path, busy_threads: str
) -> None:
    done = run_capture(tmp_path, busy_threads, "4", "0.2")
    used, run = float(done.stdout), done.run
    (process,) = run.processes
    assert (process.role, process.exit, process.profiled) == ("main", "exited", False)
    assert len(process.threads) == process.peak_threads == 5
    assert all(len(thread.profile) == 0 for thread in process.threads)
    workers = [thread for thread in process.threads if thread.tid != process.pid]
    assert all(0.2 <= thread.run_s <= used for thread in workers if thread.run_s is not None)
    # Its threads did nothing after the number was printed, so that the last look saw all of it.
    assert process.cpu_s == pytest.approx(used, abs=0.05)
    rows = last_rows(process)
    for thread in process.threads:
        assert rows[thread.tid] == (round(thread.run_s * 1e9), round(thread.run_queue_wait_s * 1e9))
        assert None not in (thread.user_s, thread.voluntary_switches)
    waits = [thread.run_queue_wait_s for thread in process.threads]
    assert process.run_queue_wait_s == pytest.approx(sum(waits))
    assert run.machine.tree_cpu_s == pytest.approx(used, abs=0.05)
    assert run.series.columns["threads"].max() == 5
    assert run.series.columns["processes"].max() == 1


def test_a_profiled_program_has_samples_without_the_agents_own_thread(tmp_path: Path) -> None:
    requires_schedstat()
    program = (
        "import time\nend = time.perf_counter() + 1\nwhile time.perf_counter() < end: sum(range(2000))\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program)
    (process,) = run.processes
    assert process.profiled
    assert set(process.samples.tid.tolist()) == {process.pid}
    assert process.peak_threads == 1
    (thread,) = process.threads
    assert thread.run_s >= last_rows(process)[process.pid or 0][0] / 1e9
    assert None not in (thread.user_s, thread.involuntary_switches)
    # On the clock of NVTX and perf_counter: within the run.
    assert (process.samples.time_ns >= run.manifest.clocks["monotonic"] * 1e9).all()
    assert run.manifest.sampler["samples"] >= 2
    assert run.manifest.sampler["cpu_s"] > 0


def test_threads_that_ended_before_the_process_did(tmp_path: Path) -> None:
    requires_schedstat()
    program = (
        "import threading, time\n"
        "def f():\n"
        "    end = time.thread_time() + 0.3\n"
        "    while time.thread_time() < end: pass\n"
        "    time.sleep(0.5)\n"
        "t = threading.Thread(target=f); t.start(); t.join()\n"
    )
    (process,) = captured(tmp_path, sys.executable, "-c", program).processes
    (ended,) = (thread for thread in process.threads if thread.name.startswith("Thread-"))
    # An agent's last record does not know it any more: its counters are the sampler's.
    assert 0.3 <= ended.run_s <= (process.cpu_s or 0.0)


def test_workers_of_a_server_that_nobody_waits_for(tmp_path: Path) -> None:
    """They are killed between two samples; the server, which waits for them, ends after the program."""
    (tmp_path / "pools.py").write_text(
        "import multiprocessing, os, time\n"
        "def work(_):\n"
        "    end = time.process_time() + 0.05\n"
        "    while time.process_time() < end: pass\n"
        "    return os.getpid(), time.process_time()\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('forkserver')\n"
        "    used = {}\n"
        "    for _ in range(4):\n"
        "        with context.Pool(2) as pool: used.update(sorted(pool.map(work, range(6), 1)))\n"
        "    print(sum(used.values()))\n"
    )
    for _ in range(3):
        done = run_capture(tmp_path, sys.executable, "pools.py")
        (main, *others) = done.run.processes
        server = next(p for p in others if p.parent == main.pid and any(q.parent == p.pid for q in others))
        if server.exit == "exited":  # not where a busy machine lets it end too late
            break
    assert done.run.machine.tree_cpu_s >= float(done.stdout) - 0.02


def test_a_storm_of_short_children(tmp_path: Path) -> None:
    done = run_capture(tmp_path, "bash", "-c", "for i in $(seq 300); do /bin/true; done; echo done")
    assert done.stdout == "done\n"
    run = done.run
    assert run.processes[0].command[0] == "bash"
    seen = sum(process.cpu_s or 0.0 for process in run.processes)
    # What was too short to be seen is known in sum.
    assert run.machine.tree_cpu_s >= seen - 0.05
    if run.machine.tree_cpu_s - seen > 0.2:
        assert "cpu-unseen" in {note.code for note in run.manifest.sampler["notes"]}


@pytest.mark.parametrize(("clear", "isolated"), [("env -i", ""), ("", "-I")], ids=["env -i", "-I"])
def test_python_without_an_agent(tmp_path: Path, clear: str, isolated: str) -> None:
    program = (
        "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(0.4)"
    )
    run = captured(tmp_path, "bash", "-c", f"{clear} '{sys.executable}' {isolated} -c '{program}'; true")
    # No agent was in it, but bash is its parent.
    child = watched(run, os.path.basename(sys.executable))
    assert child.role == "child"
    assert child.parent == watched(run, "bash").pid
    assert child.cpu_s == pytest.approx(0.3, abs=0.25)
    assert child.exit == "ended"


def test_a_daemon_that_left_its_parents(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv('/bin/sleep', ['sleep', '0.8'])\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(0.5)\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program)
    daemon = watched(run, "sleep")
    assert daemon.exit in ("running", "ended")
    assert daemon.role == "child"


def test_what_an_exec_continues_is_counted_once(tmp_path: Path, busy_threads: str) -> None:
    program = (
        "import os, time\n"
        "while time.process_time() < 0.4: pass\n"
        f"os.execv({busy_threads!r}, ['busy_threads', '1', '0.2'])\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program)
    first, second = run.processes
    assert (first.profiled, first.exit) == (True, "replaced")
    assert (second.profiled, second.exit, second.command[0]) == (False, "exited", "busy_threads")
    assert first.pid == second.pid
    assert (first.cpu_s or 0) >= 0.4
    assert (first.cpu_s or 0) + (second.cpu_s or 0) == pytest.approx(run.machine.tree_cpu_s, abs=0.05)
    assert len(second.threads) == 2
    assert second.threads[0].run_s < 0.2, "the first image's time is in the second's main thread"
    assert first.samples.time_ns.max() <= second.samples.time_ns.min()


def test_python_that_c_code_executes_in_its_place_is_counted_once(tmp_path: Path) -> None:
    program = (
        "import ctypes, os, sys, time\n"
        "name, after = sys.executable.encode(), 'sum(range(2 * 10**7))'\n"
        "while time.process_time() < 0.4: pass\n"
        "ctypes.CDLL(None).execv(name, (ctypes.c_char_p * 4)(name, b'-c', after.encode(), None))\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program)
    assert sorted(process.exit for process in run.processes) == ["exited", "replaced"]
    assert codes(run) == ["replaced-unrecorded"]
    assert sum(p.cpu_s or 0 for p in run.processes) == pytest.approx(run.machine.tree_cpu_s, abs=0.05)


def test_show_tells_the_machine_and_who_watched(tmp_path: Path) -> None:
    captured(
        tmp_path,
        "bash",
        "-c",
        f"'{sys.executable}' -c 'import time; sum(range(10**6)); time.sleep(0.3)'; sleep 0.4",
    )

    text = show_run(tmp_path, "--format", "md")
    assert "runnable thread" in text
    assert "of one CPU" in text
    assert "sleep 0.4" in text
    shown = json.loads(show_run(tmp_path, "--format", "json"))
    check_schema(shown, "show-2.json")
    assert shown["machine"]["peak_runnable"] >= 1
    assert shown["manifest"]["sampler"]["samples"] >= 2
    assert {process["profiled"] for process in shown["processes"]} == {True, False}
    assert all(process["peak_threads"] >= 1 for process in shown["processes"])


def test_a_quota_of_the_targets_own_cgroup(tmp_path: Path) -> None:
    program = "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end: pass"
    with limited_cgroup(20_000, 4_000) as group:
        join = f"echo $$ > {group}/cgroup.procs; exec '{sys.executable}' -c '{program}'"
        run = captured(tmp_path, "bash", "-c", join)
    assert run.machine.quota_cpus == 0.2
    # The launcher is not in that group.
    assert 0 < run.machine.throttled_periods <= run.machine.periods
    assert run.machine.throttled_s > 0


#: Reads a file three times, which was not in memory before, when the sampler has seen in which cgroup it is.
READS = """
import os, time
time.sleep(0.5)
file = os.open("data", os.O_RDONLY)
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
for turn in range(8):
    for at in range(0, os.fstat(file).st_size, 1 << 20):
        os.pread(file, 1 << 20, at)
    time.sleep(0.2)  # on a busy machine the sampler may follow it into its cgroup a second later
"""


def test_what_a_limit_of_memory_had_dropped_is_read_again(tmp_path: Path) -> None:
    kept = tmp_path.stat().st_dev != Path("/dev/shm").stat().st_dev
    require("disk", kept, "temporary files are kept in memory here")
    (tmp_path / "data").write_bytes(b"x" * 100_000_000)
    with small_cgroup(64 << 20) as group:
        join = f"echo $$ > {group}/cgroup.procs; exec '{sys.executable}' '{script(tmp_path, READS)}'"
        limited = captured(tmp_path, "sh", "-c", join)
    enough = captured(tmp_path, sys.executable, script(tmp_path, READS))
    assert limited.machine.memory_limit_bytes == 64 << 20
    assert enough.machine.memory_limit_bytes is None or enough.machine.memory_limit_bytes > 64 << 20
    # All of it twice at the least, but for what was kept.
    assert limited.machine.refaulted_bytes > 100_000_000
    assert limited.series.columns["refaulted_bytes"][-1] == limited.machine.refaulted_bytes


def test_a_process_on_another_machine_reads_its_own_counters(tmp_path: Path) -> None:
    program = "import time; time.sleep(0.5)"
    run = captured(tmp_path, *on_another_machine(tmp_path), sys.executable, "-c", program)
    assert set(run.machines) == {run.manifest.host.name, "nodeb"}
    remote = run.machines["nodeb"]
    assert 0.4 <= remote.wall_s <= run.manifest.wall_s
    assert remote.busy_s is not None
    assert run.machines[run.manifest.host.name] == run.machine
    main = run.processes[0]
    assert (main.host.name, main.samples) == ("nodeb", None)


def test_ranks_that_capture_themselves_watch_their_own_tree(tmp_path: Path) -> None:
    for rank in (0, 1):
        job = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "job1"}
        run_capture(tmp_path, "bash", "-c", "sleep 0.4; true", env=environment(**job))
    files = [f"run-rank{rank}.prof" for rank in (0, 1)]
    in_process(tmp_path, "merge", *files, "-o", "job.prof")
    runs = [load_run(tmp_path / name) for name in files]
    joined = load_run(tmp_path / "job.prof")
    assert len(joined.processes) == sum(len(run.processes) for run in runs) == 4
    assert joined.series.time_ns.tolist() == runs[0].series.time_ns.tolist()
    assert joined.machines == {}
    costs = sum(run.manifest.sampler["cpu_s"] for run in runs)
    assert joined.manifest.sampler["cpu_s"] == pytest.approx(costs)
    assert all(process.samples is not None for process in joined.processes)
    used = sum(run.machine.tree_cpu_s for run in runs)
    assert joined.machine.tree_cpu_s == pytest.approx(used)


#: Calls itself ``nightly-backup`` and takes the CPU that it is told.
BACKUP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
with open("/proc/self/comm", "w") as file:
    file.write("nightly-backup")
print(flush=True)
while True:
    pass
"""
#: Computes on that CPU for 0.8 seconds of its own.
COMPUTES = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while time.process_time() < 0.8:
    sum(range(10_000))
"""


@pytest.fixture
def backup() -> Iterator[tuple[str, int]]:
    """A busy neighbour on one CPU: the numbers of the CPU and of the process."""
    requires_schedstat()
    cpu = str(min(os.sched_getaffinity(0)))
    with subprocess.Popen([sys.executable, "-c", BACKUP, cpu], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield cpu, process.pid
        process.kill()


def test_who_takes_the_cpus_is_named(tmp_path: Path, backup: tuple[str, int]) -> None:
    run = captured(tmp_path, sys.executable, "-c", COMPUTES, backup[0])
    found = run.machine.neighbours
    (neighbour,) = (one for one in found.listed if one.pid == backup[1])
    assert neighbour.name == "nightly-backup"
    assert neighbour.cores > 0
    assert neighbour.user
    assert found.queued_s > 0.3
    assert found.cores is not None
    shown = json.loads(show_run(tmp_path, "--format", "json"))
    check_schema(shown, "show-2.json")
    listed = {one["pid"]: one for one in shown["machine"]["neighbours"]["listed"]}
    assert listed[backup[1]]["name"] == "nightly-backup"
    assert "nightly-backup" in show_run(tmp_path, "--format", "md")


def captured_apart(directory: Path, cpu: str) -> Machine:
    """The machine as a capture sees it that sees no process of others."""
    command = profkit_command("capture", "-q", "-o", "run.prof", "--", sys.executable, "-c", COMPUTES, cpu)
    subprocess.run([*APART, *command], cwd=directory, env=environment(), check=True, timeout=60)
    return load_run(directory / "run.prof").machine


def test_neighbours_in_another_container_are_not_visible(tmp_path: Path, backup: tuple[str, int]) -> None:
    require("unshare", works(*APART, "true"), "this machine does not allow to make a PID namespace")
    machine = captured_apart(tmp_path, backup[0])
    assert machine.neighbours.all_visible is False
    assert "nightly-backup" not in {one.name for one in machine.neighbours.listed}
    assert (machine.neighbours.unseen_cores or 0.0) > 0
    assert "not visible from here" in " ".join(show_run(tmp_path, "--full").split())


def test_hidden_neighbours_are_known_by_their_cgroup(tmp_path: Path, backup: tuple[str, int]) -> None:
    """``hidepid``, or a container that sees the machine's cgroups: their CPU time is readable."""
    places = [Path("/sys/fs/cgroup", name) for name in ("cpu,cpuacct", "cpuacct", ".")]
    place = next(p for p in places if p.is_dir()) / f"profkit-test-{os.getpid()}.service"
    try:
        place.mkdir()
        (place / "cgroup.procs").write_text(str(backup[1]))
        subprocess.run([*APART, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        require("cgroup", False, f"no cgroup and no PID namespace can be made here: {error}")
    try:
        machine = captured_apart(tmp_path, backup[0])
        (hidden,) = (one for one in machine.neighbours.listed if one.group == place.name)
        assert (hidden.name, hidden.pid, hidden.user) == ("", None, "")
        assert hidden.cores > 0
        assert "(hidden processes)" in show_run(tmp_path, "--full")
    finally:
        os.kill(backup[1], signal.SIGKILL)  # a cgroup is removed when it is empty
        wait_until(lambda: removed(place))
