"""A piece of work of a given length in a fresh process, measured as a gate measures: a JSON array of its calls.

``python -m benchmarks.gate.program SCALE CALLS``: parses and counts words, SCALE times as much as the baseline.
"""

from __future__ import annotations

import dataclasses
import json
import random
import sys

from pytest_profkit.stopwatch import Stopwatch

#: Lines of the baseline: about 70 ms on the machine of the documentation.
LINES = 40_000


def work(lines: int) -> int:
    """Parse lines, count their words, and order them."""
    source = random.Random(7)
    counts: dict[str, int] = {}
    total = 0
    for number in range(lines):
        line = f"{number} key{source.randrange(900)}=value{source.randrange(40)} " + "x" * (number % 17)
        for word in line.replace("=", " ").split():
            counts[word] = counts.get(word, 0) + 1
            total += len(word)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return total + len(order)


def main() -> None:
    """Warm up, measure, print."""
    lines = round(LINES * float(sys.argv[1]))
    work(200)
    found = []
    for _ in range(int(sys.argv[2])):
        watch = Stopwatch()
        work(lines)
        found.append(dataclasses.asdict(watch.stop()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
