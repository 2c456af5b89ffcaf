"""What capturing adds to programs, with its budget and without: ``python -m benchmarks.overhead [NAME…]``.

The programs of the verdict benchmark in their clean condition, and loaders in nothing but Python: the worst that a
tracer can be asked for. Each runs plain, captured with the default budget, captured without one, and under cProfile,
in turn; the figures are medians of ratios, round by round. A capture's wall is that of the target, without packing.
Then two versions of each loader are compared with a budget and without: the verdict must be the same.

The programs take 0.3 to 2.5 s, of which imports are a large part. ``--work 5`` gives them five times the work; with
``--budget-only`` they run plain and with the default budget alone.

``--environment ENV`` names the environment that ``benchmarks.verdict setup`` has made; without it only the loaders
run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.measuring import environment
from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
from benchmarks.verdict.take import Cell, _stage
from profkit.formats.runfile import read_run

#: Greatest ratios of the target's wall with the default budget: the median over programs, and the worst.
MEDIAN_BAR, WORST_BAR = 1.10, 1.25

#: In the changed version one line costs more: what a change of code is to be recognised by.
GENETIC = """
import multiprocessing, random

def gene(rng):
    return rng.random()

def fitness(genes):
    total = 0.0
    for g in genes:
        total += score(g)
    return total

def score(g):
    return {SCORE}

def cross(one, other, rng):
    return [a if rng.random() < 0.5 else b for a, b in zip(one, other)]

def generation(people, rng, pool):
    marks = pool.map(fitness, people, chunksize=25)
    ranked = [p for _, p in sorted(zip(marks, people), reverse=True)]
    best = ranked[: len(people) // 4]
    return best + [cross(rng.choice(best), rng.choice(best), rng) for _ in range(len(people) - len(best))]

if __name__ == "__main__":
    rng = random.Random(1)
    people = [[gene(rng) for _ in range(400)] for _ in range(100)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range({ROUNDS}):
            people = generation(people, rng, pool)
"""

RECORDS = """
import random

def field(text):
    return {FIELD}

def parse(line):
    return [field(part) for part in line.split(",")]

def clean(row):
    kept = []
    for value in row:
        if is_number(value):
            kept.append(float(value))
    return kept

def is_number(text):
    return text.replace(".", "", 1).isdigit()

def batches(lines, size):
    batch = []
    for line in lines:
        batch.append(clean(parse(line)))
        if len(batch) == size:
            yield batch
            batch = []

rng = random.Random(2)
lines = [",".join(str(round(rng.random(), 4)) for _ in range(20)) for _ in range(2000)]
total = 0.0
for _ in range({ROUNDS}):
    for batch in batches(lines, 100):
        total += sum(row[0] for row in batch)
"""

#: Name, text, what the places in it are in the usual version and in the changed one.
LOADERS = {
    "genetic": (
        GENETIC,
        {"SCORE": "g * g", "ROUNDS": "40"},
        {"SCORE": "sum([g * g * k for k in range(8)]) / 28"},
    ),
    "records": (
        RECORDS,
        {"FIELD": "text.strip()", "ROUNDS": "25"},
        {"FIELD": "''.join([c for c in text.strip()])"},
    ),
}


def wall(command: Sequence[str], folder: Path, env: dict[str, str]) -> float:
    """Seconds of a process from its start to its end."""
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin


def captured_wall(
    command: Sequence[str], folder: Path, env: dict[str, str], share: str, output: Path
) -> float:
    """Seconds of a target under capture."""
    words = ["capture", "--quiet", "--overhead", share, "-o", str(output), "--", *command]
    start = [sys.executable, "-m", "profkit", *words]
    subprocess.run(
        start,
        cwd=folder,
        env=env | {"PYTHONPATH": environment()["PYTHONPATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    manifest = read_run(str(output), edges=False, processes=False).manifest
    assert manifest is not None
    return manifest.wall_s


def measure(
    name: str, python: str, script: str, folder: Path, env: dict[str, str], repeats: int, *, budget_only: bool
) -> list[float]:
    """Run one program in all ways; return the medians of what is relative to its plain wall, and print them."""
    output = folder / "run.prof"
    rows = []
    for number in range(repeats + 1):
        row = [
            wall([python, script], folder, env),
            captured_wall([python, script], folder, env, "5%", output),
            math.nan if budget_only else captured_wall([python, script], folder, env, "off", output),
            math.nan if budget_only else profiled_wall(python, script, folder, env),
        ]
        if number:  # the first warms caches
            rows.append(row)
    ratios = [statistics.median(row[way] / row[0] for row in rows) for way in range(1, 4)]
    added = statistics.median((row[2] - row[0]) / (row[3] - row[0]) for row in rows)
    plain = statistics.median(row[0] for row in rows)
    print(
        f"{name:<18} {plain * 1e3:9.0f} {ratios[0]:8.2f} {ratios[1]:8.2f} {ratios[2]:8.2f} {added:14.2f}",
        flush=True,
    )
    return ratios


def profiled_wall(python: str, script: str, folder: Path, env: dict[str, str]) -> float:
    """Return the wall under cProfile, seconds; NaN where it makes the program fail, as it does some pools."""
    try:
        return wall([python, "-m", "cProfile", "-o", "plain.prof", script], folder, env)
    except subprocess.CalledProcessError:
        return math.nan


def verdicts(name: str, python: str, work: Path, repeats: int) -> None:
    """Compare both versions of a loader with a budget and without, and print what is said of them."""
    text, usual, changed = LOADERS[name]
    for share in ("5%", "off"):
        sides = []
        for side, places in (("usual", usual), ("changed", {**usual, **changed})):
            folder = work / f"{name}-{share.rstrip('%')}-{side}"
            folder.mkdir()
            script = folder / "loader.py"
            script.write_text(filled(text, places))
            for number in range(repeats):
                captured_wall(
                    [python, str(script)], folder, dict(os.environ), share, folder / f"run-{number}.prof"
                )
            sides.append(f"{folder}/run-*.prof")
        done = subprocess.run(
            [sys.executable, "-m", "profkit", "diff", *sides, "--format", "json"],
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        account = ", ".join(
            f"{bucket['name']} {bucket['seconds']:+.2f} s"
            for bucket in found["account"]["buckets"]
            if abs(bucket["seconds"]) >= 0.02
        )
        verdict = found["verdict"]
        print(f"{name:<18} {share:>4}  {verdict['cause']} ({verdict['confidence']}): {account}", flush=True)


def filled(text: str, places: dict[str, str]) -> str:
    """Put what varies into a program."""
    for place, value in places.items():
        text = text.replace("{" + place + "}", value)
    return text


def main() -> None:
    """Measure what was asked for, or everything."""
    programs = [name for name, program in PROGRAMS.items() if not program.store and not program.ranks]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*programs, *LOADERS, []], help="all by default")
    parser.add_argument("--environment", type=Path, help="where the libraries of the verdict benchmark are")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the loaders")
    parser.add_argument("--repeats", type=int, default=5, help="rounds a figure (default: %(default)s)")
    parser.add_argument("--work", type=int, default=1, help="times the usual work (default: %(default)s)")
    parser.add_argument("--budget-only", action="store_true", help="plain and with the default budget alone")
    parser.add_argument("--no-verdicts", action="store_true", help="measure walls alone")
    options = parser.parse_args()
    names = options.names or [*(programs if options.environment else ()), *LOADERS]
    clean = replace(CONDITIONS["clean"], work=options.work)
    print(f"{'':<18} {'plain/ms':>9} {'5% / ×':>8} {'off / ×':>8} {'cProf./×':>8} {'off/cProf. add':>14}")
    with tempfile.TemporaryDirectory() as directory:
        work, budget = Path(directory), []
        for name in names:
            if name in LOADERS:
                folder = work / name
                folder.mkdir()
                text, usual, _ = LOADERS[name]
                rounds = str(options.work * int(usual["ROUNDS"]))
                (folder / "loader.py").write_text(filled(text, usual | {"ROUNDS": rounds}))
                python, script, env = options.python, "loader.py", dict(os.environ)
            else:
                program, python = PROGRAMS[name], str(options.environment / "bin" / "python")
                folder = _stage(work, Cell(name, "clean", 1), program, clean, 0)
                script, env = f"{name}.py", {**os.environ, **program.environment}
            found = measure(
                name, python, script, folder, env, options.repeats, budget_only=options.budget_only
            )
            budget.append(found[0])
        median, worst = statistics.median(budget), max(budget)
        print(
            f"with the budget: median {median:.2f} ≤ {MEDIAN_BAR:g} {'met' if median <= MEDIAN_BAR else 'MISSED'}, "
            f"worst {worst:.2f} ≤ {WORST_BAR:g} {'met' if worst <= WORST_BAR else 'MISSED'}"
        )
        for name in names if not options.no_verdicts else ():
            if name in LOADERS:
                verdicts(name, options.python, work, max(2, options.repeats // 2))


if __name__ == "__main__":
    main()
