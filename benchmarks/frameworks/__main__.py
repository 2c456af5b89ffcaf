"""What a capture costs with widely used frameworks: ``python -m benchmarks.frameworks PYTHON [NAME…]``.

`PYTHON` is an interpreter with the libraries of requirements.txt. Each program runs plain, captured, and under
``python -m cProfile -o``, in turn. *total* is the wall of the whole ``profkit capture`` command: its start, the
target, and packing. The measure is (total − 150 ms) over cProfile's wall, the median of rounds. cProfile sees one
thread of one process; a capture follows the workers of a DataLoader or of Dask, and the kernel of a notebook.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import environment
from profkit.formats.runfile import read_run

PROGRAMS = Path(__file__).parent / "programs"
ALLOWANCE_S, BAR = 0.150, 1.05

#: Name, the words behind the interpreter.
COMMANDS = {
    "numpy": ("numpy_training.py",),
    "dataloader": ("dataloader.py",),
    "hf_trainer": ("hf_trainer.py",),
    "jax": ("jax_training.py",),
    "keras": ("keras_fit.py",),
    "pytest": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_suite.py"),
    "dask_threads": ("dask_threads.py",),
    "dask_processes": ("dask_processes.py",),
    "nbconvert": ("-m", "nbconvert", "--execute", "--to", "notebook", "--output", "done", "analysis.ipynb"),
}


@dataclass(frozen=True, slots=True)
class Round:
    """One run of a program in each of the three ways; seconds.

    Attributes
    ----------
    plain, total, peer
        Walls of the program alone, of the whole capture, and of the program under cProfile.
    front, tail
        Of `total`: before the target was started, and after it had ended.
    """

    plain: float
    total: float
    peer: float
    front: float
    tail: float

    @property
    def ratio(self) -> float:
        """Of the capture, less what it is granted, to cProfile."""
        return (self.total - ALLOWANCE_S) / self.peer


def timed(command: Sequence[str], folder: Path, env: dict[str, str]) -> tuple[float, float, float]:
    """Run a command that must succeed: its wall, and when it began and ended, seconds."""
    with (folder / "said.txt").open("w+") as said:
        begin = time.perf_counter()
        status = subprocess.run(
            command, cwd=folder, env=env, stdout=said, stderr=said, check=False
        ).returncode
        end = time.perf_counter()
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {status}:\n{said.read()[-2000:]}")
    return end - begin, begin, end


def one_round(python: str, words: Sequence[str], folder: Path, env: dict[str, str]) -> Round:
    """Run a program in all ways."""
    target = [python, *words]
    plain, _, _ = timed(target, folder, env)
    ours = [sys.executable, "-m", "profkit", "capture", "--quiet", "-o", "run.prof", "--", *target]
    total, begin, end = timed(ours, folder, {**env, "PYTHONPATH": environment()["PYTHONPATH"]})
    peer, _, _ = timed([python, "-m", "cProfile", "-o", "plain.prof", *words], folder, env)
    manifest = read_run(str(folder / "run.prof"), edges=False, processes=False).manifest
    assert manifest is not None
    # CLOCK_MONOTONIC, which all processes share.
    started = manifest.clocks["perf_counter"]
    return Round(plain, total, peer, started - begin, end - started - manifest.wall_s)


def measure(name: str, python: str, work: Path, repeats: int) -> float:
    """Measure one program, print its row, and return its ratio."""
    folder = work / name
    shutil.copytree(PROGRAMS, folder)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # What a first run leaves is the following ones' own: the cache of source files too.
    env |= {"OPENBLAS_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    first = one_round(python, COMMANDS[name], folder, env)
    rounds = [one_round(python, COMMANDS[name], folder, env) for _ in range(repeats)]

    def middle(field: str) -> float:
        return statistics.median(getattr(each, field) for each in rounds)

    ratios = sorted(each.ratio for each in rounds)
    ratio = statistics.median(ratios)
    added = statistics.median(each.total - each.plain for each in rounds)
    print(
        f"{name:<15} {middle('plain'):8.2f} {middle('total'):8.2f} {middle('peer'):8.2f} {added:8.2f} "
        f"{middle('front'):8.2f} {middle('tail'):8.2f} {first.tail:8.2f}  "
        f"{ratio:5.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})  {'met' if ratio <= BAR else 'MISSED'}",
        flush=True,
    )
    return ratio


def main() -> None:
    """Measure what was asked for, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("python", metavar="PYTHON", help="interpreter that has the frameworks")
    parser.add_argument("names", nargs="*", choices=[*COMMANDS, []], help="all by default")
    parser.add_argument("--repeats", type=int, default=5, help="rounds a figure (default: %(default)s)")
    options = parser.parse_intermixed_args()
    python = shutil.which(options.python)
    if python is None:
        parser.error(f"there is no interpreter {options.python}")
    print(
        f"{'seconds':<15} {'plain':>8} {'total':>8} {'cProfile':>8} {'added':>8} {'before':>8} {'packing':>8} "
        f"{'first':>8}  (total − 0.15) / cProfile ≤ {BAR:g}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for name in options.names or COMMANDS:
            measure(name, os.path.abspath(python), Path(directory), options.repeats)


if __name__ == "__main__":
    main()
