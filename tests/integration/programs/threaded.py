"""Threads that each do a known amount of work, one of them longer than the others."""

import threading
import time


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def one_task(i):
    return i


def short():
    spin(0.1)


def long():
    spin(0.3)


if __name__ == "__main__":
    threads = [threading.Thread(target=short, name="short"), threading.Thread(target=long, name="long")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(150):
        thread = threading.Thread(target=one_task, args=(i,))
        thread.start()
        thread.join()
