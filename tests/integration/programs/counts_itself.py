"""Counts in a file what it has called, from threads and a Pool: ``python counts_itself.py FILE [pool]``.

Each thread has a counter of 8 bytes of its own in the mapped FILE, which it raises by one in every call of `counted`:
however the process ends, the file has what was called. What is in it at the end is compared with the profile.
"""

import ctypes
import mmap
import os
import sys
import threading
import time

SLOTS = 64


def shared(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), SLOTS * 8)


def run(memory, slot, seconds):
    counter = ctypes.c_uint64.from_buffer(memory, slot * 8)

    def counted():
        counter.value += 1

    def work():
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(100):
                counted()

    work()


def augment(path, slot):
    run(shared(path), slot, 0.05)
    return slot


def main():
    path = sys.argv[1]
    if len(sys.argv) > 2:
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.starmap(augment, [(path, slot) for slot in range(6)], chunksize=1)
        return
    memory = shared(path)
    for slot in (1, 2):
        threading.Thread(target=run, args=(memory, slot, 60), name=f"counts-{slot}", daemon=True).start()
    counter = ctypes.c_uint64.from_buffer(memory, 8 * (SLOTS - 1))
    counter.value = os.getpid()
    run(memory, 0, 60)


if __name__ == "__main__":
    main()
