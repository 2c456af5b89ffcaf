"""Search short round trips by a genetic algorithm, fitness in a pool of processes: DEAP, pure Python."""

import contextlib
import json
import math
import multiprocessing
import random
from pathlib import Path

from deap import algorithms, base, creator, tools

SETTINGS = json.loads(Path("settings.json").read_text())
TURN = multiprocessing.get_context("fork").Lock() if SETTINGS.get("serial") else contextlib.nullcontext()
TOWNS = int(90 * SETTINGS["size"])
PLACES = [(random.Random(i).random(), random.Random(i + 1000).random()) for i in range(TOWNS)]

creator.create("Shortest", base.Fitness, weights=(-1.0,))
creator.create("Route", list, fitness=creator.Shortest)


def leg(a, b):
    return math.hypot(PLACES[a][0] - PLACES[b][0], PLACES[a][1] - PLACES[b][1])


def crossings(route):
    """Return how many pairs of neighbouring legs turn back."""
    turns = 0
    for i in range(len(route) - 2):
        a, b, c = (PLACES[town] for town in route[i : i + 3])
        turns += (b[0] - a[0]) * (c[0] - b[0]) + (b[1] - a[1]) * (c[1] - b[1]) < 0
    return turns


def length(route):
    with TURN:
        total = sum(leg(a, b) for a, b in zip(route, route[1:] + route[:1], strict=True))
        return (total + 0.01 * crossings(route),)


def toolbox_of(mapper):
    toolbox = base.Toolbox()
    toolbox.register("order", random.sample, range(TOWNS), TOWNS)
    toolbox.register("individual", tools.initIterate, creator.Route, toolbox.order)
    toolbox.register("population", tools.initRepeat, list, toolbox.individual)
    toolbox.register("mate", tools.cxOrdered)
    toolbox.register("mutate", tools.mutShuffleIndexes, indpb=0.03)
    toolbox.register("select", tools.selTournament, tournsize=3)
    toolbox.register("evaluate", length)
    toolbox.register("map", mapper)
    return toolbox


def main():
    random.seed(1)
    with multiprocessing.get_context("fork").Pool(SETTINGS["workers"]) as pool:
        toolbox = toolbox_of(lambda function, items: pool.map(function, items, chunksize=20))
        algorithms.eaSimple(
            toolbox.population(240), toolbox, cxpb=0.6, mutpb=0.3, ngen=SETTINGS["work"], verbose=False
        )
        pool.close()
        pool.join()


main()
