"""Starts two children in the way that its argument names; each calls ``child_work`` once."""

import multiprocessing
import sys
import time


def child_work():
    end = time.perf_counter() + 0.15
    while time.perf_counter() < end:
        sum(range(500))


def in_child():
    child_work()


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=in_child) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
