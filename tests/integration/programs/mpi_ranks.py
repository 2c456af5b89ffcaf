"""Data-parallel steps over MPI, in which one rank may do more work than the others.

``mpi_ranks.py STEPS``: all ranks do the same.
``mpi_ranks.py STEPS RANK EXTRA``: that rank computes ``1 + EXTRA`` times as much in every step.
"""

import sys

import nvtx
from mpi4py import MPI

WORK = 12000


def parse(count):
    total = 0
    for i in range(count):
        total += i % 7
    return total


def gradient(count):
    total = 0.0
    for i in range(count):
        total += (i & 15) * 0.5
    return total


def all_reduce(comm, value):
    return comm.allreduce(value)


def train(comm, steps, work):
    total = 0.0
    for _ in range(steps):
        with nvtx.annotate("step"):
            with nvtx.annotate("load batch"):
                parse(WORK)
            with nvtx.annotate("forward"):
                value = gradient(work)
            total += all_reduce(comm, value)
    return total


def main():
    comm = MPI.COMM_WORLD
    work = 3 * WORK
    if sys.argv[2:] and comm.Get_rank() == int(sys.argv[2]):
        work = int(work * (1.0 + float(sys.argv[3])))
    train(comm, int(sys.argv[1]), work)
    if comm.Get_rank() == 0:
        print(comm.Get_size(), "ranks")


if __name__ == "__main__":
    main()
