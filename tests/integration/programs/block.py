"""Checks that capture blocks of their own process with ``profkit.capture``; see test_block.py.

Arguments: a directory, and the names of checks, each of which writes to a directory of its name there. Prints, as
JSON, the traceback of each check that failed, and nothing of the others.
"""

from __future__ import annotations

import contextlib
import cProfile
import json
import os
import pstats
import statistics
import sys
import threading
import time
import traceback
from itertools import pairwise

import numpy  # noqa: F401  (it starts threads, which are to be there before)

import profkit
from profkit.errors import CaptureError, ProfkitError

MONITORING = getattr(sys, "monitoring", None)


def leaf(n):
    return sum(range(n))


def work(calls):
    for _ in range(calls):
        leaf(200)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def refused(path, *said, kind=ProfkitError):
    """Check that a block is not begun, and what is said of it."""
    try:
        with profkit.capture(path):
            raise AssertionError("the block began")
    except kind as error:
        equal([text for text in said if text not in str(error)], [])


def state():
    """What a profiler changes in a process."""
    return {
        "profile": repr(sys.getprofile()),
        "threading": repr(threading.getprofile()),
        "tool": MONITORING.get_tool(MONITORING.PROFILER_ID) if MONITORING else None,
        "tools": [MONITORING.get_tool(tool) for tool in range(6)] if MONITORING else None,
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0,
        "cwd": os.getcwd(),
        "environment": {k: v for k, v in os.environ.items() if "PROFKIT" in k or "THREADS" in k},
    }


def calls_of(path):
    """Calls by name, of all threads."""
    found = {}
    for row in profkit.read(path).functions():
        found[row.name] = found.get(row.name, 0) + row.ncalls
    return found


def names_of(profile):
    return [profile.strings[i] for i in profile.name.tolist()]


def plain(directory):
    """One block, twice the same."""
    path = os.path.join(directory, "plain.prof")
    before = state()
    work(10)  # of no block
    began = time.perf_counter()
    with profkit.capture(path) as block:
        work(1000)
    took = time.perf_counter() - began
    work(10)
    equal(state(), before)
    equal(block.path, path)
    first = calls_of(path)
    equal(
        {name: first.get(name, 0) for name in ("work", "leaf", "plain", "state")},
        {"work": 1, "leaf": 1000, "plain": 1, "state": 0},
    )
    equal([name for name in first if "__exit__" in name or "__enter__" in name], [])
    with profkit.capture(path):
        work(7)
    equal(calls_of(path)["leaf"], 7)
    equal(os.listdir(directory), ["plain.prof"])
    # The file is as every run file.
    run = profkit.read(path).whole
    assert 0 < run.manifest.wall_s < took
    assert len(run.manifest.yardsticks) > 1
    assert all(one.before_s and one.after_s for one in run.manifest.yardsticks)
    (process,) = run.processes
    equal((process.pid, process.role, process.exit, process.profiled), (os.getpid(), "main", "exited", True))
    equal(run.warnings, ())
    assert pstats.Stats(path).total_calls > 0


def own_time(directory):
    """What the block does itself is its function's, and what it calls too."""
    path = os.path.join(directory, "own.prof")
    began = time.perf_counter()
    with profkit.capture(path):
        begun = time.perf_counter()
        total = 0
        while total < 2_000_000:
            total += 1
        work(100)
        inside = time.perf_counter() - begun
    around = time.perf_counter() - began
    run = profkit.read(path)
    rows = {row.name: row for row in run.functions()}
    profile = run.whole.processes[0].threads[0].profile
    edges, names = profile.edges, names_of(profile)
    columns = (edges.caller.tolist(), edges.callee.tolist(), edges.ncalls.tolist())
    pairs = sorted((names[a], names[b], n) for a, b, n in zip(*columns, strict=True))
    equal(
        [pair for pair in pairs if pair[1] in ("work", "leaf")],
        [("own_time", "work", 1), ("work", "leaf", 100)],
    )
    own = rows["own_time"]
    equal(own.ncalls, 1)
    # Clocks are read around what they measure; what some hundred events cost is in no function.
    assert inside - 1e-3 <= sum(row.tottime for row in rows.values()) <= own.cumtime + 1e-4
    assert own.cumtime <= around
    assert inside <= run.wall_s <= around
    assert own.tottime > 0.3 * run.wall_s


def threads(directory):
    """Threads that the block starts, those that outlive it, and those that were there before."""
    path = os.path.join(directory, "threads.prof")
    go, stop, said = threading.Event(), threading.Event(), []

    def outlives():
        work(50)
        go.set()
        while not stop.is_set():
            leaf(10)
        said.append(sys.getprofile())

    before = state()
    with profkit.capture(path):
        ended = threading.Thread(target=work, args=(300,), name="ends")
        ended.start()
        ended.join()
        living = threading.Thread(target=outlives, name="outlives")
        living.start()
        go.wait(20)
    stop.set()
    living.join()
    later = threading.Thread(target=lambda: said.append(sys.getprofile()))
    later.start()
    later.join()
    end = time.monotonic() + 5  # the kernel takes a moment to forget a thread that was joined
    while state()["tasks"] != before["tasks"] and time.monotonic() < end:
        time.sleep(0.01)
    equal(state(), before)
    equal(said, [None, None])  # else a thread is still traced
    assert calls_of(path).get("leaf", 0) >= 350
    assert {"MainThread", "ends", "outlives"} <= set(profkit.read(path).threads()["name"])


def contexts(directory):
    """Calling contexts, and a block that an `ExitStack` of its function enters."""
    path = os.path.join(directory, "contexts.prof")
    with contextlib.ExitStack() as stack:
        stack.enter_context(profkit.capture(path))
        work(1000)
        leaf(1_000_000)
    thread = profkit.read(path).whole.processes[0].threads[0]
    paths, names = thread.paths, names_of(thread.profile)

    def chain(row):
        found = []
        while row >= 0:
            found.insert(0, names[paths.function[row]] if paths.function[row] >= 0 else "")
            row = paths.parent[row]
        return found

    chains = [chain(row) for row in range(len(paths.parent))]
    for wanted in ([], ["work"], ["work", "leaf"], ["leaf"]):
        assert ["contexts", *wanted] in chains, wanted
    assert all(found[0] == "contexts" for found in chains)
    equal([names[call.function] for call in thread.open_calls], ["contexts"])
    equal([thread.pauses, thread.lines, thread.slices], [None] * 3)  # nothing looks at what threads do
    assert not {"enter_context", "open", "stop"} & set(names)


def elsewhere(directory):
    """A block in a thread that is not the main one, which is first in the file."""
    path = os.path.join(directory, "elsewhere.prof")

    def captures():
        with profkit.capture(path):
            work(100)

    thread = threading.Thread(target=captures, name="captures")
    thread.start()
    thread.join()
    equal(profkit.read(path).whole.processes[0].threads[0].name, "captures")
    equal(calls_of(path)["leaf"], 100)


def again(directory):
    """Many blocks, beside a thread that calls all the time: nothing is kept of them."""
    path = os.path.join(directory, "again.prof")
    stop, kept = threading.Event(), []

    def runs():
        while not stop.is_set():
            leaf(10)

    thread = threading.Thread(target=runs)
    thread.start()
    for _ in range(20):
        with profkit.capture(path):
            work(50)
        equal(calls_of(path)["work"], 1)
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        kept.append((resident, len(os.listdir("/proc/self/fd"))))
    stop.set()
    thread.join()
    sizes, files = zip(*kept[7:], strict=True)
    # The allocator takes an arena once in a while: what every block keeps is seen in most steps.
    assert statistics.median(b - a for a, b in pairwise(sizes)) < 1 << 16, kept
    assert files[-1] <= files[0], kept
    with open("/proc/self/maps") as file:
        assert "profkit-block" not in file.read()
    equal(sys.getprofile(), None)


def nested(directory):
    """Only one can trace: blocks within each other, and with another profiler."""
    outer, inner = (os.path.join(directory, f"{name}.prof") for name in ("outer", "inner"))
    with profkit.capture(outer):
        refused(inner, f"{inner}: this process is traced already, by another block;", kind=CaptureError)
        work(3)
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        refused(inner, "traced already, by", kind=CaptureError)
    finally:
        profiler.disable()
    equal(calls_of(outer)["leaf"], 3)
    assert not os.path.exists(inner)


def forks(directory):
    """A child that the block forks is none of it."""
    path = os.path.join(directory, "forks.prof")
    with profkit.capture(path):
        work(5)
        child = os.fork()
        if child == 0:
            work(1000)
            seen = state()
            os._exit((seen["profile"], seen["tool"]) != ("None", None))
        equal(os.waitpid(child, 0)[1], 0)
        work(6)
    equal(calls_of(path)["leaf"], 11)
    with profkit.capture(os.path.join(directory, "left.prof")):
        child = os.fork()
        if child:
            equal(os.waitpid(child, 0)[1], 0)
    if child == 0:  # it left the block as well
        os._exit(0)
    equal((state()["profile"], state()["tool"]), ("None", None))


def failing(directory):
    """Exceptions come through, and the file is there; a decorated function is as before."""
    path = os.path.join(directory, "failing.prof")
    try:
        with profkit.capture(path):
            work(4)
            raise KeyError("of the block")
    except KeyError as error:
        equal(error.args, ("of the block",))
    equal(calls_of(path)["leaf"], 4)
    equal(profkit.read(path).whole.manifest.exit_status, 1)

    path = os.path.join(directory, "decorated.prof")

    @profkit.capture(path)
    def twice(x):
        """Doubles."""
        leaf(x)
        return 2 * x

    equal((twice(21), twice.__name__, twice.__doc__), (42, "twice", "Doubles."))
    equal(calls_of(path)["leaf"], 1)
    assert "captured" not in calls_of(path)
    refused(os.path.join(directory, "no", "where.prof"), "where.prof")
    refused(directory, "is a directory")
    equal(sys.getprofile(), None)


def counted(directory):
    """The kernel's counters are those of the block, and not of the 0.3 s of CPU time before it."""
    path = os.path.join(directory, "counted.prof")
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    with profkit.capture(path):
        time.sleep(0.2)
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
    run = profkit.read(path)
    cpu_s = next(iter(run.processes())).cpu_s
    assert 0.3 <= run.wall_s < 1.5
    assert 0.09 <= cpu_s < 0.28
    (name, run_s), *others = [(row.name, row.run_s) for row in run.threads()]
    equal(name, "MainThread")
    assert abs(run_s - cpu_s) <= 0.05
    assert all(run_s < 0.01 for _, run_s in others)  # NumPy's threads, which had nothing to do
    assert run.whole.machine is not None
    sleep = next(row for row in run.functions() if row.name == "<built-in method time.sleep>")
    assert abs(sleep.blocked - sleep.cumtime) <= 0.02


if __name__ == "__main__":
    failed = {}
    for check in sys.argv[2:]:
        place = os.path.join(sys.argv[1], check)
        os.mkdir(place)
        try:
            globals()[check](place)
        except Exception:
            failed[check] = traceback.format_exc()
    print(json.dumps(failed))
