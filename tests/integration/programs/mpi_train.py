"""A data-parallel least-squares fit: every rank has its own data, gradients are summed over the ranks."""

import numpy as np
from mpi4py import MPI


def load_batch(rng, n, k, weights):
    x = rng.normal(size=(n, k))
    return x, x @ weights


def gradient(x, y, w):
    return x.T @ (x @ w - y) / len(y)


def all_reduce(comm, local):
    total = np.empty_like(local)
    comm.Allreduce(local, total)
    return total / comm.Get_size()


def train(comm, steps):
    rng = np.random.default_rng(comm.Get_rank())
    truth = np.arange(8.0)
    w = np.zeros(8)
    for _ in range(steps):
        x, y = load_batch(rng, 256, 8, truth)
        w -= 0.1 * all_reduce(comm, gradient(x, y, w))
    return float(np.abs(w - truth).max())


if __name__ == "__main__":
    comm = MPI.COMM_WORLD
    error = train(comm, 100)
    if comm.Get_rank() == 0:
        print(f"{comm.Get_size()} ranks, error {error:.3f}")
