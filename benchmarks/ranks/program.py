"""An MPI job of four kinds of communication; one rank gets one cause of being late.

``program.py KIND CAUSE RANK DIRECTORY``. KIND: ``allreduce``, ``bcast``, ``ring`` (each rank sends to the next one),
``collect`` (the late rank receives from all others). A step is what a rank of a training does: it waits for its
device, computes on the CPU, reads its part of the data from a feed, and communicates. Causes from outside (a
neighbour, a stopped process) find the rank by the file ``pid``.
"""

import gc
import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

KIND, CAUSE, LATE, DIRECTORY = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
STEPS, DEVICE_S = 100, 0.02
WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()


def parse(records):
    total = 0
    for i in range(records):
        total = (total * 31 + i) & 0xFFFF
    return total


def forward(batch, weights):
    return np.tanh(batch @ weights)


def backward(batch, out):
    grads = 0.0
    for row in out[:40]:
        grads += float(row @ row)
    return grads + float((batch.T @ out).sum())


def compute(batch, weights, times):
    value = 0.0
    for _ in range(times):
        value += parse(4000)
        value += backward(batch, forward(batch, weights))
    return value


def make_records(number):
    return [{"index": i, "tokens": [i, i + 1]} for i in range(number)]


def read_part(feed):
    return os.read(feed, 4096)


def start_feed(late):
    """A process that answers each step; a late one answers after a while, as a store that is busy."""
    there, here = os.pipe(), os.pipe()
    if os.fork() == 0:
        for _ in range(STEPS):
            os.read(there[0], 1)
            if late:
                time.sleep(0.03)
            os.write(here[1], b"x" * 4096)
        os._exit(0)
    return there[1], here[0]


def communicate(value):
    mine = np.full(2000, value)
    if KIND == "allreduce":
        WORLD.Allreduce(mine, np.empty_like(mine))
    elif KIND == "bcast":
        WORLD.Bcast(mine, root=LATE)
    elif KIND == "ring":
        request = WORLD.Isend(mine, dest=(RANK + 1) % SIZE)
        WORLD.Recv(np.empty_like(mine), source=(RANK - 1) % SIZE)
        request.Wait()
    elif RANK == LATE:
        theirs = np.empty_like(mine)
        for other in range(SIZE):
            if other != RANK:
                WORLD.Recv(theirs, source=other)
    else:
        WORLD.Ssend(mine, dest=LATE)


def main():
    late = RANK == LATE
    random = np.random.default_rng(RANK)
    batch, weights = random.standard_normal((64, 96)), random.standard_normal((96, 96)) / 10
    ask, feed = start_feed(late and CAUSE == "loading")
    kept = []
    if late:
        (DIRECTORY / "pid").write_text(str(os.getpid()))
    WORLD.Barrier()
    for _ in range(STEPS):
        time.sleep(DEVICE_S)
        os.write(ask, b"?")
        read_part(feed)
        value = compute(batch, weights, 16 if late and CAUSE == "work" else 4)
        if late and CAUSE == "gc":
            kept += make_records(6000)
        elif CAUSE == "gc":
            make_records(6000)
        if late and CAUSE == "late":
            time.sleep(0.03)
        communicate(value)


gc.set_threshold(700, 10, 3)
main()
