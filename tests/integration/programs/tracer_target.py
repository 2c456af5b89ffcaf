"""What the tests of the tracer run inside a target: ``python tracer_target.py BINARY CHECK [ARGUMENT…]``.

Holds no tests itself. Standard library only, for every Python from 3.8 on. A check that fails ends with a traceback.
"""

# Python 3.8, and no calls of the library among those that are counted.
# ruff: noqa: B905

import _lsprof
import gc
import importlib.util
import json
import mmap
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

NEW = sys.version_info >= (3, 12)


#: Where the tables are; the last file is the present one.
directory = tempfile.mkdtemp(dir=os.environ.get("PROFKIT_TEST_SHARED"))
files = []

#: How tables are read: by a Python that has profkit, without what this one is examined with.
READER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables_reader.py")
EXAMINED = ("LD_PRELOAD", "PYTHONMALLOC", "ASAN_OPTIONS", "PYTHONPATH")


def load(binary):
    name = os.path.basename(binary).split(".")[0]
    spec = importlib.util.spec_from_file_location(name, binary)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    map_tables(module)
    if sys.version_info < (3, 12):
        module.Collector().follow_others(
            True
        )  # as the agent does: calls are then booked where frames are run
    return module


def map_tables(module):
    """Keep tables in a new file from now on."""
    files.append(os.path.join(directory, f"{os.getpid()}-{len(files)}.tables"))
    assert module.map_tables(files[-1], "/nowhere/", -1)


def map_again(module):
    """The same after tables were kept in another one; nothing is traced."""
    module.let_go(True)
    map_tables(module)


def copy():
    """What is in the tables at this moment, with the time: for this, no thread gets the GIL."""
    with open(files[-1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        data, now = memory[:], time.perf_counter()
    files.insert(0, os.path.join(directory, f"{os.getpid()}-{len(files)}.copy"))
    with open(files[0], "wb") as file:
        file.write(data)
    return files[0], now


def read_all(copies):
    """The threads in each copy, see tables_reader.py; nothing is traced."""
    env = {name: value for name, value in os.environ.items() if name not in EXAMINED}
    python = env["PROFKIT_TEST_READER"]
    done = subprocess.run(
        [python, READER], input=json.dumps(copies).encode(), stdout=subprocess.PIPE, env=env, check=True
    )
    return json.loads(done.stdout.decode())


def read():
    """The threads in the tables, by number."""
    return {thread[0]: thread for thread in read_all([copy()])[0]}


def main_entries():
    """The functions of the main thread."""
    return read()[os.getpid()][2]


def name_of(code):
    if isinstance(code, list):
        return code[2]
    return code if isinstance(code, str) else code.co_name


def by_name(entries):
    """Entries by function name; names must not repeat where this is used."""
    return {name_of(entry[0]): entry for entry in entries}


# Parity with cProfile


def counts(entries):
    """Calls and recursive calls by function and by edge; functions by identity, what disables left out."""
    functions, edges = {}, {}
    for entry in entries:
        caller = entry[0]
        if isinstance(caller, str) and "'disable' of" in caller:
            continue
        add(functions, label(caller), entry[1:3])
        for callee in entry[-1] or ():
            if not (isinstance(callee[0], str) and "'disable' of" in callee[0]):
                add(edges, (label(caller), label(callee[0])), callee[1:3])
    return functions, edges


def add(into, key, values):
    have = into.setdefault(key, [0, 0])
    have[0] += values[0]
    have[1] += values[1]


def label(code):
    if isinstance(code, list):
        return tuple(code)
    if not isinstance(code, str):
        return (code.co_filename, code.co_firstlineno, code.co_name)
    # An object that is made anew has another address.
    return re.sub("0x[0-9a-f]+", "0x", code)


#: The least number of functions that each program runs through.
LEAST = {
    "generators": 15,
    "exceptions": 20,
    "objects": 70,
    "asynchronous": 140,
    "numeric": 100,
    "torch_step": 150,
}


def parity(module, *names):
    """Programs under cProfile and under the tracer have the same calls."""
    for name in names:
        program = getattr(tracer_workloads, name)
        program()
        program()
        gc.collect()
        gc.disable()  # until the end of the process
        profiler = _lsprof.Profiler(subcalls=True, builtins=True)
        profiler.enable()
        program()
        profiler.disable()
        gc.collect()
        # On a busy machine others may run while the tracer books, most of the time.
        for _ in range(5):
            map_again(module)
            collector = module.Collector()
            begun = time.perf_counter()
            collector.enable()
            program()
            collector.disable()
            wall = time.perf_counter() - begun
            ours = main_entries()
            own = sum(entry[4] for entry in ours)
            if name != "asynchronous" or own > 0.3 * wall:
                break
        theirs = profiler.getstats()
        for their, our in zip(counts(theirs), counts(ours)):
            different = [key for key in {*their, *our} if their.get(key) != our.get(key)]
            assert not different, (name, [(key, their.get(key), our.get(key)) for key in different])
        functions, edges = counts(theirs)
        # A traceback may keep this frame until the end, when 3.12 complains of cProfile's entries in it.
        del profiler, theirs
        assert len(edges) > len(functions) >= LEAST[name], (name, len(functions), len(edges))
        if name == "asynchronous":
            assert 0.3 < own / wall < 1.001, (own, wall)


# Threads


#: In seconds: the tracer's clock and Python's are compared to some 50 ns; this allows for what that makes in a run.
CLOCKS = 1e-4


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def work(seconds):
    """Compute, call, sleep, for about so long; return the wall time."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for i in range(2000):
            leaf(i)
        time.sleep(0.001)
    return time.perf_counter() - begin


def leaf(x):
    return x + 1


def threads(module):
    """The cumulative time of a function in each thread is its wall time there."""
    found = []

    def run(seconds):
        own = collector if NEW else module.Collector()
        if not NEW:
            own.enable()
        begin = time.perf_counter()
        inside = work(seconds)
        around = time.perf_counter() - begin
        if not NEW:
            own.disable()
        found.append((threading.get_native_id(), inside, around))

    collector = module.Collector()
    if NEW:
        collector.enable()
    started = [threading.Thread(target=run, args=(0.2 + 0.04 * i,)) for i in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if NEW:
        collector.disable()
    tables = read()
    assert len(found) == 4
    for native, inside, around in found:
        cumulative = by_name(tables[native][2])["work"][3]
        assert inside - CLOCKS <= cumulative <= around + CLOCKS, (inside, cumulative, around)


def suspend(module):
    """Stop tracing threads from another while they run."""
    collectors, stop = [], []

    def run():
        collector = module.Collector()
        collectors.append(collector)
        if not NEW:
            collector.enable()
        while not stop:
            leaf(0)

    shared = module.Collector()
    if NEW:
        shared.enable()
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(collectors) < 4:
        time.sleep(0.01)
    time.sleep(0.05)
    following = [shared] if NEW else collectors
    for collector in following:
        collector.suspend()
    time.sleep(0.05)
    stop.append(True)
    for thread in threads:
        thread.join()
    for collector in following:
        collector.suspend()  # a second time does nothing
    assert len(read()) == 5


def read_while_running(module):
    """Read a thread's table from another while it runs, again and again."""
    read, begins = [], []
    stop = []

    def outer():
        begins.append(time.perf_counter())
        while not stop:
            inner()

    def inner():
        time.sleep(0.01)
        for i in range(1000):
            leaf(i)

    def run():
        collector = module.Collector()
        if not NEW:
            collector.enable()
        begins.append(time.perf_counter())
        outer()
        collector.disable()

    shared = module.Collector()
    if NEW:
        shared.enable()
    thread = threading.Thread(target=run)
    begins.append(time.perf_counter())
    thread.start()
    while len(begins) < 3:
        time.sleep(0.01)
    for _ in range(40):
        before = time.perf_counter()
        read.append((before, copy(), time.perf_counter()))
        time.sleep(0.01)
    native = thread.native_id
    stop.append(True)
    thread.join()
    if NEW:
        shared.disable()
    inner_was_open = False
    for (before, _, after), threads in zip(read, read_all([one[1] for one in read])):
        (entries, opened) = next(table[2:] for table in threads if table[0] == native)
        names = [name_of(call[0]) for call in opened]
        assert names.count("outer") == 1, names
        elapsed = opened[names.index("outer")][1]
        own = sum(entry[4] for entry in entries) + sum(call[2] for call in opened)
        # What bounds the call, and all that its thread did: clocks are read around what they measure.
        assert before - begins[2] - CLOCKS <= elapsed <= after - begins[1] + CLOCKS
        # Booked and open self time together are all the time of the thread, which began a little earlier.
        assert elapsed - 1e-6 <= own <= after - begins[0] + CLOCKS, (elapsed, own, after - begins[0])
        inner_was_open |= "inner" in names[names.index("outer") :]
    assert inner_was_open


def until_alone():
    """Wait for ended threads: join() returns when Python is done with one, a moment before the kernel is."""
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)


def short_threads(module, n):
    """Many threads that end at once: nothing is lost."""
    collectors = [module.Collector()]

    def body():
        leaf(1)
        len("x")

    def begin():
        collectors.append(module.Collector())
        collectors[-1].enable()
        body()
        collectors[-1].disable()

    descriptors = len(os.listdir("/proc/self/fd"))
    if NEW:
        collectors[0].enable()
    for _ in range(int(n)):
        thread = threading.Thread(target=body if NEW else begin)
        thread.start()
        thread.join()
    until_alone()
    if NEW:
        collectors[0].disable()
    # The thread that reads keeps one open, for its own counters.
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
    entries = [entry for thread in read_all([copy()])[0] for entry in thread[2]]
    assert sum(entry[1] for entry in entries if name_of(entry[0]) == "body") == int(n)


# Waiting

#: What a virtual machine's host takes is in no counter of the thread's, and looks like being blocked anywhere.
HOST_S = 0.03


def near(value, expected, most):
    assert abs(value - expected) <= most, (value, expected, most)


def queued():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def kernel_figures():
    """Wall, CPU time and queueing of this thread, read while it kept its CPU: else they are of different moments."""
    while True:
        before, run, wall = queued(), time.thread_time(), time.perf_counter()
        if queued() == before:
            return wall, run, before


def spin(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def nap():
    time.sleep(0.003)


def contend(until):
    while time.perf_counter() < until:
        spin(20000)
        for i in range(2000):
            leaf(i)
        sum(range(300000))
        nap()


def waiting(module, seconds, competitors):
    """Sums over functions against the kernel's figures for the thread, on one core with busy processes."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    busy = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(int(competitors))
    ]
    time.sleep(0.2)
    collector = module.Collector()
    try:
        wall, run, wait = kernel_figures()
        collector.enable()
        contend(wall + float(seconds))
        collector.disable()
        wall_after, run_after, wait_after = kernel_figures()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    _, measured, all_entries, _ = read()[os.getpid()]
    assert measured
    entries = by_name(all_entries)
    run, wait, wall = run_after - run, wait_after - wait, wall_after - wall
    assert wait > 0.4, "the program was not contended: nothing was tested"
    waited, blocked = (sum(entry[place] for entry in all_entries) for place in (5, 7))
    near(waited, wait, 0.02 * wait)
    near(blocked, wall - run - wait, max(0.05 * (wall - run - wait), HOST_S))
    own_wait, cumulative_wait, own_blocked, cumulative_blocked = entries["contend"][5:9]
    near(cumulative_wait, waited, 0.001 * waited)
    near(cumulative_blocked, blocked, 0.001 * blocked)
    assert own_wait < 0.05 * cumulative_wait
    assert own_blocked < 0.05 * cumulative_blocked + HOST_S
    computing = sum(entries[name][5] for name in entries if name == "spin" or "sum" in name)
    slept = sum(entries[name][7] for name in entries if "sleep" in name)
    assert computing > 0.4 * waited, (computing, waited)
    assert slept > 0.9 * blocked - HOST_S, (slept, blocked)
    assert not [name for name, entry in entries.items() if entry[5] + entry[7] > entry[4] + 1e-4]


if __name__ == "__main__":
    # As a module of that name too, for the checks that are in another file.
    sys.modules["tracer_target"] = sys.modules["__main__"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import tracer_hardships
    import tracer_workloads

    tracer = load(sys.argv[1])
    check = globals().get(sys.argv[2]) or getattr(tracer_hardships, sys.argv[2])
    check(tracer, *sys.argv[3:])
