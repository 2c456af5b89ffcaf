"""What a tracer must survive, run inside a target; see tracer_target.py. Holds no tests itself."""

# No calls of the library among those that are counted.
# ruff: noqa: SIM105

import _lsprof
import json
import os
import sys
import threading
import time

from tracer_target import NEW, by_name, leaf, main_entries, map_again, near, read, rss, spin


def flat(module, rounds):
    """Memory over a million calls of Python, C and generators, read now and then."""

    def generator(n):
        yield from range(n)

    def calls():
        for i in range(20000):
            leaf(i)
            len("x")
            [].append(i)
        for _ in generator(20000):
            pass
        for _ in range(200):
            try:
                int("x")
            except ValueError:
                pass

    collector = module.Collector()
    memory = []
    collector.enable()
    for _ in range(int(rounds)):
        calls()
        memory.append(rss())
    collector.disable()
    n = sum(entry[1] for entry in main_entries())
    # The parts: making and dropping collectors, and with them tables.
    for i in range(300):
        map_again(module)
        again = module.Collector()
        again.enable()
        leaf(i)
        again.disable()
        if i == 100:
            before = rss()
    assert n > 1_000_000
    assert memory[-1] - memory[2] < 1 << 20, memory
    assert rss() - before < 1 << 20


def fork(module):
    """Fork with a call open, with and without other threads; the child begins again."""
    reader, writer = os.pipe()
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    collector = module.Collector()
    if NEW:
        other.start()
    collector.enable()

    def outer():
        leaf(1)
        spin(50000)
        child = os.fork()
        if child == 0:
            for i in range(10):
                leaf(i)
            time.sleep(0.02)
            collector.suspend()
            map_again(module)
            renewed = module.Collector()
            renewed.enable()
            leaf(1)
            renewed.disable()
            found = [by_name(thread[2])["leaf"][1] for thread in read().values()]
            os.write(writer, json.dumps(found).encode())
            os._exit(0)
        os.waitpid(child, 0)
        leaf(2)

    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)  # of forking with a second thread
    outer()
    collector.disable()
    stop.set()
    if NEW:
        other.join()
    assert json.loads(os.read(reader, 65536)) == [1]
    assert by_name(main_entries())["leaf"][1] == 2


def counted_threads(module):
    """From 3.12 on, many threads that end while calls are counted in a sampled process: most tables become one."""
    collector, sampled = module.Collector(), threading.Event()
    names = {}

    def change():
        collector.suspend()
        module.sample(True)
        sampled.set()

    module.limit(1.0)
    collector.enable()
    assert module.watch(change)
    module.want_samples()
    sampled.wait()
    for i in range(600):
        exec(compile("def f(nap, time): nap(time)", f"/nowhere/{i}.py", "exec"), names)
        threading.Thread(target=names["f"], args=(time.sleep, i % 7 / 1000)).start()
    for thread in threading.enumerate()[1:]:
        thread.join()
    module.stop_watching()
    assert 20 < len(read()) < 250


def shutdown(module, how):
    """End with the collector on, daemon threads in the middle of calls, and calls of our own open."""
    collector = module.Collector()

    def forever():
        own = module.Collector()
        if not NEW:
            own.enable()
        while True:
            leaf(1)
            sorted(range(50))
            time.sleep(0.0005)

    if NEW:
        collector.enable()
    for _ in range(8):
        threading.Thread(target=forever, daemon=True).start()
    if not NEW:
        collector.enable()
    time.sleep(0.1)
    print("reached", flush=True)
    if how == "_exit":
        os._exit(7)
    if how == "raise":
        raise SystemExit(7)
    if how == "kept":
        sys.profkit_kept = collector  # dropped at the very end
    sys.exit(7)


def descriptors(module):
    """The target closes every descriptor and opens files of its own in their place."""
    collector = module.Collector()
    collector.enable()

    def nap_long():
        time.sleep(0.01)

    nap_long()
    os.closerange(3, 1024)
    own = [os.open("/dev/zero", os.O_RDONLY) for _ in range(600)]
    nap_long()
    nap_long()
    collector.disable()
    for fd in own:  # each is still open; the first are in the place of streams of the reader
        os.close(fd)
    entry = by_name(main_entries())["nap_long"]
    assert entry[1] == 3
    near(entry[8], 0.03, 0.01)


def deep(module):
    """A recursion deeper than any first guess of its stack."""

    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    sys.setrecursionlimit(30000)
    collector = module.Collector()
    collector.enable()

    def run():
        own = collector
        if not NEW:
            own = module.Collector()
            own.enable()
        down(20000)
        if not NEW:
            own.disable()

    before = threading.stack_size(256 << 20)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    threading.stack_size(before)
    collector.disable()
    assert len(read()) == 2


def busy_place(module):
    """From 3.12 on there is one place for a profiler, and whoever comes second is told."""
    profiler, collector = _lsprof.Profiler(), module.Collector()
    said = []
    for first, second in ((profiler, collector), (collector, profiler)):
        first.enable()
        try:
            second.enable()
        except ValueError as error:
            said.append(str(error))
        first.disable()
    collector.enable()
    leaf(1)
    collector.disable()
    if NEW:
        ours, cprofiles = said
        assert ours == "Another profiling tool is already active"
        assert cprofiles in (ours, "tool 2 is already in use")  # from Python 3.14 on
    else:
        assert said == []
    assert by_name(main_entries())["leaf"][1] == 1


def displaced(module):
    """Up to 3.11 another profile function takes the place: what is done then is no call's, in whichever thread."""
    if NEW:  # nobody can
        collector = module.Collector()
        collector.enable()
        sys.setprofile(lambda *event: None)
        assert not collector.displaced()
        collector.disable()
        return
    collectors, seen, go_on = {}, [], threading.Event()

    def outer():
        leaf(1)
        sys.setprofile(lambda *event: None)
        sys.setprofile(None)
        for _ in range(50):
            time.sleep(0.01)

    def run(name):
        collector = collectors[name] = module.Collector()
        collector.enable()
        outer()
        seen.append(collector.displaced())
        if name == "thread":
            go_on.wait()
        else:
            collector.disable()
            collector.enable()
            leaf(1)
            seen.append(collector.displaced())
            collector.disable()

    thread = threading.Thread(target=run, args=("thread",))
    thread.start()
    run("main")
    while len(seen) < 3:
        time.sleep(0.01)
    assert sorted(seen) == [False, True, True]
    assert collectors["thread"].displaced()  # asked from another thread
    go_on.set()
    thread.join()
