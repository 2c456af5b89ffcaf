"""Train a small image classifier in NumPy, fed by worker processes that augment its batches.

The program of ``profkit demo`` and ``sample_profiles/train_mlp``. The arithmetic is the same for every number
of workers and BLAS threads::

    OMP_NUM_THREADS=1 python -m profkit.demo.train --workers 1
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

CLASSES = 10


class Dataset(NamedTuple):
    """Images of shape ``(n, size, size)`` in [0, 1] with noise, and their classes of shape ``(n,)``."""

    images: Array
    labels: Labels


class Task(NamedTuple):
    """One batch for a worker: which images, and the seed of their distortions."""

    indices: Labels
    seed: int


def make_dataset(count: int, size: int, seed: int) -> Dataset:
    """Draw noisy blobs: a class is a fixed arrangement of four bright spots."""
    rng = np.random.default_rng(seed)
    spots = np.random.default_rng(7).uniform(0.25, 0.75, (CLASSES, 4, 2)) * size
    rows, columns = np.mgrid[0:size, 0:size]
    distance = (rows - spots[..., 0, None, None]) ** 2 + (columns - spots[..., 1, None, None]) ** 2
    prototypes = np.exp(-distance / (size / 8) ** 2).sum(axis=1)
    labels = rng.integers(0, CLASSES, count)
    images = prototypes[labels] + rng.normal(0.0, 0.3, (count, size, size))
    return Dataset(images.astype(np.float32), labels)


# Augmentation: in the workers, or in the training process without workers


class Augmenter:
    """Distorts and whitens batches of one dataset; `crop` is the side of the network's images in pixels."""

    def __init__(self, dataset: Dataset, crop: int) -> None:
        self.dataset = dataset
        self.crop = crop
        centre = centre_crop(dataset.images, crop).reshape(len(dataset.images), -1)
        self.mean = centre.mean(axis=0)
        self.whitening = whitening_matrix(centre - self.mean)

    def batch(self, task: Task) -> tuple[Array, Labels]:
        """Return one augmented batch, shape ``(batch, crop * crop)``, and its labels."""
        rng = np.random.default_rng(task.seed)
        images = self.dataset.images[task.indices]
        images = rotate(images, rng.uniform(-0.3, 0.3, len(images)))
        images = random_crop(images, self.crop, rng)
        return normalise(images, self.mean, self.whitening), self.dataset.labels[task.indices]


def whitening_matrix(centred: Array) -> Array:
    """Return the ZCA matrix of centred rows, shape ``(pixels, pixels)``."""
    covariance = centred.T @ centred / len(centred)
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values + 0.1)) @ vectors.T, dtype=np.float32)


def rotate(images: Array, angles: npt.NDArray[np.float64]) -> Array:
    """Rotate each image about its centre by its angle in radians, with bilinear interpolation."""
    size = images.shape[1]
    middle = (size - 1) / 2
    rows, columns = np.mgrid[0:size, 0:size] - middle
    sine, cosine = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    y = np.clip(cosine * rows - sine * columns + middle, 0, size - 1.001)
    x = np.clip(sine * rows + cosine * columns + middle, 0, size - 1.001)
    return bilinear(images, y, x)


def bilinear(images: Array, y: npt.NDArray[np.float64], x: npt.NDArray[np.float64]) -> Array:
    """Sample every image at its own coordinates, all of shape ``(n, size, size)``."""
    y0, x0 = y.astype(np.intp), x.astype(np.intp)
    dy, dx = (y - y0).astype(np.float32), (x - x0).astype(np.float32)
    n = np.arange(len(images))[:, None, None]
    top = images[n, y0, x0] * (1 - dx) + images[n, y0, x0 + 1] * dx
    bottom = images[n, y0 + 1, x0] * (1 - dx) + images[n, y0 + 1, x0 + 1] * dx
    return np.asarray(top * (1 - dy) + bottom * dy, dtype=np.float32)


def centre_crop(images: Array, crop: int) -> Array:
    """Cut the middle out of every image."""
    offset = (images.shape[1] - crop) // 2
    return images[:, offset : offset + crop, offset : offset + crop]


def random_crop(images: Array, crop: int, rng: np.random.Generator) -> Array:
    """Cut a window out of every image, up to two pixels away from the middle."""
    offset = (images.shape[1] - crop) // 2
    shifts = rng.integers(-2, 3, (len(images), 2)) + offset
    cropped = np.empty((len(images), crop, crop), dtype=np.float32)
    for image, (row, column), out in zip(images, shifts, cropped, strict=True):
        out[:] = image[row : row + crop, column : column + crop]
    return cropped


def normalise(images: Array, mean: Array, whitening: Array) -> Array:
    """Centre and whiten a batch, shape ``(batch, pixels)``."""
    flat = images.reshape(len(images), -1) - mean
    return np.asarray(flat @ whitening, dtype=np.float32)


# The network


class Network:
    """A multilayer perceptron with one hidden layer, trained with Adam."""

    def __init__(self, inputs: int, hidden: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.parameters: list[Array] = [
            rng.normal(0, (2 / inputs) ** 0.5, (inputs, hidden)).astype(np.float32),
            np.zeros(hidden, dtype=np.float32),
            rng.normal(0, (2 / hidden) ** 0.5, (hidden, CLASSES)).astype(np.float32),
            np.zeros(CLASSES, dtype=np.float32),
        ]
        self.momentum = [np.zeros_like(p) for p in self.parameters]
        self.variance = [np.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def forward(self, x: Array) -> tuple[Array, Array]:
        """Return the hidden activations and the logits."""
        w1, b1, w2, b2 = self.parameters
        hidden = relu(x @ w1 + b1)
        return hidden, hidden @ w2 + b2

    def backward(self, x: Array, hidden: Array, error: Array) -> list[Array]:
        """Return the gradients of all parameters from the error of the logits."""
        hidden_error = (error @ self.parameters[2].T) * (hidden > 0)
        return [x.T @ hidden_error, hidden_error.sum(axis=0), hidden.T @ error, error.sum(axis=0)]

    def update(self, gradients: Sequence[Array], rate: float) -> None:
        """Take one step of Adam."""
        self.steps += 1
        scale = rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for p, g, m, v in zip(self.parameters, gradients, self.momentum, self.variance, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= scale * m / (np.sqrt(v) + 1e-7)


def relu(x: Array) -> Array:
    """Return the positive part."""
    return np.maximum(x, 0)


def cross_entropy(logits: Array, labels: Labels) -> tuple[float, Array]:
    """Return the mean loss and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(shifted)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(probabilities[rows, labels] + 1e-9).mean())
    probabilities[rows, labels] -= 1
    return loss, probabilities / np.float32(len(labels))


def train_step(network: Network, x: Array, labels: Labels, rate: float) -> float:
    """Learn from one batch; return its loss."""
    hidden, logits = network.forward(x)
    loss, error = cross_entropy(logits, labels)
    network.update(network.backward(x, hidden, error), rate)
    return loss


def accuracy(network: Network, augmenter: Augmenter, dataset: Dataset) -> float:
    """Return the share of undistorted images that are classified correctly."""
    crop = centre_crop(dataset.images, augmenter.crop)
    _, logits = network.forward(normalise(crop, augmenter.mean, augmenter.whitening))
    return float((logits.argmax(axis=1) == dataset.labels).mean())


# The program

#: Batches per task of a worker; each finished task wakes threads of the training process.
BLOCK = 8

_augmenter: Augmenter | None = None
_blocks: Array


def as_blocks(memory: Any, batch: int, pixels: int) -> Array:
    """Return shared memory as an array of batches, shape ``(blocks, BLOCK, batch, pixels)``."""
    return np.frombuffer(memory, dtype=np.float32).reshape(-1, BLOCK, batch, pixels)


def start_worker(augmenter: Augmenter, memory: Any, batch: int) -> None:
    """Keep this worker's augmenter and output array."""
    global _augmenter, _blocks
    _augmenter, _blocks = augmenter, as_blocks(memory, batch, augmenter.crop**2)


def augment(tasks: list[Task], block: int) -> None:
    """Make the batches of one block in a worker process."""
    assert _augmenter is not None
    for task, out in zip(tasks, _blocks[block], strict=False):
        out[:], _ = _augmenter.batch(task)


class Loader:
    """Makes batches in worker processes, ahead of the training loop that takes them.

    Batches lie in shared memory. Through the pool's pipe each would be pickled and copied several times, and
    a thread of CPython's pool polls while the pipe holds a partial result.
    """

    def __init__(self, augmenter: Augmenter, workers: int, batch: int) -> None:
        pixels = augmenter.crop**2
        memory = multiprocessing.RawArray("f", (workers + 1) * BLOCK * batch * pixels)
        self.labels = augmenter.dataset.labels
        self.blocks = as_blocks(memory, batch, pixels)
        self.pool = multiprocessing.Pool(workers, start_worker, (augmenter, memory, batch))

    def batches(self, tasks: list[Task]) -> Iterator[tuple[Array, Labels]]:
        """Yield the batches in the order of the tasks; each is valid until the next one is requested."""
        parts = [tasks[i : i + BLOCK] for i in range(0, len(tasks), BLOCK)]
        ahead = len(self.blocks)
        made = deque(self.pool.apply_async(augment, (part, i)) for i, part in enumerate(parts[:ahead]))
        for i, part in enumerate(parts):
            made.popleft().get()
            for task, images in zip(part, self.blocks[i % ahead], strict=False):
                yield images, self.labels[task.indices]
            if i + ahead < len(parts):
                made.append(self.pool.apply_async(augment, (parts[i + ahead], i % ahead)))

    def close(self) -> None:
        """End the workers."""
        self.pool.close()
        self.pool.join()


def epoch_tasks(count: int, batch: int, seed: int) -> list[Task]:
    """Shuffle the dataset into the batches of one epoch."""
    order = np.random.default_rng(seed).permutation(count)
    starts = range(0, count - batch + 1, batch)
    return [Task(order[start : start + batch], seed * 100_003 + start) for start in starts]


def train(options: argparse.Namespace) -> float:
    """Train as the options say; return the accuracy reached."""
    dataset = make_dataset(options.images, options.size, seed=1)
    crop = options.size - 8
    augmenter = Augmenter(dataset, crop)
    network = Network(crop * crop, options.hidden, seed=3)
    epochs = [epoch_tasks(options.images, options.batch, seed=10 + i) for i in range(options.epochs)]
    tasks = [task for epoch in epochs for task in epoch]
    loader = Loader(augmenter, options.workers, options.batch) if options.workers else None
    try:
        batches = map(augmenter.batch, tasks) if loader is None else loader.batches(tasks)
        for number, epoch in enumerate(epochs, start=1):
            began = time.perf_counter()
            losses = [train_step(network, x, y, 1e-3) for x, y in islice(batches, len(epoch))]
            elapsed = time.perf_counter() - began
            print(f"epoch {number}: loss {np.mean(losses):.3f}, {elapsed:.2f} s", flush=True)
    finally:
        if loader is not None:
            loader.close()
    return accuracy(network, augmenter, make_dataset(1000, options.size, seed=2))


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description="Train a small image classifier in NumPy.")
    parser.add_argument("--workers", type=int, default=1, help="augmenting processes; 0: none")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64, help="images in a batch")
    parser.add_argument("--images", type=int, default=4096, help="images in the dataset")
    parser.add_argument("--size", type=int, default=36, help="side of an image in pixels")
    parser.add_argument("--hidden", type=int, default=256, help="width of the hidden layer")
    print(f"accuracy {train(parser.parse_args()):.3f}")


if __name__ == "__main__":
    main()
