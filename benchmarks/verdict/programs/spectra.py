"""Power spectra with several FFT threads, then a sparse system that is solved by conjugate gradients: SciPy."""

import json
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.sparse
import scipy.sparse.linalg

SETTINGS = json.loads(Path("settings.json").read_text())


def make_signals(rows, length, seed):
    return np.random.default_rng(seed).standard_normal((rows, length))


def power(signals):
    return np.abs(scipy.fft.rfft(signals, axis=1, workers=SETTINGS["threads"])) ** 2


def band_means(spectrum, bands):
    return np.stack([part.mean(axis=1) for part in np.array_split(spectrum, bands, axis=1)], axis=1)


def poisson(n):
    one = scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n))
    identity = scipy.sparse.identity(n)
    return (scipy.sparse.kron(one, identity) + scipy.sparse.kron(identity, one)).tocsr()


def relax(matrix, right):
    return scipy.sparse.linalg.cg(matrix, right, rtol=1e-4, maxiter=60)[0]


def main():
    length = int(40_000 * SETTINGS["size"])
    matrix = poisson(int(90 * SETTINGS["size"]))
    for part in range(SETTINGS["work"]):
        means = band_means(power(make_signals(16, length, part)), 40)
        relax(matrix, np.resize(means, matrix.shape[0]))


main()
