"""Who else ran while the target queued: found in /proc, summed up over repeats, told in a table."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.capture import neighbourhood as module
from profkit.capture.neighbourhood import Neighbours, group_of
from profkit.measure.side_neighbours import neighbours_of
from profkit.model import Machine, Neighbour, Run
from profkit.model import Neighbours as Found
from profkit.report.machine import neighbour_sections
from tests.requirements import require

#: ``NAME CORES``: calls itself so, and runs for that part of every 20 ms.
BUSY = """
import sys, time

name, cores = sys.argv[1], float(sys.argv[2])
with open("/proc/self/comm", "w") as file:
    file.write(name)
print(flush=True)
while True:
    begin, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.02 * cores:
        pass
    time.sleep(max(0.0, begin + 0.02 - time.monotonic()))
"""


@contextmanager
def running(*commands: tuple[str, ...]) -> Iterator[list[int]]:
    require("proc", os.path.exists("/proc/self/stat"), "no /proc")
    python = (sys.executable, "-S", "-c")
    started = [subprocess.Popen([*python, *command], stdout=subprocess.PIPE) for command in commands]
    try:
        for process in started:
            process.stdout.readline()
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def watched(seconds: float, *, queues: float = 1.0) -> Neighbours:
    """Follow for so long a target that queues for that part of the time, and runs no processes that are there."""
    watch = Neighbours(os.getpid())
    begin = time.monotonic()
    while (passed := time.monotonic() - begin) < seconds:
        watch.look((), queues * passed, 0.0, None)
        time.sleep(0.05)
    watch.look((), queues * passed, 0.0, None, final=True)
    return watch


@pytest.fixture(autouse=True)
def every_process_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs on this machine."""
    monkeypatch.setattr(module, "LISTED", 10_000)
    monkeypatch.setattr(module, "MANY", 10_000)


def test_neighbours_are_named_in_the_order_of_what_they_used() -> None:
    with running((BUSY, "big-one", "0.5"), (BUSY, "small-one", "0.1")) as pids:
        watch = watched(1.5)
        record = watch.as_record()
    big, small = (row for row in record["listed"] if row["pid"] in pids)
    assert (big["name"], small["name"]) == ("big-one", "small-one")
    assert big["cores"] > small["cores"] > 0.02
    assert (record["queued_s"], record["cores"]) == (pytest.approx(1.5, abs=0.5), None)
    assert record["cpu_s"] == watch.cpu_s > 0


def test_a_target_that_does_not_queue_has_no_neighbours_and_costs_nothing() -> None:
    watch = watched(0.3, queues=0.01)
    assert watch.as_record() is None
    assert watch.cpu_s == 0


def test_what_a_child_used_before_it_ended_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent's sum of its children holds what was counted as theirs already, and what they used long before."""
    monkeypatch.setattr(module, "LEAST_INTERVAL", 0.1)
    monkeypatch.setattr(module, "SHARE", 1e9)
    burn = "import time\nwhile time.thread_time() < 1: pass"
    runs = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {burn!r}])"
    ended = tmp_path / "ended"
    waits = f"{runs.replace(repr(burn), repr(runs))}; open({str(ended)!r}, 'w'); import time; time.sleep(60)"
    with running((f"print(flush=True); {waits}",)) as (top,):
        watch, begin = Neighbours(os.getpid()), time.monotonic()
        while not ended.exists() and time.monotonic() < begin + 50:
            watch.look((), time.monotonic() - begin, 0.0, None)
            time.sleep(0.02)
        assert ended.exists()
        time.sleep(module.LEAST_SPAN)
        watch.look((), time.monotonic() - begin, 0.0, None, final=True)
    record = watch.as_record()
    cores = [row["cores"] for row in record["listed"] if row["pid"] == top]
    assert sum(cores) * record["queued_s"] < 0.6


def test_many_alike_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 3)
    with running(*[(BUSY, "swarm", "0.1")] * 3):
        record = watched(1.2).as_record()
    (row,) = (row for row in record["listed"] if row["name"] == "swarm")
    assert (row["processes"], row["pid"]) == (3, None)


def test_processes_that_do_nothing_are_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_INTERVAL", 0.0)
    monkeypatch.setattr(module, "SHARE", 1e9)
    read: list[str] = []
    real = module.read_file

    def counted(path: str, size: int = 4096) -> bytes:
        read.append(path)
        return real(path, size)

    monkeypatch.setattr(module, "read_file", counted)
    with running((BUSY, "busy", "0.5"), ("print(flush=True); import time; time.sleep(60)",)) as (busy, idle):
        watched(1.0)
    often, seldom = (read.count(f"/proc/{pid}/stat") for pid in (busy, idle))
    assert often > 2 * seldom > 0


CONTAINER = "3fa9c1d2e4b5" * 5 + "6789"


@pytest.mark.parametrize(
    ("cgroups", "group"),
    [
        ("0::/", ""),
        ("0::/system.slice/nightly-backup.service", "nightly-backup.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        (f"0::/system.slice/docker-{CONTAINER}.scope", "docker 3fa9c1d2e4b5"),
        (f"4:memory:/docker/{CONTAINER}\n1:cpu:/", "docker 3fa9c1d2e4b5"),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope/container", "libpod 3fa9c1d2e4b5"),
        ("0::/lxc.payload.web/init.scope", "lxc web"),
        ("9:cpuacct:/slurm/uid_1001/job_4242/step_0", "job_4242"),
        ("", ""),
    ],
)
def test_what_a_process_belongs_to(cgroups: str, group: str) -> None:
    assert group_of(cgroups) == group


def run_beside(*found: Neighbour, cores: float | None = None, visible: bool = True) -> Run:
    return Run("run.prof", (), machine=Machine(neighbours=Found(1.0, found, cores, visible)))


def test_over_repeats_the_same_neighbour_is_one() -> None:
    job = [Neighbour("backup", 0.8, pid) for pid in (10, 20)]
    stays, other = Neighbour("indexer", 0.4, 5), Neighbour("indexer", 0.1, 6)
    found = neighbours_of([run_beside(job[0], stays, other, cores=1.5), run_beside(job[1], stays, cores=1.3)])
    assert [(one.name, one.pid, one.cores) for one in found.listed] == [
        ("backup", None, pytest.approx(0.8)),
        ("indexer", 5, pytest.approx(0.4)),
        ("indexer", 6, pytest.approx(0.05)),
    ]
    assert (found.queued_s, found.cores) == (2.0, pytest.approx(1.4))
    assert neighbours_of([Run("a.prof", ()), run_beside(stays)]) == Found(1.0, (stays,), None, True)
    assert neighbours_of([Run("a.prof", ())]) is None


def test_what_is_hidden_is_said() -> None:
    def said(*seen: Neighbour, cores: float, visible: bool) -> str:
        return repr(neighbour_sections(Found(1.0, seen, cores, visible)))

    indexer = Neighbour("indexer", 0.4, 5)
    hidden = "1.10 cores were used by processes that are not visible from here"
    assert hidden in said(indexer, cores=1.5, visible=False)
    assert "by the kernel, by short-lived processes" in said(indexer, cores=1.5, visible=True)
    assert "more were used" not in said(indexer, cores=0.42, visible=True)
    assert "not visible" in said(cores=0.8, visible=False)
    assert neighbour_sections(Found(1.0, (), 0.01, True)) == neighbour_sections(None) == []


def test_a_comparison_shows_both_sides() -> None:
    before = Found(1.0, (Neighbour("indexer", 0.25, 5),), 0.3, True)
    after = Found(1.0, (Neighbour("backup", 0.9, 9), Neighbour("indexer", 0.4, 5)), 1.3, True)
    (section,) = neighbour_sections(after, before)
    rows = [row.cells for row in section.blocks[0].rows]
    assert rows == [("backup", "9", "", "0.90"), ("indexer", "5", "0.25", "0.40")]
