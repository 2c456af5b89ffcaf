"""Prints every figure of the README's speed table: ``python -m benchmarks [NAME…]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import big_profiles, hogs
from benchmarks import memory as target_memory
from benchmarks.measuring import PROFKIT, ROOT, Ratio, compare, peak_memory
from benchmarks.pages import page

#: Files of each side where a comparison has replicates.
_REPLICATES = 30

#: Pure-Python calls and nothing else, about half a second: what a tracing profiler slows most.
CALL_HEAVY = """
def leaf(x):
    return x + 1

def branch(n):
    total = 0
    for i in range(n):
        total = leaf(total)
    return total

def tree(depth):
    return branch(50) if depth == 0 else tree(depth - 1) + tree(depth - 1)

for _ in range(12):
    tree(12)
"""


def importing(work: Path, repeats: int) -> list[Ratio]:
    """``import profkit`` against ``import pstats``, the part of the standard library that reads profiles."""
    ours, peer = ([sys.executable, "-c", f"import {name}"] for name in ("profkit", "pstats"))
    return [
        compare("import profkit / import pstats", ours, peer, bar=1.0, cwd=work, repeats=repeats),
    ]


def help_text(work: Path, repeats: int) -> list[Ratio]:
    """``profkit --help`` against importing the libraries that it is made of."""
    peer = [sys.executable, "-c", "import click, rich.console"]
    return [
        compare(
            "profkit --help / import click, rich.console",
            [*PROFKIT, "--help"],
            peer,
            bar=2.5,
            cwd=work,
            repeats=repeats,
        )
    ]


def diff(work: Path, repeats: int) -> list[Ratio]:
    """``profkit diff`` of two large files against only loading both with pstats."""
    load = "import pstats, sys; [pstats.Stats(f) for f in sys.argv[1:]]"
    found = []
    for functions, bar, times in ((10_000, 0.8, repeats), (100_000, 0.25, max(3, repeats // 3))):
        names = [f"{functions}-{seed}.prof" for seed in (1, 2)]
        for seed, name in enumerate(names, 1):
            big_profiles.write(work / name, functions, seed)
        found.append(
            compare(
                f"profkit diff, {functions} functions / pstats.Stats of both",
                [*PROFKIT, "diff", *names],
                [sys.executable, "-c", load, *names],
                bar=bar,
                cwd=work,
                repeats=times,
            )
        )
    sides = ["baseline", "candidate"]
    for number, side in enumerate(sides):
        (work / side).mkdir(exist_ok=True)
        for run in range(_REPLICATES):
            big_profiles.write(work / side / f"{run:02}.prof", 10_000, 1 + run + _REPLICATES * number)
    found.append(
        compare(
            f"profkit diff, {_REPLICATES} + {_REPLICATES} files of 10000 / pstats.Stats of all",
            [*PROFKIT, "diff", *sides],
            [sys.executable, "-c", load, *(str(path) for side in sides for path in (work / side).iterdir())],
            bar=0.15,
            cwd=work,
            repeats=max(3, repeats // 3),
        )
    )
    return found


def show(work: Path, repeats: int) -> list[Ratio]:
    """``profkit show`` of an ordinary run file, in fifths of a second."""
    file = ROOT / "sample_profiles" / "train_mlp" / "oversubscribed.prof"
    wait = [sys.executable, "-c", "import time; time.sleep(0.2)"]
    return [
        compare(
            "profkit show of a sample run / sleep of 0.2 s",
            [*PROFKIT, "show", str(file)],
            wait,
            bar=1.0,
            cwd=work,
            repeats=repeats,
        )
    ]


def capture(work: Path, repeats: int) -> list[Ratio]:
    """``profkit capture`` of a call-heavy script against ``python -m cProfile -o``, less the 150 ms granted."""
    (work / "calls.py").write_text(CALL_HEAVY)
    return [
        compare(
            "(profkit capture − 150 ms) / python -m cProfile -o",
            [*PROFKIT, "capture", "-o", "run.prof", "--quiet", "--", sys.executable, "calls.py"],
            [sys.executable, "-m", "cProfile", "-o", "plain.prof", "calls.py"],
            bar=1.05,
            cwd=work,
            repeats=repeats,
            allowance_s=0.150,
        )
    ]


def memory(work: Path) -> str:
    """Memory of a diff of two 100 000-function files, as a multiple of the files' size."""
    names = [f"100000-{seed}.prof" for seed in (1, 2)]
    for seed, name in enumerate(names, 1):
        if not (work / name).exists():
            big_profiles.write(work / name, 100_000, seed)
    size = sum((work / name).stat().st_size for name in names)
    peak = peak_memory([*PROFKIT, "diff", *names], work)
    peer = peak_memory(
        [sys.executable, "-c", "import pstats, sys; [pstats.Stats(f) for f in sys.argv[1:]]", *names], work
    )
    met = "met" if peak <= 4 * size else "MISSED"
    return (
        f"memory of that diff: {peak / 2**20:.0f} MiB, {peak / size:.1f}× the two files' {size / 2**20:.0f} MiB "
        f"(pstats.Stats of both: {peer / size:.1f}×)  ≤ 4 {met}"
    )


def main() -> None:
    """Measure what was asked for, or everything."""
    suites = {
        "import": importing,
        "help": help_text,
        "diff": diff,
        "show": show,
        "page": page,
        "capture": capture,
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[*suites, "memory", "target-memory", "hogs", []],
        help="what to measure; all but hogs and target-memory by default",
    )
    parser.add_argument(
        "--repeats", type=int, default=11, help="pairs of runs a figure (default: %(default)s)"
    )
    options = parser.parse_args()
    names = options.names or [*suites, "memory"]
    print(
        f"{'whole process, medians of interleaved pairs':<58} {'ours/ms':>8} {'peer/ms':>8}  ratio (least–most)   bar"
    )
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            if name == "memory":
                print(memory(Path(directory)))
                continue
            if name == "target-memory":
                target_memory.report(["3.11", "3.12"], 1)
                continue
            if name == "hogs":
                print(hogs.report(max(30, options.repeats), 3.0), flush=True)
                continue
            for ratio in suites[name](Path(directory), options.repeats):
                print(ratio.line(), flush=True)


if __name__ == "__main__":
    main()
