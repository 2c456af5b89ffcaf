"""Works in several ways, in parts that are captured and in parts that are not; each has functions of its own.

    combined.py whole|code|range|steps  ranges|-  workers|-  CALLS

Prints the seconds that `caller` took in the parts that are captured.
"""

import ctypes
import multiprocessing
import os
import sys
import time

from traced_state import wait_until

WINDOWS, RANGES, WORKERS = sys.argv[1:4]
CALLS = int(sys.argv[4])
PARTS = 6


def inside():
    pass


def outside():
    pass


def in_range():
    pass


def out_of_range():
    pass


def worked():
    pass


def idled():
    pass


def tiny(x):
    return x + 1


def caller():
    begin = time.perf_counter()
    total = 0
    for _ in range(CALLS):
        total = tiny(total)
    return time.perf_counter() - begin


def passed_by():
    total = 0
    for _ in range(CALLS):
        total = tiny(total)


def task(part):
    captured, expected = part
    wait_until(expected)
    for _ in range(5):
        if captured:
            worked()
        else:
            idled()


def work(number, captured, expected, pool, push, pop):
    for _ in range(10):
        if captured:
            inside()
        else:
            outside()
    if push is not None:
        push(f"step {number}".encode())
        for _ in range(4):
            if captured:
                in_range()
            else:
                out_of_range()
        pop()
    took = 0.0
    if captured:
        took = caller()
    else:
        passed_by()
    if pool is not None:
        pool.map(task, [(captured, expected)] * 4, chunksize=1)
    return took


def main():
    push = pop = None
    if RANGES == "ranges" or WINDOWS == "range":
        library = ctypes.PyDLL(os.environ["NVTX_INJECTION64_PATH"])
        push, pop = library.profkit_nvtx_push, library.profkit_nvtx_pop
    if WINDOWS in ("code", "steps"):
        import profkit
    pool = multiprocessing.get_context("fork").Pool(2) if WORKERS == "workers" else None
    took = 0.0
    for number in range(PARTS):
        # Of three steps one is waited for, one is thrown away, one is captured; else every second part is.
        captured = number % 3 == 2 if WINDOWS == "steps" else number % 2 == 1
        expected = WINDOWS == "whole" or captured or (WINDOWS == "steps" and number % 3 == 1)
        if captured and WINDOWS == "code":
            profkit.start(f"part {number}")
        if captured and WINDOWS == "range":
            push(b"epoch")
        took += work(number, captured, expected, pool, *((push, pop) if RANGES == "ranges" else (None, None)))
        if captured and WINDOWS == "code":
            profkit.stop()
        if captured and WINDOWS == "range":
            pop()
        if WINDOWS == "steps":
            profkit.step()
    if pool is not None:
        pool.close()
        pool.join()
    print(took)


main()
