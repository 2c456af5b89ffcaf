"""Principal components and a ridge path on dense data: NumPy, its BLAS with threads."""

import json
from pathlib import Path

import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())


def make_data(samples, features, seed):
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((24, features))
    return rng.standard_normal((samples, 24)) @ basis + 0.1 * rng.standard_normal((samples, features))


def subspace_iteration(data, components, rounds):
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((data.shape[1], components)))[0]
    for _ in range(rounds):
        q, r = np.linalg.qr(data.T @ (data @ q))
    return q, np.abs(np.diag(r))


def gram_matrix(data):
    return data.T @ data


def ridge_path(gram, moments, strengths):
    identity = np.eye(len(gram))
    return [np.linalg.solve(gram + strength * identity, moments) for strength in strengths]


def whiten(data, gram):
    lower = np.linalg.cholesky(gram / len(data) + 1e-3 * np.eye(len(gram)))
    return np.linalg.solve(lower, data[: len(gram)].T)


def main():
    features = int(320 * SETTINGS["size"])
    data = make_data(1400, features, 0)
    target = data @ np.ones((features, 1))
    for _ in range(SETTINGS["work"]):
        subspace_iteration(data, 32, 4)
        gram = gram_matrix(data)
        ridge_path(gram, data.T @ target, np.geomspace(0.01, 100, 12))
        whiten(data, gram)


main()
