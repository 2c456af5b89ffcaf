"""Write reports and compress each with gzip, a program of its own, through its pipes."""

import json
import random
import subprocess
from collections import Counter
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
LEVEL = "-9" if SETTINGS.get("thorough") else "-1"


def make_rows(seed):
    rng = random.Random(seed)
    known = [rng.randbytes(4).hex() for _ in range(60)]
    return [
        (rng.choice(known), rng.randrange(900), rng.choice(known))
        for _ in range(int(9000 * SETTINGS["size"]))
    ]


def totals(rows):
    found = Counter()
    for name, amount, _ in rows:
        found[name] += amount
    return found


def report(rows):
    lines = [f"{name} {amount:6} {note}" for name, amount, note in rows]
    lines += [f"{name}: {total}" for name, total in totals(rows).most_common()]
    return "\n".join(lines).encode() * 8


def pack(text):
    return subprocess.run(["gzip", LEVEL], input=text, stdout=subprocess.PIPE, check=True).stdout


def main():
    sizes = [len(pack(report(make_rows(seed)))) for seed in range(SETTINGS["work"])]
    Path("sizes.json").write_text(json.dumps(sizes))


main()
