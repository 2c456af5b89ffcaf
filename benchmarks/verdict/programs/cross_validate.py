"""Cross-validate kernel models over a grid in worker processes: joblib with loky, NumPy's BLAS in each."""

import json
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

SETTINGS = json.loads(Path("settings.json").read_text())
SIDE = int(420 * SETTINGS["size"])


def make_table():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2 * SIDE, 24))
    return x, np.tanh(x[:, 0]) + 0.2 * x[:, 1] * x[:, 2] + rng.normal(0, 0.1, len(x))


def kernel(a, b, width):
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    return np.exp(-np.maximum(squares, 0) / (2 * width**2))


def solve(matrix, strength, y):
    return np.linalg.solve(matrix + strength * np.eye(len(matrix)), y)


def interval(errors, seed):
    """Return a bootstrap interval of the mean error."""
    rng = np.random.default_rng(seed)
    means = [errors[rng.integers(0, len(errors), len(errors))].mean() for _ in range(200)]
    return np.quantile(means, [0.05, 0.95])


def score(x, y, width, strength, fold):
    held = np.arange(len(x)) % 4 == fold
    weights = solve(kernel(x[~held], x[~held], width), strength, y[~held])
    errors = (kernel(x[held], x[~held], width) @ weights - y[held]) ** 2
    return errors.mean(), interval(errors, fold)


def main():
    x, y = make_table()
    grid = [(1.0 + 0.5 * i, 10.0 ** -(i % 4)) for i in range(SETTINGS["work"])]
    with Parallel(n_jobs=SETTINGS["workers"]) as parallel:
        for width, strength in grid:
            parallel(delayed(score)(x, y, width, strength, fold) for fold in range(4))


main()
