"""Train a linear model on compressed records that loader threads decode ahead of the training loop.

Threads read and decode shards into a bounded queue, as the prefetching loaders of the frameworks do; when
they are too slow, the training loop waits in ``Queue.get``. Standard library and NumPy.
"""

from __future__ import annotations

import argparse
import queue
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

FEATURES = 64


class Batch(NamedTuple):
    """Features of shape ``(n, FEATURES)`` and targets of shape ``(n,)``."""

    features: Array
    targets: Array


def write_shards(folder: Path, shards: int, rows: int) -> list[Path]:
    """Write compressed records with a linear truth in them."""
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 1, FEATURES)
    paths = []
    for number in range(shards):
        features = np.round(rng.normal(0, 1, (rows, FEATURES)), 2)
        targets = features @ truth + rng.normal(0, 0.1, rows)
        table = np.column_stack([features, targets]).astype("<f4")
        paths.append(folder / f"shard-{number:03d}.z")
        paths[-1].write_bytes(zlib.compress(table.tobytes(), 1))
    return paths


def read_shard(path: Path) -> npt.NDArray[np.float32]:
    """Read and decompress one shard."""
    table = np.frombuffer(zlib.decompress(path.read_bytes()), dtype="<f4")
    return table.reshape(-1, FEATURES + 1)


def standardise(features: Array) -> Array:
    """Give every column mean 0 and deviation 1."""
    return (features - features.mean(axis=0)) / (features.std(axis=0) + np.float32(1e-6))


def clip_outliers(features: Array) -> Array:
    """Limit every column to its own 1st and 99th percentile."""
    low, high = np.percentile(features, (1, 99), axis=0)
    return np.clip(features, low.astype(np.float32), high.astype(np.float32))


def decode(path: Path) -> Batch:
    """Turn one shard into a batch."""
    table = read_shard(path)
    return Batch(standardise(clip_outliers(table[:, :FEATURES])), table[:, FEATURES])


class PrefetchLoader:
    """Decodes shards on threads, at most `depth` batches ahead.

    Parameters
    ----------
    paths
        The shards, in the order they are decoded (batches arrive in the order they are ready).
    threads
        How many threads decode.
    depth
        How many batches may wait in the queue.
    """

    def __init__(self, paths: list[Path], threads: int, depth: int) -> None:
        self.todo: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        for path in [*paths, *[None] * threads]:
            self.todo.put(path)
        self.ready: queue.Queue[Batch | None] = queue.Queue(depth)
        self.threads = [
            threading.Thread(target=self.work, name=f"loader-{n}", daemon=True) for n in range(threads)
        ]
        for thread in self.threads:
            thread.start()

    def work(self) -> None:
        """Decode until nothing is left; runs on every loader thread."""
        while (path := self.todo.get()) is not None:
            self.ready.put(decode(path))
        self.ready.put(None)

    def __iter__(self) -> Iterator[Batch]:
        """Yield every batch once."""
        running = len(self.threads)
        while running:
            batch = self.ready.get()
            if batch is None:
                running -= 1
            else:
                yield batch
        for thread in self.threads:
            thread.join()


class RidgeModel:
    """Linear regression on features and their squares, solved again after every batch."""

    def __init__(self) -> None:
        self.gram = np.eye(2 * FEATURES)
        self.moment = np.zeros(2 * FEATURES)
        self.weights = np.zeros(2 * FEATURES)

    def expand(self, features: Array) -> npt.NDArray[np.float64]:
        """Append the squares of the features."""
        return np.hstack([features, features**2]).astype(np.float64)

    def error(self, batch: Batch) -> float:
        """Return the mean squared error on a batch."""
        return float(((self.expand(batch.features) @ self.weights - batch.targets) ** 2).mean())

    def learn(self, batch: Batch) -> None:
        """Take in one batch."""
        rows = self.expand(batch.features)
        self.gram += rows.T @ rows
        self.moment += rows.T @ batch.targets
        self.weights = np.linalg.solve(self.gram, self.moment)


def main() -> None:
    """Write the data, then train over it."""
    parser = argparse.ArgumentParser(description="Train on records that threads decode ahead.")
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--rows", type=int, default=2048, help="records in a shard")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="loader threads")
    parser.add_argument("--depth", type=int, default=4, help="batches that may wait in the queue")
    options = parser.parse_args()
    model = RidgeModel()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_shards(Path(folder), options.shards, options.rows)
        for _ in range(options.epochs):
            for batch in PrefetchLoader(paths, options.threads, options.depth):
                model.learn(batch)
        error = model.error(decode(paths[0]))
    print(f"mean squared error {error:.4f}")


if __name__ == "__main__":
    main()
