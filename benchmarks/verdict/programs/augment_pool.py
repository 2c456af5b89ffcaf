"""Augment images in a pool of processes and collect statistics in the parent: multiprocessing and NumPy."""

import contextlib
import json
import multiprocessing
from pathlib import Path

import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())
TURN = multiprocessing.get_context("fork").Lock() if SETTINGS.get("serial") else contextlib.nullcontext()


def make_image(seed):
    side = int(176 * SETTINGS["size"])
    return np.random.default_rng(seed).random((side, side, 3), dtype=np.float32)


def rotate(image, angle):
    side = len(image)
    y, x = np.mgrid[:side, :side] - side / 2
    source_y = np.cos(angle) * y - np.sin(angle) * x + side / 2
    source_x = np.sin(angle) * y + np.cos(angle) * x + side / 2
    rows, columns = source_y.astype(int).clip(0, side - 1), source_x.astype(int).clip(0, side - 1)
    return image[rows, columns]


def blur(image):
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)), mode="edge")
    side = len(image)
    return sum(padded[i : i + side, j : j + side] for i in range(5) for j in range(5)) / 25


def jitter(image, seed):
    rng = np.random.default_rng(seed)
    return np.clip(image * rng.uniform(0.8, 1.2, 3) + rng.normal(0, 0.02, image.shape), 0, 1)


def augment(seed):
    image = make_image(seed)
    with TURN:
        image = blur(jitter(rotate(image, 0.1 * (seed % 7)), seed))
    return image.mean(axis=(0, 1)), image.std(axis=(0, 1))


def merge(results):
    means, deviations = zip(*results, strict=True)
    return np.mean(means, axis=0), np.median(deviations, axis=0)


def main():
    with multiprocessing.get_context("fork").Pool(SETTINGS["workers"]) as pool:
        merge(list(pool.imap_unordered(augment, range(SETTINGS["work"]), chunksize=2)))
        pool.close()
        pool.join()


main()
