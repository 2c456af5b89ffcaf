"""A genetic search in a Pool of two, in nothing but Python: ``genetic.py WORK``."""

import multiprocessing
import random
import sys


def gene(rng):
    return rng.random()


def fitness(genes):
    total = 0.0
    for g in genes:
        total += score(g)
    return total


def score(g):
    return g * g


def cross(one, other, rng):
    return [a if rng.random() < 0.5 else b for a, b in zip(one, other)]  # noqa: B905, Python 3.8


def generation(people, rng, pool):
    marks = pool.map(fitness, people, chunksize=25)
    ranked = [p for _, p in sorted(zip(marks, people), reverse=True)]  # noqa: B905
    best = ranked[: len(people) // 4]
    return best + [cross(rng.choice(best), rng.choice(best), rng) for _ in range(len(people) - len(best))]


if __name__ == "__main__":
    rng = random.Random(1)
    people = [[gene(rng) for _ in range(400)] for _ in range(100)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range(100 * int(sys.argv[1])):
            people = generation(people, rng, pool)
