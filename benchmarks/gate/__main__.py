"""How often the gate is wrong beside busy neighbours: ``python -m benchmarks.gate record|score FILE…``.

``record`` runs a program, the same again, and one that does 5 % more, each in a fresh process and in random order,
beside processes that take CPUs, and writes what each took. ``score`` gives these runs to the gate in the order in
which they were made, as if each gate had started when the one before it had ended: what it decides depends on nothing
else. Nothing here is drawn but the order of the runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_profkit.gate import BASELINE, gate, seconds_of
from pytest_profkit.stopwatch import Reading

#: The programs, by how much they do: the baseline twice, and what is to be found.
SCALES = {"baseline": "1", "same": "1", "slower": "1.05"}
#: What a neighbour does: computes for a while, and rests or does not.
NEIGHBOUR = """
import random, sys, time
source = random.Random(int(sys.argv[1]))
while True:
    end = time.monotonic() + source.uniform(0.2, 2.0)
    while time.monotonic() < end:
        sum(range(2000))
    time.sleep(source.uniform(0.1, 0.8) if sys.argv[2] == "bursty" else 0)
"""
LEAST = 0.05


def record(output: Path, seconds: float, neighbours: int, calls: int, seed: int) -> None:
    """Append one line of JSON for each triple of runs to a file compressed by gzip."""
    source = random.Random(seed)
    kinds = ["steady", "bursty"]
    busy = [
        subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(seed + i), kinds[i % 2]])
        for i in range(neighbours)
    ]
    try:
        end = time.monotonic() + seconds
        with gzip.open(output, "at", encoding="utf-8") as file:
            while time.monotonic() < end:
                names = list(SCALES)
                source.shuffle(names)
                environment = {**os.environ, "PYTHONHASHSEED": str(source.randrange(1, 2**31))}
                taken = {name: _run(SCALES[name], calls, environment) for name in names}
                row = {"time": round(time.time(), 1), **{name: taken[name] for name in SCALES}}
                file.write(json.dumps(row) + "\n")
    finally:
        for process in busy:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _run(scale: str, calls: int, environment: dict[str, str]) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.gate.program", scale, str(calls)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [{name: round(value, 6) for name, value in call.items()} for call in json.loads(done.stdout)]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the triples of a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _readings(row: dict[str, Any], name: str) -> list[Reading]:
    return [Reading(**call) for call in row[name]]


def trials(rows: Sequence[dict[str, Any]], baseline: str, candidate: str) -> Iterator[tuple[str, int, int]]:
    """Yield the outcome, the pairs and the repeated pairs of one gate after another."""
    at = 0

    def run(side: str, number: int) -> list[Reading]:
        return _readings(rows[at + number], baseline if side == BASELINE else candidate)

    while True:
        try:
            found = gate(run, LEAST)
        except IndexError:
            return  # the runs are over before it was decided
        yield found.decision.outcome, found.decision.pairs, found.repeated
        at += found.decision.pairs + found.repeated


def score(files: Sequence[Path]) -> None:
    """Print how often each outcome came, for what is the same and for what is slower."""
    heads = "| runs | noise of a pair | others | compared | gates "
    print(heads + "| slower | no slower | undecided | pairs | repeated |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for path in files:
        rows = read(path)
        noise = [
            abs(math.log(seconds_of(_readings(row, "same")) / seconds_of(_readings(row, "baseline"))))
            for row in rows
        ]
        others = sorted(row["baseline"][0]["others_cores"] for row in rows)[len(rows) // 2]
        spread = 1.4826 * sorted(noise)[len(noise) // 2]
        for baseline, candidate in (
            ("baseline", "same"),
            ("same", "baseline"),
            ("baseline", "slower"),
            ("same", "slower"),
        ):
            found = list(trials(rows, baseline, candidate))
            counts = Counter(outcome for outcome, _, _ in found)
            n = len(found)
            parts = [f"{100 * counts[outcome] / n:.1f} %" for outcome in ("slower", "no-slower", "undecided")]
            means = [
                f"{sum(values) / n:.1f}" for values in zip(*(numbers for _, *numbers in found), strict=True)
            ]
            row = [
                f"{path.name.partition('.')[0]}, {len(rows)}",
                f"{100 * spread:.1f} %",
                f"{others:.1f} CPUs",
            ]
            row += [f"{candidate} than {baseline}", str(n), *parts, *means]
            print(f"| {' | '.join(row)} |")


def main() -> None:
    """Record or score."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("what", choices=["record", "score"])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=110.0, help="of a recording (default: %(default)s)")
    parser.add_argument(
        "--neighbours", type=int, default=2, help="busy processes beside it (default: %(default)s)"
    )
    parser.add_argument("--calls", type=int, default=3, help="of a run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the runs (default: %(default)s)")
    options = parser.parse_args()
    if options.what == "record":
        record(options.files[0], options.seconds, options.neighbours, options.calls, options.seed)
    else:
        score(options.files)


if __name__ == "__main__":
    main()
