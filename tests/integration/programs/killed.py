"""Works in a function that never returns, until it is killed."""

import os
import signal
import sys
import time


def leaf(n):
    return sum(range(n))


def step():
    for _ in range(20):
        leaf(3000)


def train(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
    if sys.argv[2] == "segfault":
        import ctypes

        ctypes.string_at(0)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    time.sleep(10)


train(float(sys.argv[1]))
