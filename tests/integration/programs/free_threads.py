"""Threads that compute, wait, make and drop code, collect and fork, without a GIL. usage: free_threads.py SECONDS"""

import gc
import os
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")  # a fork beside threads
stop = time.monotonic() + float(sys.argv[1])


def made(number):
    names = {}
    exec(f"def made_{number}(n):\n    for i in range(n):\n        i += n\n    return n\n", names)
    return names[f"made_{number}"]


def leaf(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


def computes():
    while time.monotonic() < stop:
        leaf(20000)


def waits():
    while time.monotonic() < stop:
        time.sleep(0.05)


def makes_code():
    number = 0
    while time.monotonic() < stop:
        made(number)(200)
        number += 1


def begins_threads():
    while time.monotonic() < stop:
        thread = threading.Thread(target=made(1), args=(5000,))
        thread.start()
        thread.join()


def collects():
    while time.monotonic() < stop:
        gc.collect()
        time.sleep(0.005)


def forks():
    while time.monotonic() < stop:
        pid = os.fork()
        if pid == 0:
            leaf(1000)
            os._exit(3)
        assert os.waitpid(pid, 0)[1] == 3 << 8
        time.sleep(0.02)


runs = (computes, waits, makes_code, begins_threads, collects)
threads = [threading.Thread(target=run, name=run.__name__) for run in runs]
for thread in threads:
    thread.start()
forks()
for thread in threads:
    thread.join()
assert not sys._is_gil_enabled()
