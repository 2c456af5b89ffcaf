"""A nightly job: the trend of each store's sales, a process for each store, one after another."""

import argparse
import json
import subprocess
import sys

import numpy as np

DAYS = 700


def sales(store):
    """Two years of sales of one store."""
    rng = np.random.default_rng(store)
    days = np.arange(DAYS)
    return 100 + 0.02 * days + 10 * np.sin(days * 2 * np.pi / 7) + rng.standard_normal(DAYS) * 5


def design(days):
    """Columns of the model: a line, and the week."""
    week = days * 2 * np.pi / 7
    return np.column_stack([np.ones(len(days)), days, np.sin(week), np.cos(week)])


def fit_lean(columns, values):
    """Least squares with NumPy alone."""
    return np.linalg.lstsq(columns, values, rcond=None)[0]


def fit_sklearn(columns, values):
    """The same with scikit-learn."""
    from sklearn.linear_model import LinearRegression

    return LinearRegression(fit_intercept=False).fit(columns, values).coef_


def bootstrap(fit, store, rounds):
    """Slope of the trend, with its interval from resampled days."""
    values, columns = sales(store), design(np.arange(DAYS))
    rng = np.random.default_rng(store)
    slopes = []
    for _ in range(rounds):
        chosen = rng.integers(0, DAYS, DAYS)
        slopes.append(np.linalg.lstsq(columns[chosen], values[chosen], rcond=None)[0][1])
    low, high = np.quantile(slopes, [0.025, 0.975])
    return {"store": store, "slope": float(fit(columns, values)[1]), "low": float(low), "high": float(high)}


def work(store, backend, rounds):
    """What one worker does: print its result for the parent."""
    fit = {"lean": fit_lean, "sklearn": fit_sklearn}[backend]
    print(json.dumps(bootstrap(fit, store, rounds)))


def run_all(stores, backend, rounds):
    """Start the workers in turn, and gather what they print."""
    found = []
    for store in range(stores):
        command = [
            sys.executable,
            __file__,
            "--backend",
            backend,
            "--rounds",
            str(rounds),
            "--store",
            str(store),
        ]
        found.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["lean", "sklearn"], default="lean")
    parser.add_argument("--stores", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=14_000)
    parser.add_argument("--store", type=int, help="work on this store alone, as a worker")
    options = parser.parse_args()
    if options.store is not None:
        work(options.store, options.backend, options.rounds)
        return
    for row in run_all(options.stores, options.backend, options.rounds):
        print(f"store {row['store']}: {row['slope']:+.4f} a day ({row['low']:+.4f} to {row['high']:+.4f})")


if __name__ == "__main__":
    main()
