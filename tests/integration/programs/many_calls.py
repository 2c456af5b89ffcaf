"""Calls small functions very often, in the main thread and in a Pool's workers, and tries a lock as often.

``many_calls.py [SCALE]`` prints nothing. What matters is which function has the time.
"""

import contextlib
import multiprocessing
import sys
import threading


def tiny(x):
    return x + 1


def small(n):
    total = 0
    for _ in range(n):
        total = tiny(total)
    return total


def tree(depth):
    return small(50) if depth == 0 else tree(depth - 1) + tree(depth - 1)


def drains(items):
    def each():
        yield from (item for item in items)

    kept = []
    for item in each():
        kept.append(item)
        len(kept)
    return kept


def fails(x):
    raise KeyError(x)


def catches(n):
    for i in range(n):
        with contextlib.suppress(KeyError):
            fails(i)


def tries_lock(n):
    lock = threading.Lock()
    for _ in range(n):
        lock.acquire(False)


def seldom():
    return small(3)


def main():
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    for _ in range(int(6 * scale)):
        seldom()
        tree(11)
    drains(list(range(int(300_000 * scale))))
    catches(int(60_000 * scale))
    tries_lock(int(100_000 * scale))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(tree, [10] * 4, chunksize=1)
        pool.close()
        pool.join()
    seldom()


if __name__ == "__main__":
    main()
