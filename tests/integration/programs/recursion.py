"""Recurses in two threads, one after the other, and then stays in a recursive call until it is killed."""

import sys
import threading
import time


def leaf():
    return sum(range(5000))


def deep(n):
    leaf()
    if n:
        deep(n - 1)


def outer(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        deep(10)
    time.sleep(0.1)


def held(n):
    if n:
        held(n - 1)
    while True:
        leaf()


if __name__ == "__main__":
    seconds = float(sys.argv[1])
    thread = threading.Thread(target=outer, args=(seconds,), name="second")
    thread.start()
    thread.join()
    outer(seconds)
    held(5)
