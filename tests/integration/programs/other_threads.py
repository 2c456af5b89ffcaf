"""Python called from threads that `threading` has not started: by `_thread`, and by a C library's own threads.

``other_threads.py LIBRARY`` prints what is left of the program after a deep recursion.
"""

import _thread
import ctypes
import sys
import threading

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def inner(i):
    return i + 1


def called(i):
    return inner(i)


def by_hand(i):
    return i


def alone(n, done):
    for i in range(n):
        by_hand(i)
    done.release()


def by_thread(i):
    return i


def usual(n):
    for i in range(n):
        by_thread(i)


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def main():
    library = ctypes.CDLL(sys.argv[1])
    callback = CALLBACK(called)
    library.call_from_thread(callback, 3000)
    library.call_from_thread(callback, 2000)
    done = _thread.allocate_lock()
    for _ in range(2):
        done.acquire()
        _thread.start_new_thread(alone, (400, done))
        with done:
            pass
    threads = [threading.Thread(target=usual, args=(100,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setrecursionlimit(30_000)
    depth = 20_000 if sys.version_info >= (3, 11) else 2_000
    print(deep(depth))


main()
