"""Opens windows in one of several ways; what it calls outside and inside has names of its own. Prints what it saw."""

import ctypes
import os
import sys
import threading
import time

from traced_state import traced, wait_until


def outside():
    return traced()


def inside():
    return traced()


def warming():
    return traced()


def ranges(load):
    """Functions that push and pop an NVTX range, as a program does through the NVTX library."""
    library = load(os.environ["NVTX_INJECTION64_PATH"])
    return lambda name: library.profkit_nvtx_push(name.encode()), library.profkit_nvtx_pop


def in_code():
    """Two windows, with another thread that works all the time and one that waits."""
    import profkit

    done = []
    seen = {"outside": [], "inside": []}

    def beside():
        while not done:
            seen[where[0]].append((inside if where[0] == "inside" else outside)())

    def wait_for_end():
        ended.acquire()

    ended = threading.Lock()
    ended.acquire()
    where = ["outside"]
    waiting = threading.Thread(target=wait_for_end, name="waiting")
    busy = threading.Thread(target=beside, name="busy")
    waiting.start()
    busy.start()
    for _ in range(50):
        outside()
    for number in range(2):
        with profkit.window(f"part {number}"):
            for _ in range(20):
                inside()
        for _ in range(50):
            assert not outside()
    done.append(True)
    busy.join()
    ended.release()
    waiting.join()
    assert traced() is False


def in_range(load, first, *names):
    """A range that is pushed three times, and waited for where another thread has to see to it."""
    push, pop = ranges(load)
    for number in range(3):
        outside()
        push(first)
        wait_until(str(number) in names)
        for _ in range(10):
            inside()
        pop()
        wait_until(False)
        outside()


def in_ranges_of_threads(load, name):
    """A range that another thread has, too, within it; one that ends with its thread; one more."""
    push, pop = ranges(load)

    def run(function):
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()

    def other():
        push(name)
        pop()

    def left():
        push(name)
        wait_until(True)
        inside()

    push(name)
    wait_until(True)
    run(other)
    assert inside()
    pop()
    wait_until(False)
    outside()
    run(left)
    wait_until(False)
    outside()
    push(name)
    wait_until(True)
    assert inside()
    pop()
    wait_until(False)


def in_steps(kind, before, warmup, active, cycles):
    """Ten steps a cycle or so; says by itself in which of them it was traced."""
    import profkit

    push, pop = ranges(ctypes.PyDLL) if kind == "range" else (lambda name: None, profkit.step)
    period = int(before) + int(warmup) + int(active)
    for number in range(3 * period):
        at = number % period
        push("step 0")
        if number // period >= int(cycles) or at < int(before):
            assert not outside(), number
        elif at < int(before) + int(warmup):
            assert warming(), number
        else:
            assert inside(), number
        pop()


def by_clock():
    """Runs until it was traced, and then was not any more; ends with 3 where that does not come."""
    begun = time.monotonic()
    while not traced():
        outside()
        if time.monotonic() > begun + 5:
            sys.exit(3)
        time.sleep(0.001)
    while traced():
        inside()
    for _ in range(100):
        outside()


def task(name):
    function = {"outside": outside, "inside": inside}[name]
    time.sleep(0.02)
    return os.getpid(), function()


def in_pool(method):
    """The main process opens a window while workers run that were started before."""
    import multiprocessing

    import profkit

    def both(name, wanted):
        states = {}
        while len(states) < 2 or set(states.values()) != {wanted}:
            states.update(pool.map(task, [name] * 4, chunksize=1))

    with multiprocessing.get_context(method).Pool(2) as pool:
        both("outside", False)
        profkit.start("workers")
        both("inside", True)
        profkit.stop()
        both("outside", False)
        pool.close()
        pool.join()


def in_forks():
    """A child that is forked in a window, and one that is forked outside."""
    import profkit

    for function in (outside, inside):
        if function is inside:
            profkit.start()
        pid = os.fork()
        if pid == 0:
            function()
            os._exit(0 if traced() is (function is inside) else 1)
        assert os.waitpid(pid, 0)[1] == 0
    profkit.stop()


def as_rank():
    outside() if os.environ.get("RANK") == "0" else inside()


if __name__ == "__main__":
    {
        "code": in_code,
        "range": lambda *words: in_range(ctypes.PyDLL, *words),
        "range-without-gil": lambda *words: in_range(ctypes.CDLL, *words),
        "ranges-of-threads": lambda name: in_ranges_of_threads(ctypes.PyDLL, name),
        "ranges-of-threads-without-gil": lambda name: in_ranges_of_threads(ctypes.CDLL, name),
        "steps": in_steps,
        "clock": by_clock,
        "pool": in_pool,
        "forks": in_forks,
        "rank": as_rank,
    }[sys.argv[1]](*sys.argv[2:])
    print("done")
