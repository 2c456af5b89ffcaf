"""Cluster points with k-means and fit a Gaussian to every cluster, on threads and on BLAS.

Distances and covariances are matrix products; whitening, factorising and solving is LAPACK; the chunks of an
iteration go through a ``ThreadPoolExecutor``, since NumPy releases the interpreter lock in them.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]


def make_points(count: int, dimensions: int, clusters: int, seed: int) -> Array:
    """Draw points around random centres, each cluster stretched in its own directions."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, clusters, count)
    centres = rng.normal(0, 4, (clusters, dimensions))
    mixing = rng.normal(0, 1, (clusters, dimensions, dimensions)) / dimensions**0.5
    noise = rng.normal(0, 1, (count, dimensions))
    points = np.empty((count, dimensions))
    for cluster in range(clusters):
        mine = labels == cluster
        points[mine] = centres[cluster] + noise[mine] @ mixing[cluster]
    return points


def reduce_dimensions(points: Array, kept: int) -> Array:
    """Project the points on their leading principal directions, by a singular value decomposition."""
    centred = points - points.mean(axis=0)
    _, _, directions = np.linalg.svd(centred[:: max(1, len(points) // 2000)], full_matrices=False)
    return centred @ directions[:kept].T


def squared_distances(points: Array, centres: Array) -> Array:
    """Return the squared distances, shape ``(points, centres)``."""
    cross = points @ centres.T
    distances: Array = (points**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
    return distances


def assign(points: Array, centres: Array) -> Labels:
    """Return the nearest centre of every point."""
    return squared_distances(points, centres).argmin(axis=1)


def sum_members(points: Array, labels: Labels, clusters: int) -> tuple[Array, Array]:
    """Return the sums and the numbers of the points of each cluster."""
    onehot = np.zeros((clusters, len(points)))
    onehot[labels, np.arange(len(points))] = 1.0
    return onehot @ points, onehot.sum(axis=1)


def step_chunk(points: Array, centres: Array) -> tuple[Array, Array]:
    """Do one thread's part of an iteration."""
    return sum_members(points, assign(points, centres), len(centres))


def cluster(points: Array, clusters: int, iterations: int, chunks: int, threads: int) -> Array:
    """Return the centres after some iterations of Lloyd's algorithm."""
    centres = points[np.random.default_rng(2).choice(len(points), clusters, replace=False)]
    parts = np.array_split(points, chunks)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(iterations):
            results = list(pool.map(lambda part, centres=centres: step_chunk(part, centres), parts))
            sums = sum(result[0] for result in results)
            counts = sum(result[1] for result in results)
            centres = sums / np.maximum(counts, 1)[:, None]
    return centres


def log_density(points: Array, members: Array) -> float:
    """Return the summed log density of points under the Gaussian of a cluster's members."""
    mean = members.mean(axis=0)
    covariance = np.cov(members.T) + 0.1 * np.eye(members.shape[1])
    factor = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(factor, (points - mean).T)
    return float(-0.5 * (scaled**2).sum() - len(points) * np.log(np.diag(factor)).sum())


def score(points: Array, centres: Array, threads: int) -> float:
    """Return the log density of all points, each under its own cluster."""
    labels = assign(points, centres)
    groups = [points[labels == k] for k in range(len(centres))]
    groups = [group for group in groups if len(group) > points.shape[1]]
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(lambda group: log_density(group, group), groups))


def main() -> None:
    """Generate, reduce, cluster and score."""
    parser = argparse.ArgumentParser(description="Cluster points with k-means.")
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--dimensions", type=int, default=96)
    parser.add_argument("--clusters", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=90)
    parser.add_argument("--chunks", type=int, default=16, help="parts that an iteration is divided into")
    parser.add_argument("--threads", type=int, default=1, help="threads that share the chunks")
    options = parser.parse_args()
    points = make_points(options.points, options.dimensions, options.clusters, seed=1)
    points = reduce_dimensions(points, options.dimensions // 2)
    centres = cluster(points, options.clusters, options.iterations, options.chunks, options.threads)
    print(f"log density {score(points, centres, options.threads):.6g}")


if __name__ == "__main__":
    main()
