"""How well ``profkit history`` finds changes: ``python -m benchmarks.history``.

Noise is measured. ``walls``: ten clean repeats of each of the verdict benchmark's 23 programs (`walls.json`), taken
over three quarters of an hour in turn with other runs; a series is drawn with replacement from the repeats of one
program. ``own``: the wall minus queueing of 1 638 runs of one program beside neighbours (the gate's recording), drawn
with replacement; ``own, in order``: every tenth of them from a random place on, about 4 s apart, in the order in
which they were made. A step of 5 % up or down is put into series like those that are searched without one, at a place
with at least a quarter of the points on each side. Seeds are fixed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pytest_profkit.gate import seconds_of
from pytest_profkit.stopwatch import Reading

from benchmarks.gate.__main__ import read
from profkit.measure.changepoints import change_points

Floats = npt.NDArray[np.float64]
HERE = Path(__file__).parent
RECORDED = HERE.parent / "gate" / "results" / "crowded-one-call.jsonl.gz"
STEP = 1.05
#: Runs of the recording from one point of a series to the next.
APART = 10
#: Points by which a change may be off and still be the one that was put in, of a series of 40; more of longer ones.
NEAR = 5


def walls() -> Callable[[np.random.Generator, int], Floats]:
    """Draw from the repeats of one program, around their median."""
    known = [np.array(found) for found in json.loads((HERE / "walls.json").read_text()).values()]
    centred = [found / np.median(found) for found in known]

    def draw(random: np.random.Generator, points: int) -> Floats:
        found: Floats = random.choice(centred[random.integers(len(centred))], points)
        return found

    return draw


def own(*, in_order: bool) -> Callable[[np.random.Generator, int], Floats]:
    """Take runs of the recording."""
    rows = read(RECORDED)
    taken = np.array([seconds_of([Reading(**row["baseline"][0])]) for row in rows])

    def draw(random: np.random.Generator, points: int) -> Floats:
        if not in_order:
            drawn: Floats = random.choice(taken, points)
            return drawn
        begin = random.integers(len(taken) - APART * (points - 1))
        return taken[begin::APART][:points]

    return draw


def rows(noise: str, draw: Callable[[np.random.Generator, int], Floats]) -> Iterator[str]:
    """Yield one row of the table for each length of a series."""
    for points, series in ((40, 400), (80, 300), (160, 200)):
        random = np.random.default_rng(14)
        found = false = 0
        off = []
        spread = []
        for _ in range(series):
            values = draw(random, points)
            spread.append(float(np.log(values).std()))
            false += len(change_points(values.tolist()))
            place = int(random.integers(points // 4, points - points // 4 + 1))
            ratio = STEP if random.random() < 0.5 else 1 / STEP
            stepped = draw(random, points) * np.where(np.arange(points) < place, 1.0, ratio)
            near = [abs(change.at - place) for change in change_points(stepped.tolist())]
            if near and min(near) <= NEAR * math.sqrt(points / 40):
                found += 1
                off.append(min(near))
        row = [noise, f"{100 * float(np.median(spread)):.1f} %", str(points), str(series)]
        row += [f"{100 * found / series:.1f} %", f"{float(np.median(off)):.0f} points"]
        yield f"| {' | '.join(row)} | {1000 * false / (series * points):.2f} |"


def main() -> None:
    """Print the table."""
    print(
        "| noise | of one run | points | series | steps of 5 % found | off by (median) | false of 1 000 points |"
    )
    print("|---|---|---|---|---|---|---|")
    for noise, draw in (
        ("walls", walls()),
        ("own", own(in_order=False)),
        ("own, in order", own(in_order=True)),
    ):
        for row in rows(noise, draw):
            print(row, flush=True)


if __name__ == "__main__":
    main()
