"""Nearest neighbours and k-means on dense vectors: NumPy, distances by its BLAS."""

import json
from pathlib import Path

import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())


def make_vectors(count, width, seed):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, width)) * 3
    return (centres[rng.integers(0, 40, count)] + rng.standard_normal((count, width))).astype(np.float32)


def distances(queries, vectors):
    return (queries**2).sum(1)[:, None] - 2 * queries @ vectors.T + (vectors**2).sum(1)[None]


def nearest(table, k):
    return np.argpartition(table, k, axis=1)[:, :k]


def vote(found, labels):
    return np.array([np.bincount(row, minlength=40).argmax() for row in labels[found]])


def update(vectors, labels, count):
    sums = np.zeros((count, vectors.shape[1]))
    np.add.at(sums, labels, vectors)
    return sums / np.maximum(np.bincount(labels, minlength=count), 1)[:, None]


def main():
    vectors = make_vectors(int(4000 * SETTINGS["size"]), 48, 0)
    centres = vectors[:40].astype(np.float64)
    for part in range(SETTINGS["work"]):
        labels = distances(vectors, centres).argmin(axis=1)
        centres = update(vectors, labels, 40)
        queries = vectors[part * 13 % 2000 :][:300]
        vote(nearest(distances(queries, vectors), 9), labels)


main()
