"""A graph of some thousand small tasks and an array, both on Dask's threads."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db


def word_lengths(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def main() -> None:
    dask.config.set(scheduler="threads", num_workers=2)
    lines = [f"line {number} has some words in it and {number * 7} of them" for number in range(20_000)]
    bag = db.from_sequence(lines, npartitions=100)
    lengths = bag.map(word_lengths).flatten().frequencies().compute()
    array = da.random.default_rng(1).random((2000, 2000), chunks=(200, 200))
    for _ in range(6):
        total = float(((array + array.T) ** 2 - array.mean(axis=0)).sum().compute())
    print(f"{sum(count for _, count in lengths)} words, sum {total:.0f}")


if __name__ == "__main__":
    main()
