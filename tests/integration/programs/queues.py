"""Computes and naps beside busy processes on one CPU; prints what the kernel counted.

``queues.py SECONDS COMPETITORS``. The output is the seconds that it was queued for a CPU, and off it otherwise, from
the time that the work began.
"""

import os
import subprocess
import sys
import time


def heavy(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def light(n):
    return [str(i) for i in range(n)]


def nap():
    # Seen twice by a sampler that looks each tenth of a second, and may be held up for another.
    time.sleep(0.5)


def compute(until):
    while time.perf_counter() < until:
        for _ in range(10):
            heavy(30000)
        light(1000)


def both(until):
    while time.perf_counter() < until:
        compute(time.perf_counter() + 0.6)
        nap()


def figures():
    with open("/proc/thread-self/schedstat") as file:
        return time.perf_counter(), time.thread_time(), int(file.read().split()[1]) / 1e9


def main(seconds, competitors):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Isolated: not to be captured.
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(competitors)]
    try:
        before = figures()
        both(time.perf_counter() + seconds)
        wall, run, wait = (after - begin for after, begin in zip(figures(), before, strict=True))
        print(wait, wall - run - wait)
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
