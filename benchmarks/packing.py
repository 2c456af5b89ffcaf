"""What a capture takes after its target has ended: ``python -m benchmarks.packing [--python PYTHON]``.

The target is a shell that runs a program and notes the time when it has ended. Each program is captured with an empty
cache of source files, and again with what that left; both have the bar. Then so many rank files are merged, for
the memory that takes. A program whose modules the interpreter lacks is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import big_profiles
from benchmarks.measuring import PROFKIT, environment, has_module, peak_memory
from profkit.formats import load_run, write_run
from profkit.model import Host, Manifest

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Points(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(16), torch.randint(0, 3, ())

if __name__ == "__main__":
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        for inputs, labels in DataLoader(Points(), batch_size=8, num_workers=2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
"""
POOL = """
import multiprocessing
import {module}

def work(number):
    return number * number

if __name__ == "__main__":
    with multiprocessing.get_context("{start}").Pool(64) as pool:
        pool.map(work, range(256), chunksize=1)
        pool.close()
        pool.join()
"""
#: Name, the module it needs, its text, and the bar: seconds, or seconds a process.
PROGRAMS = (
    ("PyTorch, imported", "torch", "import torch", 0.3, False),
    ("PyTorch, DataLoader of 2", "torch", TRAINING, 0.3, False),
    ("Pool of 64, fork, scikit-learn", "sklearn", POOL, 0.020, True),
    ("Pool of 64, spawn, NumPy", "numpy", POOL, 0.020, True),
)
MODULES = {"sklearn": "sklearn.linear_model"}


def tail(work: Path, python: str, cache: Path) -> float:
    """Seconds from the end of the program to the end of its capture."""
    script = f'"{python}" program.py >program.out; date +%s.%N >ended'
    command = [*PROFKIT, "capture", "-q", "-o", "run.prof", "--", "sh", "-c", script]
    subprocess.run(command, cwd=work, env={**environment(), "XDG_CACHE_HOME": str(cache)}, check=True)
    return time.time() - float((work / "ended").read_text())


def programs(work: Path, python: str, repeats: int) -> None:
    """Print a line for each program."""
    print(f"{'after the program has ended':<34} {'processes':>9} {'first/s':>8} {'again/s':>8}   bar")
    for name, module, text, bar, each in PROGRAMS:
        if not has_module(python, module):
            print(f"{name:<34} left out: {python} has no {module}")
            continue
        start = "fork" if "fork" in name else "spawn"
        text = text if text is not POOL else text.format(module=MODULES.get(module, module), start=start)
        (work / "program.py").write_text(text)
        first = [tail(work, python, work / f"cache-{module}-{number}") for number in range(repeats)]
        again = [tail(work, python, work / f"cache-{module}-0") for _ in range(repeats)]
        count = len(load_run(work / "run.prof").processes)
        unit = bar * count if each else bar
        times = [statistics.median(first), statistics.median(again)]
        met = "met" if max(times) <= unit else "MISSED"
        print(f"{name:<34} {count:>9} {times[0]:8.3f} {times[1]:8.3f}   ≤ {unit:.2f} {met}", flush=True)


def merging(work: Path, functions: int) -> None:
    """Print the memory that merging rank files takes."""
    big_profiles.write(work / "plain.prof", functions, 1)
    run = load_run(work / "plain.prof")
    for rank in range(64):
        manifest = Manifest(
            "profkit.run/2",
            "",
            ("train",),
            "/",
            0,
            "",
            1.0,
            Host("node"),
            job={"id": "1", "rank": rank, "world_size": 64},
        )
        write_run(work / f"{rank:02d}.prof", type(run)("", run.processes, manifest))
    for count in (2, 8, 64):
        files = [f"{rank:02d}.prof" for rank in range(count)]
        begin = time.perf_counter()
        peak = peak_memory([*PROFKIT, "merge", *files, "-o", "merged.prof"], work)
        wall = time.perf_counter() - begin
        print(
            f"merge of {count:2} rank files of {functions} functions: {peak / 2**20:.0f} MiB, {wall:.2f} s",
            flush=True,
        )


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the programs")
    parser.add_argument("--repeats", type=int, default=3, help="captures a figure (default: %(default)s)")
    parser.add_argument("--functions", type=int, default=10_000, help="of a rank file (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        programs(Path(directory), os.path.abspath(options.python), options.repeats)
        merging(Path(directory), options.functions)


if __name__ == "__main__":
    main()
