"""Integrate a small planetary system and look for close encounters: SciPy's solve_ivp over Python functions."""

import json
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

SETTINGS = json.loads(Path("settings.json").read_text())
BODIES = int(8 * SETTINGS["size"])


def start(seed):
    rng = np.random.default_rng(seed)
    radius = np.linspace(1, 5, BODIES)
    angle = rng.uniform(0, 2 * np.pi, BODIES)
    place = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    speed = np.column_stack([-np.sin(angle), np.cos(angle)]) / np.sqrt(radius)[:, None]
    return np.concatenate([place.ravel(), speed.ravel()]), rng.uniform(1e-5, 1e-3, BODIES)


def central(place):
    return -place / (np.einsum("ij,ij->i", place, place) ** 1.5)[:, None]


def mutual(place, mass):
    apart = place[None] - place[:, None]
    cubes = (np.einsum("ijk,ijk->ij", apart, apart) + 1e-4) ** 1.5
    return np.einsum("j,ijk->ik", mass, apart / cubes[..., None])


def motion(_time, state, mass):
    place, speed = state.reshape(2, BODIES, 2)
    return np.concatenate([speed.ravel(), (central(place) + mutual(place, mass)).ravel()])


def gap(solution, time):
    place = solution(time)[: 2 * BODIES].reshape(BODIES, 2)
    return np.hypot(*(place[0] - place[1])) - 1.0


def encounters(solution, end):
    times = np.linspace(0, end, 200)
    values = [gap(solution, time) for time in times]
    signs = np.flatnonzero(np.diff(np.sign(values)))
    return [brentq(lambda time: gap(solution, time), times[i], times[i + 1]) for i in signs]


def main():
    for turn in range(SETTINGS["work"]):
        state, mass = start(turn)
        solved = solve_ivp(motion, (0, 20), state, "RK45", dense_output=True, args=(mass,), rtol=1e-6)
        encounters(solved.sol, 20)


main()
