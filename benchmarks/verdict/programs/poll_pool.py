"""Score records in a pool of processes; the parent polls for results, never blocks: multiprocessing, pure Python."""

import json
import multiprocessing
import threading
import time
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
DONE, GUARD = [], threading.Lock()


def make_record(seed):
    state, values = seed * 2654435761 % 4294967296 or 1, []
    for _ in range(int(900 * SETTINGS["size"])):
        state = (state * 1664525 + 1013904223) % 4294967296
        values.append(state >> 16)
    return values


def weigh(values):
    total = 0
    for value in values:
        total = (total * 31 + value) % 999983
    return total


def rank(values):
    return sorted(values, key=lambda value: (value % 97, value))[:: len(values) // 10]


def score(seed):
    values = make_record(seed)
    return weigh(values), rank(values)


def keep(result):
    while not GUARD.acquire(blocking=False):
        time.sleep(0.0005)
    DONE.append(result)
    GUARD.release()


def collect(waiting):
    while waiting:
        ready = [entry for entry in waiting if entry.ready()]
        for entry in ready:
            keep(entry.get())
        waiting = [entry for entry in waiting if entry not in ready]
        time.sleep(0.001)


def main():
    with multiprocessing.get_context("fork").Pool(SETTINGS["workers"]) as pool:
        for start in range(0, 40 * SETTINGS["work"], 40):
            collect([pool.apply_async(score, (seed,)) for seed in range(start, start + 40)])
        pool.close()
        pool.join()


main()
