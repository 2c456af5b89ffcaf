"""A mix of NumPy and Python: clusters, a stencil, and a particle filter: ``arrays.py WORK``.

``weigh`` is made slower by the variable SLOWER.
"""

import os
import sys

import numpy as np

STEPS = round(30 * float(os.environ.get("SLOWER", "1")))


def distances(points, centres):
    return ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)


def assigned(points, centres):
    return distances(points, centres).argmin(axis=1)


def moved(points, labels, centres):
    return np.array([centre(points[labels == k], old) for k, old in enumerate(centres)])


def centre(members, old):
    return members.mean(axis=0) if len(members) else old


def relaxed(grid):
    inner = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    result = grid.copy()
    result[1:-1, 1:-1] = inner / 4
    return result


def residual(grid):
    return float(np.abs(relaxed(grid) - grid).max())


def weigh(state, seen):
    error = abs(state - seen)
    weight = 1.0
    for _ in range(STEPS):
        weight = weight * 0.5 + 0.5 / (1.0 + error * weight)
    return weight


def drift(state, noise):
    return 0.9 * state + noise


def resampled(states, weights, offset):
    total, position, result, i = sum(weights), offset, [], 0
    step, reached = total / len(states), weights[0]
    for _ in states:
        while reached < position * step and i < len(states) - 1:
            i += 1
            reached += weights[i]
        result.append(states[i])
        position += 1
    return result


def mean(states):
    total = 0.0
    for state in states:
        total += state
    return total / len(states)


def spread(states, middle):
    return max(abs(state - middle) for state in states)


def spectrum(signal):
    return np.abs(np.fft.rfft(signal * np.hanning(len(signal))))


def peaks(values):
    found = []
    for i in range(1, len(values) - 1):
        if is_peak(values, i):
            found.append(i)
    return found


def is_peak(values, i):
    return values[i - 1] < values[i] > values[i + 1]


def main():
    rng = np.random.default_rng(3)
    points, grid = rng.normal(size=(4000, 3)), rng.random((300, 300))
    centres, states = points[:8], list(rng.normal(size=150))
    signal = rng.normal(size=512)
    total = 0.0
    for _ in range(90 * int(sys.argv[1])):
        centres = moved(points, assigned(points, centres), centres)
        grid = relaxed(grid)
        total += residual(grid)
        for noise in rng.normal(size=6).tolist():
            states = [drift(state, noise) for state in states]
            states = resampled(states, [weigh(state, noise) for state in states], 0.5)
            total += spread(states, mean(states))
        total += len(peaks(spectrum(signal).tolist()))
        signal = np.roll(signal, 1)
    print(round(total, 6))


main()
