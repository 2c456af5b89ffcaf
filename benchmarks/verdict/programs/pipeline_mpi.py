"""Four ranks as the stages of a pipeline with one micro-batch: one computes, the others sleep until it is theirs."""

import json
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

SETTINGS = json.loads(Path("settings.json").read_text())
WORLD = MPI.COMM_WORLD


def receive(source):
    """Wait without spinning: Open MPI would keep a CPU busy."""
    while not WORLD.Iprobe(source=source):
        time.sleep(0.0005)
    return WORLD.recv(source=source)


def make_stage(rank, width):
    return np.random.default_rng(rank).standard_normal((width, width)) / width**0.5


def activate(x):
    return np.where(x > 0, x, 0.1 * np.expm1(x))


def normalise(x):
    return (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-5)


def layer(x, weights):
    for _ in range(6):
        x = normalise(activate(x @ weights))
    return x


def main():
    rank, last = WORLD.Get_rank(), WORLD.Get_size() - 1
    width = int(192 * SETTINGS["size"])
    weights = make_stage(rank, width)
    batch = np.random.default_rng(9).standard_normal((64, width))
    for _ in range(SETTINGS["work"]):
        x = batch if rank == 0 else receive(rank - 1)
        x = layer(x, weights)
        WORLD.send(x, dest=(rank + 1) % (last + 1))
        if rank == 0:
            batch = receive(last)


main()
