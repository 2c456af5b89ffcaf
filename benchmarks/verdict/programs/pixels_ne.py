"""Tone-map pictures with compiled expressions: numexpr and its threads."""

import json
from pathlib import Path

import numexpr
import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())


def make_picture(side, seed):
    return np.random.default_rng(seed).random((side, side)) * 8


def tone_map(picture):
    return numexpr.evaluate("(picture * (2.5 * picture + 0.03)) / (picture * (2.4 * picture + 0.6) + 0.14)")


def vignette(picture, x, y):
    return numexpr.evaluate("picture * exp(-2.0 * (x * x + y * y)) * (1 + 0.1 * sin(9 * x) * cos(9 * y))")


def percentiles(picture):
    return np.percentile(picture[::4, ::4], (1, 50, 99))


def stretch(picture, low, high):
    return np.clip((picture - low) / max(high - low, 1e-6), 0, 1)


def main():
    numexpr.set_num_threads(SETTINGS["threads"])
    side = int(700 * SETTINGS["size"])
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    picture = make_picture(side, 0)
    for _ in range(SETTINGS["work"]):
        shown = vignette(tone_map(picture), x, y)
        low, _, high = percentiles(shown)
        stretch(shown, low, high)


main()
