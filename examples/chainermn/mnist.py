"""Digits of MNIST's shape, drawn here: nothing is downloaded. Chainer's ``get_mnist()`` finds them as its own."""

import os
import tempfile
from pathlib import Path

import numpy
from chainer.dataset import download

TRAIN, TEST = 12_000, 2_000
#: Seven-segment digits: the segments top, upper left, upper right, middle, lower left, lower right, bottom.
SEGMENTS = (
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
)
PLACES = (
    (4, 6, 8, 20),
    (4, 14, 7, 9),
    (4, 14, 19, 21),
    (13, 15, 8, 20),
    (14, 24, 7, 9),
    (14, 24, 19, 21),
    (22, 24, 8, 20),
)


def ensure_mnist() -> None:
    """Write ``train.npz`` and ``test.npz`` into Chainer's data set directory unless they are there."""
    folder = Path(download.get_dataset_directory("pfnet/chainer/mnist"))
    for seed, (name, count) in enumerate((("train.npz", TRAIN), ("test.npz", TEST))):
        if (folder / name).exists():
            continue
        images, labels = drawn(count, seed)
        handle, made = tempfile.mkstemp(dir=folder, suffix=".npz")
        with os.fdopen(handle, "wb") as file:
            numpy.savez_compressed(file, x=images, y=labels)
        os.replace(made, folder / name)


def drawn(count: int, seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return images, shape (count, 784) uint8, and labels, shape (count,) uint8."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(0, 10, count).astype(numpy.uint8)
    glyphs = numpy.zeros((10, 28, 28))
    for digit, segments in enumerate(SEGMENTS):
        for on, (top, bottom, left, right) in zip(segments, PLACES, strict=True):
            if on == "1":
                glyphs[digit, top:bottom, left:right] = 200
    images = glyphs[labels] * random.uniform(0.6, 1, (count, 1, 1)) + random.normal(0, 25, (count, 28, 28))
    for i, (down, right) in enumerate(random.integers(-3, 4, (count, 2))):
        images[i] = numpy.roll(images[i], (down, right), (0, 1))
    return numpy.clip(images, 0, 255).astype(numpy.uint8).reshape(count, 784), labels
