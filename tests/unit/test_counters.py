"""From what the sampler saw, and what agents recorded, to counters of processes: each thing counted once."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture import counters, gpu, machines, process_tree
from profkit.capture.agent.machine import refaulted
from profkit.capture.agent.process_facts import read_stat
from profkit.capture.meters import Meters
from profkit.capture.process_tree import ProcessTree
from profkit.capture.record_types import Record
from profkit.capture.watched_processes import WatchedThread
from profkit.model import Host, Machine, Notice, Process, Profile, Thread
from profkit.model.pauses import Pause
from tests import records
from tests.builders import Row, profile
from tests.records import SECOND, launch, read_thread, sampled, seen, thread
from tests.requirements import imported

HERE = Host(name="here", cpus=4)


def record(pid: int, state: str = "exited", begin: float = 0.0, end: float = 10.0, **fields: Any) -> Record:
    argv, tids = ["program", str(pid)], [pid + 900]
    return records.record(
        pid=pid, state=state, begin_perf=begin, perf=end, argv=argv, agent_tids=tids, **fields
    )


def profiled(pid: int, run_s: float, wait_s: float = 0.0, **fields: Any) -> Process:
    main = Thread(Profile.empty(), pid, "MainThread", run_s, wait_s)
    return Process(pid=pid, cpu_s=run_s, run_queue_wait_s=wait_s, threads=(main,), exit="exited", **fields)


def attached(
    *watched: dict[str, Any], of: Sequence[tuple[Record, Process]] = (), **facts: Any
) -> list[Process]:
    """The processes of records with what the sampler saw, and those that it alone saw."""
    known, processes = [record for record, _ in of], [process for _, process in of]
    return counters.attach(sampled(*watched), launch(**facts), known, processes, HERE)


def test_the_greater_of_two_readings_is_the_later_one() -> None:
    watched = seen(10, thread(10, 1.5, 0.75), thread(11, 0.5, 0.25), thread(910, 9.0, 9.0))
    (after,) = attached(watched, of=[(record(10), profiled(10, 2.0, 0.5))])
    main, ended = after.threads
    assert (main.run_s, main.run_queue_wait_s, main.name) == (2.0, 0.75, "MainThread")
    assert (ended.tid, ended.run_s, ended.name) == (11, 0.5, "t11")
    # The agent's own thread is not the target's, in nothing.
    assert after.run_queue_wait_s == 1.0
    assert after.cpu_s == 2.0
    assert set(after.samples.tid.tolist()) == {10, 11}
    assert after.peak_threads == 2


def test_an_exec_divides_what_the_kernel_counts_through() -> None:
    before = record(10, "replaced", 0.0, 4.0), profiled(10, 3.0, 0.5, read_bytes=100, page_faults=7)
    after = record(10, "exited", 4.0, 9.0), profiled(10, 5.0, 0.75, read_bytes=150, page_faults=9)
    main, ended = thread(10, 4.5, 0.7, times=(1.0, 3.0, 5.0, 8.0)), thread(12, 0.25, times=(2.0, 3.0))
    first, second = attached(seen(10, main, ended), of=[before, after])
    assert (first.cpu_s, second.cpu_s) == (3.0, 2.0)
    assert (second.read_bytes, second.page_faults) == (50, 2)
    assert (first.threads[0].run_s, second.threads[0].run_s) == (3.0, 2.0)
    assert second.run_queue_wait_s == 0.25
    assert [t.tid for t in first.threads] == [10, 12]
    assert [t.tid for t in second.threads] == [10]
    assert (first.samples.time_ns < 4 * SECOND).all()
    assert second.samples.time_ns.tolist() == [5 * SECOND, 8 * SECOND]
    assert second.samples.run_ns.tolist() == [1.125 * SECOND, 2.25 * SECOND], "it has run so long since"


def test_without_a_record_the_target_itself_is_the_main_process() -> None:
    root, child = seen(10, thread(10, 1.0)), seen(20, thread(21, 0.5), thread(20, 0.25))
    facts = {"wall_s": 9.5, "exit_status": 137, "killed": True}
    main, other = attached(root, child, **facts)
    assert (main.role, main.exit, main.wall_s, main.profiled) == ("main", "killed", 9.5, False)
    assert (other.role, other.exit, other.wall_s) == ("child", "ended", 8.0)
    assert [t.tid for t in other.threads] == [20, 21], "the main thread comes first"
    assert other.cpu_s == 0.75
    beside = attached(root, of=[(record(30), profiled(30, 1.0))], **facts)
    assert [process.role for process in beside] == ["main", "child"]


def test_a_process_that_the_collector_saw_too_is_one_and_another_with_its_number_another() -> None:
    of_collector = Process(pid=20, role="child", exit="unknown", profiled=False)
    (found,) = counters.attach(sampled(seen(20, thread(20, 1.0))), launch(), [], [of_collector], HERE)
    assert (found.cpu_s, found.role) == (1.0, "child")
    for watched, known in ((seen(10, born=78), record(10)), (seen(10), record(10, boot="other"))):
        found = attached(watched, of=[(known, profiled(10, 1.0))])
        assert [process.profiled for process in found] == [True, False]


def test_of_many_threads_those_that_ran_most_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MOST_LISTED", 2)
    crowd = [thread(10 + i, float(i), 1.0) for i in range(5)]
    (process,) = attached(seen(10, *crowd, folded=[7, SECOND, SECOND]))
    assert [t.tid for t in process.threads] == [14, 13, None]
    assert process.threads[2].name == "(10 more threads)"
    assert process.threads[2].run_s == 1.0 + 0 + 1 + 2
    assert process.run_queue_wait_s == 6.0


def test_the_machine_knows_what_nobody_saw() -> None:
    machine = Machine(tree_cpu_s=3.0)
    assert counters.unseen(machine, [profiled(1, 2.0)]) == Notice("cpu-unseen", "", {"cpu_s": 1.0})
    assert counters.unseen(machine, [profiled(1, 2.95)]) is None
    assert counters.unseen(Machine(), []) is None


def test_children_of_processes_that_the_target_does_not_wait_for() -> None:
    """A server (2) with two workers; it waited for 3 s of CPU time, of which 1.5 s were seen."""
    found = [record(1, children_s=0.1), record(2, children_s=3.0), record(3), record(4)]
    workers = profiled(3, 0.8, parent=2), profiled(4, 0.7, parent=2)
    processes = [profiled(1, 0.5), profiled(2, 0.1, parent=1), *workers]

    def tree(machine: Machine | None, found: Sequence[Record] = found) -> float | None:
        machine = counters.with_orphans(machine, found, processes)
        return None if machine is None else machine.tree_cpu_s

    assert tree(Machine(tree_cpu_s=0.6)) == pytest.approx(0.5 + 0.1 + 3.0)
    assert tree(Machine(tree_cpu_s=4.0)) == 4.0, "the target has waited for all of them"
    # What a process waited for contains what its children waited for.
    above = [record(1, children_s=3.2), *found[1:]]
    assert tree(Machine(tree_cpu_s=0.6), above) == pytest.approx(0.5 + 3.2)
    assert tree(Machine(tree_cpu_s=0.6), [record(pid) for pid in (1, 2, 3, 4)]) == 0.6
    assert tree(Machine()) is tree(None) is None


def test_a_program_between_two_processes_counts_once() -> None:
    """As the shell of ``subprocess.run(…, shell=True)``: only the sampler saw it, after those that have records."""
    found = [record(1, children_s=5.0), record(3)]
    shell = Process(pid=2, parent=1, cpu_s=0.0, profiled=False)
    processes = [profiled(1, 0.5), profiled(3, 5.0, parent=2), shell]
    machine = Machine(tree_cpu_s=5.5)
    assert counters.with_orphans(machine, found, processes) == machine


def test_a_damaged_file_of_samples_costs_only_the_samples(tmp_path: Path) -> None:
    assert counters.read_sampled(tmp_path) == (None, [])
    (tmp_path / "sampler.samples").write_bytes(b"\xff\x00")
    found, said = counters.read_sampled(tmp_path)
    assert found is None
    assert [notice.code for notice in said] == ["samples-unreadable"]


def test_machines_of_other_hosts() -> None:
    def at(time_s: float, busy_s: float) -> dict[str, float]:
        return {"time_s": time_s, "busy_s": busy_s}

    there = {"boot": "elsewhere", "host": "node2", "cpus": 8, "quota_cpus": 2.0}
    found_there = [
        records.record(**there, machine=[at(0, 10), at(5, 20)]),
        records.record(**there, machine=[at(0, 10), at(9, 30)]),
        records.record(boot="boot", host="here"),
    ]
    own = Machine(wall_s=10.0)
    found = machines.by_host(own, HERE, found_there)
    assert found["here"] is own
    assert (found["node2"].wall_s, found["node2"].busy_s, found["node2"].quota_cpus) == (9.0, 20.0, 2.0)
    assert machines.by_host(own, HERE, found_there[2:]) == {}


@pytest.mark.parametrize(
    ("readings", "asleep", "waited"),
    [
        # As Linux 6.18 counted a thread that slept for 4.5 s.
        ([(0.0, 0.1, 0.1), (5.0, 0.1, 0.1), (5.2, 0.2, 5.0)], 4.5, 5.0 - (5.0 + 4.5 - 5.2)),
        # It was never seen asleep: one long wait, counted at its end.
        ([(0.0, 0.1, 0.1), (5.0, 0.1, 0.1), (5.2, 0.2, 5.0)], 0.2, 5.0),
        # It slept, and later it waited.
        ([(0.0, 0.1, 0.1), (4.0, 0.1, 0.1), (9.0, 0.2, 5.0)], 3.9, 5.0),
        # It was not seen from the begin on.
        ([(4.0, 0.1, 0.1), (9.0, 0.2, 0.5)], 8.0, 0.5),
    ],
)
def test_a_sleeping_thread_does_not_wait_in_the_run_queue(
    readings: list[tuple[float, float, float]], asleep: float, waited: float
) -> None:
    counted = readings[-1][2]
    functions = profile([Row("a.py", 1, "f", 1, asleep + counted, wait=counted)])
    main = Thread(replace(functions, blocked=np.array([asleep])), 10, "MainThread", 0.2, counted)
    main = replace(main, pauses=(Pause(0, "pipe", asleep, 100), Pause(0, "stopped", 5.0, 1)))
    process = replace(profiled(10, 0.2, counted), threads=(main,))
    (found,) = attached(seen(10, read_thread(10, *readings)), of=[(record(10), process)])
    (after,) = found.threads
    assert (after.run_queue_wait_s, found.run_queue_wait_s) == pytest.approx((waited, waited))
    # What functions waited for longer was sleep.
    assert after.profile.wait[0] == pytest.approx(waited)
    assert after.profile.wait[0] + after.profile.blocked[0] == pytest.approx(asleep + counted)


def test_the_series_completes_the_machine() -> None:
    seen_there = sampled(
        time_ns=[0, SECOND, 2 * SECOND],
        columns={
            "runnable": [1.0, 9.0, math.nan],
            "busy_s": [0.0, 1.0, 2.0],
            "periods": [math.nan, 0.0, 50.0],
            "throttled_periods": [math.nan, 0.0, 20.0],
            "throttled_s": [math.nan, 0.0, 0.5],
        },
    )
    readings = [{"time_s": 0.0, "runnable": 2}, {"time_s": 2.0, "runnable": 3}]
    found = machines.of_run(launch(readings=readings, tree_cpu_s=1.5), seen_there, HERE)
    assert (found.peak_runnable, found.tree_cpu_s, found.wall_s) == (9, 1.5, 2.0)
    assert (found.throttled_periods, found.periods, found.throttled_s) == (20, 50, 0.5)
    killed = machines.of_run(launch(), seen_there, HERE)
    assert (killed.wall_s, killed.busy_s, killed.peak_runnable) == (2.0, 2.0, 9)
    assert machines.of_run(launch(), None, HERE) is None


def test_rows_are_written_where_something_changes_and_thinned_but_for_their_ends() -> None:
    watched = WatchedThread(1)
    for at, run in ((1, 10), (2, 10), (3, 10), (4, 30), (5, 40)):
        watched.note(at, run, 0, 1)
    # The last reading before a change stands, or a straight line would spread the change over the idle time.
    assert watched.rows.tolist() == [1, 10, 0, 3, 10, 0, 4, 30, 0, 5, 40, 0]
    for at in range(6, 103):
        watched.note(at, 10 * at, 0, 1)
    assert watched.thin() == 51
    times = watched.rows.tolist()[::3]
    assert (times[0], times[-1]) == (1, 102)
    assert times == sorted(set(times))


def test_peaks_survive_the_thinning() -> None:
    meters = Meters(os.getpid())
    for at in range(101):
        meters.read(at, 1, 77 if at == 33 else 2, ())
    meters.thin()
    assert max(meters.columns["threads"]) == 77
    assert {len(meters), *map(len, meters.columns.values())} == {51}
    if "busy_s" in meters.columns:
        assert list(meters.columns["busy_s"]) == sorted(meters.columns["busy_s"])
    meters.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_the_tree_of_a_process_is_found_and_its_end_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "MOST_ROWS", 16)
    script = "import subprocess\nsubprocess.Popen(['sleep', '30'])\nwhile True:\n    pass"
    tree, deadline = None, time.monotonic() + 20
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as busy:
        try:
            tree = ProcessTree(busy.pid, "NO=SUCH")
            # A reading is a row whenever it has run since the last, and there is room for sixteen.
            while (tree.counts() != (2, 2) or not tree.thinned) and time.monotonic() < deadline:
                time.sleep(0.002)
                tree.read()
            found = {one["pid"]: one for one in tree.as_records()}
            assert (tree.counts(), tree.thinned > 0) == ((2, 2), True)
            assert found[busy.pid]["command"][0] == sys.executable
            assert len(found[busy.pid]["threads"][0]["rows"]) // 24 <= 17
        finally:
            os.killpg(busy.pid, 9)
    tree.read(final=True)
    (ended,) = (one for one in tree.as_records() if one["pid"] == busy.pid)
    assert not ended["alive"]
    assert ended["threads"][0]["run_ns"] > 0
    tree.close()


#: Its child executes the words behind it when a line comes in; it does not wait for its child.
FORKS = """
import os, sys, time
if os.fork() == 0:
    print(flush=True)
    sys.stdin.readline()
    os.execvp(sys.argv[1], sys.argv[1:])
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize(
    ("executed", "known"), [(["sleep", "30"], ["sleep", "30"]), (["sleep", "0"], ["sleep"])]
)
def test_a_process_seen_between_fork_and_exec_has_the_command_that_it_executed(
    executed: list[str], known: list[str]
) -> None:
    """Of a program that has ended, and that its parent has not waited for, the kernel has only the name."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, *executed], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        parent.stdout.readline()
        tree = ProcessTree(parent.pid, "NO=SUCH")
        try:
            tree.read()
            (child,) = (record for record in tree.as_records() if record["parent"] == parent.pid)
            assert child["command"][0] == sys.executable
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.01)
                name, fields = read_stat(f"/proc/{child['pid']}/stat")
                if name == "sleep" and fields[0] == (b"Z" if executed[1] == "0" else b"S"):
                    break
            tree.read()
            (child,) = (record for record in tree.as_records() if record["parent"] == parent.pid)
            assert child["command"] == known
            assert [thread["name"] for thread in child["threads"]] == ["sleep"]
        finally:
            for record in tree.as_records():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record["pid"], 9)
            tree.close()


def shown(
    proc: Path, pid: int, parent: int = 1, group: int = 0, session: int = 0, threads: Sequence[int] = ()
) -> None:
    """Write what a kernel without schedstat shows of a process with these threads beside its main one."""
    places = [proc / str(pid), *(proc / str(pid) / "task" / str(tid) for tid in (pid, *threads))]
    ids = f"S {parent} {group or pid} {session or pid}"
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "stat").write_text(f"{pid} (odd) name) {ids}{' 0' * 7} 150 50{' 0' * 6} 9000{' 0' * 20}\n")
        (place / "status").write_text("Name:\todd\nvoluntary_ctxt_switches:\t7\n")
    (proc / str(pid) / "cmdline").write_bytes(b"odd\0--flag\0")


#: A number that Linux gives no process.
ROOT = 1 << 23


@pytest.mark.parametrize(("running", "inside"), [(False, True), (True, False)])
def test_what_a_shell_started_beside_a_process_that_runs_is_not_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool, inside: bool
) -> None:
    """The processes of a pipe are one group, and all of them children of the shell."""
    shell, beside, child = ROOT - 1, ROOT + 1, ROOT + 2
    shown(tmp_path, ROOT, shell, ROOT, shell)
    shown(tmp_path, beside, shell, ROOT, shell)
    shown(tmp_path, child, ROOT, ROOT, shell)
    monkeypatch.setattr(process_tree, "_PROC", str(tmp_path))
    tree = ProcessTree(ROOT, "NO=SUCH", running=running)
    tree.read(final=True)
    assert (ROOT in tree, beside in tree, child in tree) == (True, inside, True)


def test_a_reused_pid_founds_no_group_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child leads a group; after its end, an unrelated process with the same PID leads another."""
    number, daemon = ROOT + 1, ROOT + 2
    shown(tmp_path, ROOT)
    shown(tmp_path, number, ROOT)
    monkeypatch.setattr(process_tree, "_PROC", str(tmp_path))
    tree = ProcessTree(ROOT, "NO=SUCH")
    tree.read(final=True)
    assert number in tree
    shown(tmp_path, daemon, group=number)
    shutil.rmtree(tmp_path / str(number))
    tree.read(final=True)
    assert (number in tree, daemon in tree) == (False, True), "its group outlives it"
    shutil.rmtree(tmp_path / str(daemon))
    tree.read(final=True)
    shown(tmp_path, number)
    tree.read(final=True)
    assert tree.counts() == (1, 1)


def test_threads_that_are_too_many_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "_PROC", str(tmp_path))
    monkeypatch.setattr(process_tree, "MOST_THREADS", 1)
    shown(tmp_path, ROOT)
    tree = ProcessTree(ROOT, "NO=SUCH")
    tree.read(final=True)
    shown(tmp_path, ROOT, threads=(ROOT + 1, ROOT + 2, ROOT + 3))
    for _ in range(3):
        tree.read(final=True)
    shutil.rmtree(tmp_path / str(ROOT) / "task" / str(ROOT + 1))
    tree.read(final=True)
    assert (tree.counts(), tree.unfollowed_threads) == ((1, 1), 3)


def test_a_kernel_without_schedstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in gVisor: the files that are there are read, and what is missing is not taken for zero."""
    shown(tmp_path, 4242)
    monkeypatch.setattr(process_tree, "_PROC", str(tmp_path))
    tree = ProcessTree(4242, "NO=SUCH")
    tree.read(final=True)
    assert tree.has_schedstat is False
    (process,) = counters.attach(sampled(*tree.as_records(), root=4242), launch(), [], [], HERE)
    (thread,) = process.threads
    assert (process.command, process.cpu_s) == (("odd", "--flag"), 2.0)
    assert (process.run_queue_wait_s, process.samples) == (None, None)
    assert (thread.run_s, thread.run_queue_wait_s, thread.user_s, thread.system_s) == (None, None, 1.5, 0.5)
    assert (thread.voluntary_switches, thread.involuntary_switches) == (7, None)


def test_gpus_that_nvml_does_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_DEVICE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = gpu.Gpus()
    assert found.notes == [{"code": "gpu-package-missing"}]
    assert found.read(0, ()) == {}
    found.close()


def test_a_driver_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = imported("pynvml")
    monkeypatch.setattr(gpu, "_DEVICE", str(tmp_path))
    found = gpu.Gpus()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        assert found.notes[0]["code"] == "gpu-not-sampled"
        assert found.notes[0]["subject"]
        assert found.read(0, ()) == {}
    else:
        values = found.read(10**9, ())
        assert 0 <= values["gpu_utilisation"] <= 1
        assert found.read(10**9 + 1, ()) == {}, "NVML averages over longer than that"
    found.close()


@pytest.mark.parametrize(
    "stat",
    [
        "anon 7\nfile 8\nworkingset_refault_anon 1\nworkingset_refault_file 2\nworkingset_activate_file 9\n",
        "workingset_refault_file 0\ntotal_workingset_refault_anon 1\ntotal_workingset_refault_file 2\n",
    ],
)
def test_memory_that_was_needed_again_in_both_versions_of_cgroups(stat: str) -> None:
    assert refaulted(stat) == {"refaulted_bytes": 3 * os.sysconf("SC_PAGE_SIZE")}
