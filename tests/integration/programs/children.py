"""Starts children in the way that its first argument names; each calls ``child_work`` once per task."""

import multiprocessing
import os
import sys
import time


def child_work(i):
    end = time.perf_counter() + 0.15
    while time.perf_counter() < end:
        sum(range(500))
    return i


def in_child():
    child_work(0)


def second_image():
    child_work(2)


def first_image():
    child_work(1)


def main(way):
    if way in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(way)
        children = [context.Process(target=in_child) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    elif way == "exec":
        first_image()
        os.execv(sys.executable, [sys.executable, __file__, "second"])
    elif way == "second":
        second_image()


if __name__ == "__main__":
    main(sys.argv[1])
