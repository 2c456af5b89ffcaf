"""Search logs with grep(1), one process for each of a few threads, and count in Python what it found."""

import json
import random
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
CASES = ["--ignore-case"] if SETTINGS.get("thorough") else []
PATTERN = r"user=[a-f][a-f0-9]*[05]\b.* by=[0-9]"
WORDS = [random.Random(seed).randbytes(2).hex() for seed in range(200)]


def write_log(number):
    rng = random.Random(number)
    path = Path(f"{number % 8}.log")
    path.write_text(
        "\n".join(
            f"{rng.random():.6f} user={rng.choice(WORDS)} {rng.choice(WORDS)} by={rng.choice(WORDS)}"
            for _ in range(int(30_000 * SETTINGS["size"]))
        )
    )
    return path


def matches(path):
    return (
        subprocess.run(["grep", "-E", *CASES, PATTERN, path], stdout=subprocess.PIPE)
        .stdout.decode()
        .splitlines()
    )


def users(lines):
    return Counter(line.split("user=")[1][:4] for line in lines)


def main():
    paths = [write_log(number) for number in range(8)]
    found = Counter()
    with ThreadPoolExecutor(SETTINGS["workers"]) as pool:
        for _ in range(SETTINGS["work"]):
            for lines in pool.map(matches, paths):
                found += users(lines)
    Path("users.json").write_text(json.dumps(found.most_common(20)))


main()
