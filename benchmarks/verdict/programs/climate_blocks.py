"""Anomalies and trends of a climate record in blocks, by a scheduler of threads: Dask arrays and delayed calls."""

import json
from pathlib import Path

import dask
import dask.array as da
import numpy as np

SETTINGS = json.loads(Path("settings.json").read_text())
DAYS = 365


def season(days):
    return 10 * np.sin(2 * np.pi * np.arange(days) / DAYS)


def make_record(seed, years):
    side = int(90 * SETTINGS["size"])
    rng = da.random.default_rng(seed)
    noise = rng.normal(0, 2, size=(years * DAYS, side, side), chunks=(DAYS, side // 2, side // 2))
    return noise + da.from_array(season(years * DAYS), chunks=DAYS)[:, None, None]


def anomalies(record):
    days = record.shape[0]
    mean = record.reshape(days // DAYS, DAYS, *record.shape[1:]).mean(axis=0)
    return record - da.tile(mean, (days // DAYS, 1, 1))


def fit_line(series):
    """Return the slope of each column."""
    x = np.arange(len(series)) - (len(series) - 1) / 2
    return x @ (series - series.mean(axis=0)) / (x @ x)


@dask.delayed
def heat_waves(block):
    """Return the longest run of hot days of each place."""
    hot = block > 3
    longest = np.zeros(hot.shape[1:], int)
    current = np.zeros_like(longest)
    for day in hot:
        current = (current + 1) * day
        np.maximum(longest, current, out=longest)
    return longest.max()


@dask.delayed
def trend(block):
    return fit_line(block.reshape(len(block), -1)).mean()


def main():
    with dask.config.set(scheduler="threads", num_workers=SETTINGS["workers"]):
        for turn in range(SETTINGS["work"]):
            blocks = anomalies(make_record(turn, 3)).to_delayed().ravel()
            dask.compute([heat_waves(block) for block in blocks], [trend(block) for block in blocks])


main()
