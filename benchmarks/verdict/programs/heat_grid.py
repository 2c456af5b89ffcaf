"""Heat spreading over a plate, with a Python list of probes that is kept at every step: NumPy without BLAS."""

import itertools
import json
from pathlib import Path

import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())


class Probe:
    def __init__(self, row, column):
        self.row, self.column, self.seen = row, column, []

    def read(self, field):
        self.seen.append(float(field[self.row, self.column]))

    def drift(self):
        recent = self.seen[-8:]
        return sum(abs(b - a) for a, b in itertools.pairwise(recent))


def step(field, conductivity):
    inner = field[1:-1, 1:-1]
    laplace = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner
    return inner + 0.2 * conductivity[1:-1, 1:-1] * laplace


def radiate(inner):
    return inner - 1e-12 * inner**4


def edges(field):
    field[0], field[-1] = field[1], field[-2]
    field[:, 0], field[:, -1] = field[:, 1], field[:, -2]


def collect(probes, field):
    for probe in probes:
        probe.read(field)
    return sorted(probes, key=Probe.drift)[-1]


def main():
    n = int(360 * SETTINGS["size"])
    rng = np.random.default_rng(0)
    field, conductivity = 300 + 50 * rng.random((n, n)), rng.random((n, n))
    probes = [Probe(int(r), int(c)) for r, c in rng.integers(1, 300, (300, 2))]
    for _ in range(SETTINGS["work"]):
        field[1:-1, 1:-1] = radiate(step(field, conductivity))
        edges(field)
        collect(probes, field)


main()
