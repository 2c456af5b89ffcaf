"""Boost trees over tables with categories and score them by an own measure: LightGBM, its threads."""

import json
from pathlib import Path

import lightgbm
import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())
CATEGORIES = 400


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((rows, 16))
    codes = rng.integers(0, CATEGORIES, rows)
    signal = numbers[:, 0] * numbers[:, 1] + np.sin(codes) + rng.normal(0, 0.5, rows)
    return numbers, codes, (signal > 0.3).astype(float)


def encode(codes, labels):
    """Return of each row the share of ones in its category."""
    counts = np.bincount(codes, minlength=CATEGORIES)
    ones = np.bincount(codes, labels, minlength=CATEGORIES)
    return (ones / np.maximum(counts, 1))[codes]


def ranked_gain(scores, data):
    labels = data.get_label()
    order = np.argsort(-scores)
    gains = labels[order] / np.log2(np.arange(2, len(order) + 2))
    return "ranked_gain", float(gains.sum()), True


def fold_of(count, part, parts):
    return np.arange(count) % parts == part


def fit(table, labels, held):
    train = lightgbm.Dataset(table[~held], labels[~held])
    valid = lightgbm.Dataset(table[held], labels[held], reference=train)
    options = {
        "objective": "binary",
        "num_leaves": 31,
        "num_threads": SETTINGS["threads"],
        "verbose": -1,
        "metric": "None",
        "deterministic": True,
    }
    return lightgbm.train(options, train, 25, valid_sets=[valid], feval=ranked_gain)


def main():
    rows = int(12_000 * SETTINGS["size"])
    for turn in range(SETTINGS["work"]):
        numbers, codes, labels = make_table(rows, turn)
        table = np.column_stack([numbers, encode(codes, labels)])
        held = fold_of(rows, turn % 5, 5)
        fit(table, labels, held).predict(table[held], num_threads=SETTINGS["threads"])


main()
