"""Join and sum up tables of trips, and label them row by row: Polars and its own threads."""

import json
from pathlib import Path

import numpy as np
import polars as pl

SETTINGS = json.loads(Path("settings.json").read_text())
ZONES = 260


def make_trips(rows, seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "start": rng.integers(0, ZONES, rows),
            "end": rng.integers(0, ZONES, rows),
            "minute": rng.integers(0, 1440, rows),
            "fare": rng.gamma(3, 5, rows),
        }
    )


def zones():
    return pl.DataFrame({"zone": np.arange(ZONES), "borough": [f"b{i % 7}" for i in range(ZONES)]})


def by_slot(trips, places):
    joined = trips.join(places, left_on="start", right_on="zone").join(
        places, left_on="end", right_on="zone", suffix="_end"
    )
    return (
        joined.with_columns(slot=pl.col("minute") // 5)
        .group_by("borough", "borough_end", "slot")
        .agg(pl.col("fare").mean(), pl.len(), pl.col("fare").quantile(0.9).alias("high"))
        .sort("borough", "borough_end", "slot")
    )


def label(row):
    kind = "night" if row["slot"] < 72 else "day"
    return f"{row['borough']}-{row['borough_end']}-{kind}:{row['fare']:.2f}"


def labels(table):
    return [label(row) for row in table.iter_rows(named=True)]


def ranked(trips):
    return trips.sort("fare", descending=True).with_columns(
        rank=pl.col("fare").rank().over("start"), share=pl.col("fare") / pl.col("fare").sum().over("end")
    )


def main():
    places = zones()
    rows = int(400_000 * SETTINGS["size"])
    for turn in range(SETTINGS["work"]):
        trips = make_trips(rows, turn)
        labels(by_slot(trips, places))
        ranked(trips)


main()
