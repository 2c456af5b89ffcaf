"""Write events to a file, let sort(1) order them, and look for gaps in what it wrote."""

import json
import random
import subprocess
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
ORDER = "--general-numeric-sort" if SETTINGS.get("thorough") else "--numeric-sort"


def write_events(path, seed):
    rng = random.Random(seed)
    lines = [f"{rng.random() * 1e4:.6f} {rng.randrange(64)}" for _ in range(int(40_000 * SETTINGS["size"]))]
    path.write_text("\n".join(lines))


def ordered(path):
    subprocess.run(["sort", ORDER, "--parallel=1", "-o", f"{path}.sorted", path], check=True)
    return Path(f"{path}.sorted").read_text().splitlines()


def gaps(lines):
    last, longest = 0.0, [0.0] * 64
    for line in lines:
        at, _, source = line.partition(" ")
        longest[int(source)] = max(longest[int(source)], float(at) - last)
        last = float(at)
    return longest


def main():
    found = []
    for seed in range(SETTINGS["work"]):
        write_events(Path("events.txt"), seed)
        found.append(max(gaps(ordered(Path("events.txt")))))
    Path("gaps.json").write_text(json.dumps(found))


main()
