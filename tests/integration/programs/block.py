"""Captures blocks of itself with ``profkit.capture``, and says how the process was and is; see test_block.py.

Arguments: a directory, and the names of checks, each of which writes to a directory of its name there; prints JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time

import numpy  # noqa: F401  (it starts threads, which are to be there before)

import profkit
from profkit.errors import ProfkitError

MONITORING = getattr(sys, "monitoring", None)


def leaf(n):
    return sum(range(n))


def work(calls):
    for _ in range(calls):
        leaf(200)


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


def plain(directory):
    """One block, twice the same."""
    path = os.path.join(directory, "plain.prof")
    before = state()
    work(10)  # of no block
    began = time.perf_counter()
    with profkit.capture(path) as block:
        work(1000)
        total = 0
        for i in range(400_000):  # of the block itself
            total += i
    took = time.perf_counter() - began
    work(10)
    after = state()
    first = calls_of(path)
    with profkit.capture(path):
        work(7)
    run = profkit.read(path)
    return {
        "before": before,
        "after": after,
        "path": block.path == path,
        "first": {name: first.get(name, 0) for name in ("work", "leaf", "plain", "state")},
        "profkit": [name for name in first if "__exit__" in name or "__enter__" in name],
        "second": calls_of(path)["leaf"],
        "took": took,
        "wall": run.wall_s,
    }


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
    edges = run.whole.processes[0].threads[0].profile.edges
    profile = run.whole.processes[0].threads[0].profile
    name = [profile.strings[i] for i in profile.name.tolist()]
    pairs = sorted(
        (name[a], name[b], int(n))
        for a, b, n in zip(edges.caller.tolist(), edges.callee.tolist(), edges.ncalls.tolist(), strict=True)
    )
    return {
        "own": rows["own_time"].tottime,
        "cumulative": rows["own_time"].cumtime,
        "wall": run.wall_s,
        "inside": inside,
        "around": around,
        "calls": rows["own_time"].ncalls,
        "work": [row for row in pairs if row[1] in ("work", "leaf")],
        "sum": sum(row.tottime for row in rows.values()),
    }


def threads(directory):
    """Threads that the block starts, those that outlive it, and those that were there before."""
    path = os.path.join(directory, "threads.prof")
    go, stop, said = threading.Event(), threading.Event(), []

    def outlives():
        work(50)
        go.set()
        while not stop.is_set():
            leaf(10)
        said.append(repr(sys.getprofile()))

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
    later = threading.Thread(target=lambda: said.append(repr(sys.getprofile())))
    later.start()
    later.join()
    end = time.monotonic() + 5  # the kernel takes a moment to forget a thread that was joined
    while state()["tasks"] != before["tasks"] and time.monotonic() < end:
        time.sleep(0.01)
    return {
        "before": before,
        "after": state(),
        "said": said,
        "leaf": calls_of(path).get("leaf", 0),
        "names": sorted(profkit.read(path).threads()["name"]),
    }


def contexts(directory):
    """Calling contexts, and a block that an `ExitStack` of its function enters."""
    path = os.path.join(directory, "contexts.prof")
    with contextlib.ExitStack() as stack:
        stack.enter_context(profkit.capture(path))
        work(1000)
        leaf(1_000_000)
    run = profkit.read(path)
    thread = run.whole.processes[0].threads[0]
    profile, paths = thread.profile, thread.paths
    name = [profile.strings[i] for i in profile.name.tolist()]

    def chain(row):
        found = []
        while row >= 0:
            found.insert(0, name[paths.function[row]] if paths.function[row] >= 0 else "")
            row = paths.parent[row]
        return found

    return {
        "chains": [chain(row) for row in range(len(paths.parent))],
        "open": [name[call.function] for call in thread.open_calls],
        "looked": [thread.pauses, thread.lines, thread.slices],
        "names": sorted(set(name)),
    }


def elsewhere(directory):
    """A block in a thread that is not the main one, which is first in the file."""
    path = os.path.join(directory, "elsewhere.prof")

    def captures():
        with profkit.capture(path):
            work(100)

    thread = threading.Thread(target=captures, name="captures")
    thread.start()
    thread.join()
    first = profkit.read(path).whole.processes[0].threads[0]
    return {"name": first.name, "leaf": calls_of(path)["leaf"]}


def again(directory):
    """Many blocks, beside a thread that calls all the time: nothing is kept of them."""
    path = os.path.join(directory, "again.prof")
    stop, kept, calls = threading.Event(), [], []

    def runs():
        while not stop.is_set():
            leaf(10)

    thread = threading.Thread(target=runs)
    thread.start()
    for _ in range(40):
        with profkit.capture(path):
            work(50)
        rows = profkit.read(path).functions()
        calls.append(next(row.ncalls for row in rows if row.name == "work"))
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        kept.append([resident, len(os.listdir("/proc/self/fd"))])
    stop.set()
    thread.join()
    with open("/proc/self/maps") as file:
        maps = file.read()
    return {"kept": kept, "calls": calls, "mapped": maps.count("profkit-block"), "after": state()}


def nested(directory):
    """Blocks within each other, and with another profiler."""
    import cProfile

    outer, inner = (os.path.join(directory, f"{name}.prof") for name in ("outer", "inner"))
    said = {}
    with profkit.capture(outer):
        try:
            with profkit.capture(inner):
                work(1)
        except ProfkitError as error:
            said["block"] = str(error), type(error).__name__
        work(3)
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with profkit.capture(inner):
            work(1)
    except ProfkitError as error:
        said["profiler"] = str(error), type(error).__name__
    finally:
        profiler.disable()
    return {**said, "leaf": calls_of(outer)["leaf"], "inner": os.path.exists(inner)}


def forks(directory):
    """A child that the block forks is none of it."""
    path = os.path.join(directory, "forks.prof")
    read, write = os.pipe()
    with profkit.capture(path):
        work(5)
        child = os.fork()
        if child == 0:
            try:
                work(1000)
                os.write(write, json.dumps(state()).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        work(6)
    inside = []
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with profkit.capture(os.path.join(directory, "left.prof")):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            inside = [1]
    if child == 0:  # a child that leaves the block as well
        os._exit(0 if not inside else 1)
    os.close(write)
    return {"leaf": calls_of(path)["leaf"], "child": json.loads(os.read(read, 1 << 16)), "after": state()}


def failing(directory):
    """Exceptions come through, and the file is there; a decorated function is as before."""
    path = os.path.join(directory, "failing.prof")
    said = {}
    try:
        with profkit.capture(path):
            work(4)
            raise KeyError("of the block")
    except KeyError as error:
        said["raised"] = str(error)
    said["leaf"] = calls_of(path)["leaf"]
    said["status"] = profkit.read(path).whole.manifest.exit_status

    decorated = os.path.join(directory, "decorated.prof")

    @profkit.capture(decorated)
    def twice(x):
        """Doubles."""
        leaf(x)
        return 2 * x

    said["value"], said["name"], said["doc"] = twice(21), twice.__name__, twice.__doc__
    said["decorated"] = calls_of(decorated)
    try:
        with profkit.capture(os.path.join(directory, "no", "where.prof")):
            said["entered"] = True
    except ProfkitError as error:
        said["nowhere"] = str(error)
    try:
        with profkit.capture(directory):
            said["entered"] = True
    except ProfkitError as error:
        said["directory"] = str(error)
    said["after"] = state()
    return said


def counted(directory):
    """The kernel's counters are those of the block."""
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
    process = next(iter(run.processes()))
    rows = {row.name: row for row in run.functions()}
    return {
        "wall": run.wall_s,
        "cpu": process.cpu_s,
        "threads": [[row.name, row.run_s] for row in run.threads()],
        "sleep": [rows["<built-in method time.sleep>"].blocked, rows["<built-in method time.sleep>"].cumtime],
        "machine": run.whole.machine is not None,
    }


if __name__ == "__main__":
    found = {}
    for check in sys.argv[2:]:
        place = os.path.join(sys.argv[1], check)
        os.mkdir(place)
        found[check] = globals()[check](place)
    print(json.dumps(found))
