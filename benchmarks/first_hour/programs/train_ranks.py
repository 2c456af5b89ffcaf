"""Data-parallel training with MPI: each rank has its shards, and rank 1 was given three times as many."""

import argparse

import numpy as np
from mpi4py import MPI

FEATURES, ROWS = 400, 1500


def make_shards(rank, number):
    """The rank's part of the data."""
    rng = np.random.default_rng(rank)
    truth = np.random.default_rng(99).standard_normal(FEATURES)
    shards = []
    for _ in range(number):
        features = rng.standard_normal((ROWS, FEATURES))
        shards.append((features, (features @ truth > 0).astype(float)))
    return shards


def predict(weights, features):
    return 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))


def gradient(weights, features, labels):
    """Of the logistic loss on one shard."""
    odds = predict(weights, features)
    return features.T @ (odds - labels) / len(labels)


def reduce_grads(comm, weights, shards, rows_of_all):
    """The gradient over the shards of all ranks."""
    mine = np.zeros(FEATURES)
    for features, labels in shards:
        mine += gradient(weights, features, labels)
    total = np.empty_like(mine)
    comm.Allreduce(mine, total, op=MPI.SUM)
    return total / rows_of_all


def step(weights, speed, grads, rate=0.5):
    """Momentum."""
    speed *= 0.9
    speed -= rate * grads
    weights += speed


def train(comm, shards, steps):
    weights, speed = np.zeros(FEATURES), np.zeros(FEATURES)
    shards_of_all = comm.allreduce(len(shards))
    for _ in range(steps):
        step(weights, speed, reduce_grads(comm, weights, shards, shards_of_all))
    return weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1300)
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 6], help="of each rank")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    shards = make_shards(comm.rank, options.shards[comm.rank])
    weights = train(comm, shards, options.steps)
    right = np.mean([np.mean((predict(weights, features) > 0.5) == labels) for features, labels in shards])
    rights = comm.gather(float(right))
    if comm.rank == 0:
        print("right on the shards of each rank:", ", ".join(f"{share:.3f}" for share in rights))


if __name__ == "__main__":
    main()
