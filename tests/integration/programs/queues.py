"""Computes and naps beside busy processes on one CPU, alone or in two threads; prints what the kernel counted.

``queues.py SECONDS COMPETITORS [threads]``. The output is, of each thread, its name and the seconds that it was
queued for a CPU, and off it otherwise, from the time that the work began.
"""

import os
import subprocess
import sys
import threading
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


def sleep(until):
    while time.perf_counter() < until:
        nap()


def both(until):
    while time.perf_counter() < until:
        compute(time.perf_counter() + 0.6)
        nap()


def figures():
    with open("/proc/thread-self/schedstat") as file:
        return time.perf_counter(), time.thread_time(), int(file.read().split()[1]) / 1e9


def told(work, until):
    before = figures()
    work(until)
    after = figures()
    wall, run, wait = (after[i] - before[i] for i in range(3))
    print(threading.current_thread().name, wait, wall - run - wait, flush=True)


def main(seconds, competitors, threads):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Isolated: not to be captured.
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(competitors)]
    try:
        until = time.perf_counter() + seconds
        if threads:
            started = [
                threading.Thread(target=told, args=(work, until), name=work.__name__)
                for work in (compute, sleep)
            ]
            for thread in started:
                thread.start()
            for thread in started:
                thread.join()
        else:
            told(both, until)
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["threads"])
